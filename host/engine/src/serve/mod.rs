//! Serves `/healthz`, `/readyz` and `/metrics`, and the recent calls on an address of this machine. Any Pod can connect, so
//! connections have limits.

mod connections;
mod debug;
mod listen;
mod liveness;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use self::connections::{CONNECTION_TIME, serve};
use self::liveness::BEAT;
use crate::cluster::lease::{NAME as LEASE, WriteGate};
use crate::cluster::watch::{AllProgress, Stalled};
use crate::telemetry::{CONTENT_TYPE, Scrape, one_line};

pub use debug::serve_debug;
pub use listen::{DebugAddr, listen, listen_debug};
pub use liveness::Liveness;

/// Readiness of the host. A leader is ready if it may write, its caches are filled and followed, and every Plugin was
/// reconciled once; a standby, if its caches are filled and followed, and every component is compiled. A kind for which the API server
/// answers with an error does not count, unless this is so for all kinds: another host would not do better.
#[derive(Debug, Clone, Default)]
pub struct Readiness {
    state: Arc<AtomicU8>,
    /// Whether the host has a shard.
    shares: Arc<AtomicBool>,
    /// What else keeps the host from its work.
    lacks: Arc<Mutex<Option<String>>>,
    watches: AllProgress,
    gate: WriteGate,
}

const STARTING: u8 = 0;
const STANDING_BY: u8 = 1;
const LEADING: u8 = 2;
const READY: u8 = 3;
const STOPPING: u8 = 4;
const SHARING: u8 = 5;

impl Readiness {
    /// The readiness of a host with these watches, which writes while this gate is open.
    pub fn new(watches: AllProgress, gate: WriteGate) -> Self {
        Self { state: Arc::default(), shares: Arc::default(), lacks: Arc::default(), watches, gate }
    }

    /// Marks the host as ready; a Plugin that is created later does not change that. Returns whether the host was not
    /// ready before.
    pub fn ready(&self) -> bool {
        let next = |state| matches!(state, STARTING | LEADING).then_some(READY);
        self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }

    /// Marks a standby as prepared to take over.
    pub fn standing_by(&self) {
        // A preparation may end after the host has begun to lead, or to stop.
        if self.state.compare_exchange(STARTING, STANDING_BY, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return;
        }
        if self.shares.load(Ordering::SeqCst) {
            self.joined();
        } else {
            tracing::info!("standing by: prepared to take over");
        }
    }

    /// Marks the host as one with a shard.
    ///
    /// In one order with the calls of [`standing_by`](Self::standing_by): if these two miss each other, the host is never ready.
    pub fn joined(&self) {
        self.shares.store(true, Ordering::SeqCst);
        // A host that has not prepared every Plugin yet is not ready.
        let _ = self.state.compare_exchange(STANDING_BY, SHARING, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Marks the host as the leader, which is not ready before it has tried every Plugin.
    pub fn leading(&self) {
        let next = |state| matches!(state, STARTING | STANDING_BY | SHARING).then_some(LEADING);
        // A host that stops does not lead any more.
        let _ = self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    /// Sets what keeps the host from its work; none if nothing does.
    pub fn lacks(&self, message: Option<String>) {
        *self.lacks.lock() = message;
    }

    /// Marks the host as stopping; it does not become ready again.
    pub fn stopping(&self) {
        self.state.store(STOPPING, Ordering::Relaxed);
    }

    /// Checks whether the host is ready; returns the response.
    ///
    /// # Errors
    /// Why the host is not ready.
    fn get(&self) -> Result<String, String> {
        let (state, holds_lease) = (self.state.load(Ordering::Relaxed), self.gate.is_open());
        let response = match (state, holds_lease) {
            (STOPPING, _) => return Err("the host is stopping".to_owned()),
            (STARTING, false) => {
                return Err(format!(
                    "this host does not hold the Lease {LEASE}, and has not prepared every Plugin yet"
                ));
            }
            (STANDING_BY, false) => "ok: standing by",
            (_, false) => {
                return Err(format!(
                    "this host could not renew the Lease {LEASE}, or that of its shard, in time, so it changes nothing else"
                ));
            }
            (SHARING, true) => "ok: sharing the parents",
            (STARTING | STANDING_BY | LEADING, true) => return Err("not every Plugin was tried yet".to_owned()),
            (_, true) => "ok",
        };
        if let Some(message) = self.lacks.lock().clone() {
            return Err(message);
        }
        let stalled = self.watches.stalled();
        if stalled.is_empty() {
            return Ok(response.to_owned());
        }
        let line = |(kind, stalled): (_, &Stalled)| {
            format!("the watch of {kind} has stalled: {}", one_line(&stalled.to_string()))
        };
        let lines = stalled.iter().map(line).collect::<Vec<_>>().join("\n") + "\n";
        // If the API server answers with an error for some kinds, such as one whose conversion webhook fails, it answers every host so, and
        // an update of the host must not wait for it. The Plugins with these kinds report it.
        let is_common = stalled.values().all(|stalled| stalled.is_answer) && !self.watches.have_all_stalled();
        if is_common { Ok(format!("{response}\n{lines}")) } else { Err(lines) }
    }
}

/// Serves `/healthz` and `/readyz` until `stop` is cancelled, by a thread and a runtime of their own.
///
/// # Errors
/// If the thread cannot be started, or panics.
pub async fn serve_health(
    listener: TcpListener,
    readiness: Readiness,
    liveness: Liveness,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    tracing::info!(address = %listener.local_addr()?, "serving /healthz and /readyz");
    let listener = listener.into_std()?;
    let (end, ended) = oneshot::channel();
    let serve = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(health(listener, readiness, liveness, BEAT, stop))
    };
    std::thread::Builder::new().name("health".to_owned()).spawn(move || end.send(serve()))?;
    ended.await.context("the thread of /healthz panicked")?
}

/// Serves `/healthz` and `/readyz` in this runtime; the host is looked at once in a `beat`.
async fn health(
    listener: std::net::TcpListener,
    readiness: Readiness,
    liveness: Liveness,
    beat: Duration,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let stuck = Arc::new(Mutex::new(Vec::new()));
    let alive = stuck.clone();
    let unavailable = |problems: String| (StatusCode::SERVICE_UNAVAILABLE, problems);
    let is_alive = async move || {
        let problems: String = alive.lock().concat();
        if problems.is_empty() { Ok("ok") } else { Err(unavailable(problems)) }
    };
    let is_ready = async move || readiness.get().map_err(unavailable);
    let app = Router::new().route("/healthz", get(is_alive)).route("/readyz", get(is_ready));
    let listener = TcpListener::from_std(listener)?;
    tokio::select! {
        () = serve(listener, app, CONNECTION_TIME, stop) => Ok(()),
        () = liveness.watch(beat, |found| note_stuck(&stuck, found)) => Ok(()),
    }
}

/// Stores what is stuck for `/healthz`; each change is logged.
fn note_stuck(stuck: &Mutex<Vec<String>>, found: Vec<String>) {
    let mut stuck = stuck.lock();
    if *stuck == found {
        return;
    }
    if found.is_empty() {
        tracing::info!("the host makes progress again");
    } else {
        let parts = one_line(&found.concat()).into_owned();
        tracing::error!(stuck = parts, "/healthz fails while a part of the host is stuck; please report this");
    }
    *stuck = found;
}

/// Serves `/metrics` until `stop` is cancelled.
///
/// # Errors
/// If the listener has no address.
pub async fn serve_metrics(listener: TcpListener, scrape: Scrape, stop: CancellationToken) -> anyhow::Result<()> {
    tracing::info!(address = %listener.local_addr()?, "serving /metrics");
    let app = Router::new().route("/metrics", get(metrics)).with_state(scrape);
    serve(listener, app, CONNECTION_TIME, stop).await;
    Ok(())
}

async fn metrics(State(scrape): State<Scrape>) -> Result<impl IntoResponse, (StatusCode, String)> {
    let text = scrape.text().await.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::{Duration, Instant};

    use kube::runtime::watcher;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::runtime::Handle;
    use windlass_core::hosts::progress::{FAILING_LIMIT, SILENCE_LIMIT};
    use windlass_core::value::ids::Gvk;

    use super::connections::CONNECTIONS;
    use super::*;
    use crate::cluster::watch::WatchProgress;

    #[test]
    fn host_is_not_ready_while_a_watch_has_stalled_and_names_the_kind() {
        let watches = AllProgress::default();
        let secrets = watches.track(&Gvk::from_api_version("v1", "Secret"));
        let gate = WriteGate::default();
        let readiness = Readiness::new(watches.clone(), gate.clone());
        gate.leader.open_until(Duration::MAX);
        assert!(readiness.get().is_err_and(|message| message.contains("Plugin")));
        readiness.ready();
        assert_eq!(readiness.get(), Ok("ok".to_owned()));
        watches.check(Instant::now() + SILENCE_LIMIT + Duration::from_secs(1));
        assert!(
            readiness
                .get()
                .is_err_and(|message| message.starts_with("the watch of Secret.v1 has stalled: no progress"))
        );
        secrets.listed();
        watches.check(Instant::now());
        assert_eq!(readiness.get(), Ok("ok".to_owned()));
        gate.leader.close();
        assert!(readiness.get().is_err_and(|message| message.contains("the Lease windlass")));
        readiness.stopping();
        assert!(readiness.get().is_err_and(|message| message.contains("stopping")));
    }

    #[test]
    fn host_is_ready_while_the_api_server_answers_with_an_error_for_one_kind_and_not_for_all() {
        let watches = AllProgress::default();
        let [broken, others] =
            ["Broken", "Pod"].map(|kind| watches.track(&Gvk::from_api_version("my-operator.dev/v1", kind)));
        let gate = WriteGate::default();
        let readiness = Readiness::new(watches.clone(), gate.clone());
        gate.leader.open_until(Duration::MAX);
        readiness.ready();
        let fail = |watch: &WatchProgress| {
            let message = "conversion webhook failed".to_owned();
            let status = kube::core::Status { code: 500, message, ..kube::core::Status::default() };
            watch.interrupted(&watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status))));
        };
        let later = || Instant::now() + FAILING_LIMIT;
        fail(&broken);
        watches.check(later());
        let response = readiness.get().expect("ready");
        assert!(response.starts_with("ok\nthe watch of Broken.v1.my-operator.dev has stalled: "), "{response}");
        assert!(response.contains("conversion webhook failed"), "{response}");
        fail(&others);
        watches.check(later());
        assert!(readiness.get().is_err_and(|message| message.contains("Pod") && message.contains("Broken")));
        others.listed();
        others.check(later());
        assert!(readiness.get().is_ok());
        // A connection that fails may be the host's own.
        broken.interrupted(&watcher::Error::NoResourceVersion);
        broken.listed();
        broken.check(Instant::now());
        broken.interrupted(&watcher::Error::NoResourceVersion);
        broken.check(later());
        assert!(readiness.get().is_err_and(|message| message.contains("Broken")));
    }

    #[test]
    fn h01_standby_is_ready_once_it_is_prepared_and_a_new_leader_once_it_tried_every_plugin() {
        let gate = WriteGate::default();
        let readiness = Readiness::new(AllProgress::default(), gate.clone());
        assert!(readiness.get().is_err_and(|message| message.contains("prepared every Plugin")));
        readiness.standing_by();
        assert_eq!(readiness.get(), Ok("ok: standing by".to_owned()));
        readiness.leading();
        assert!(readiness.get().is_err(), "the gate of a leader is closed");
        gate.leader.open_until(Duration::MAX);
        readiness.standing_by();
        assert!(readiness.get().is_err_and(|message| message.contains("not every Plugin was tried")));
        assert!(readiness.ready());
        assert_eq!(readiness.get(), Ok("ok".to_owned()));
        readiness.standing_by();
        gate.leader.close();
        assert!(readiness.get().is_err_and(|message| message.contains("could not renew the Lease windlass")));
    }

    /// The response of `/healthz` on a new connection.
    async fn healthz(address: SocketAddr) -> String {
        let mut stream = TcpStream::connect(address).await.expect("connected");
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("sent");
        let mut response = String::new();
        stream.read_to_string(&mut response).await.expect("a response, and the end of the connection");
        response
    }

    #[tokio::test]
    async fn s10_idle_connections_beyond_the_limit_do_not_stop_healthz_from_responding() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let stop = CancellationToken::new();
        let liveness = Liveness::new(Handle::current());
        let serving = tokio::spawn(serve_health(listener, Readiness::default(), liveness, stop.clone()));
        let mut idle = Vec::new();
        for _ in 0..3 * CONNECTIONS {
            idle.push(TcpStream::connect(address).await.expect("connected"));
        }
        assert!(healthz(address).await.starts_with("HTTP/1.1 200"));
        // The oldest connections were ended, so no more than the limit remain.
        let mut byte = [0];
        for stream in idle.iter_mut().take(2 * CONNECTIONS) {
            assert!(matches!(stream.read(&mut byte).await, Ok(0) | Err(_)), "an idle connection is still served");
        }
        stop.cancel();
        assert!(serving.await.expect("no panic").is_ok());
    }

    #[test]
    fn healthz_responds_and_fails_while_all_threads_of_the_runtime_are_stuck() {
        const THREADS: usize = 2;
        let stuck = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).build().expect("a runtime");
        let liveness = Liveness::new(stuck.handle().clone());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("for the runtime");
        let address = listener.local_addr().expect("an address");
        let beat = Duration::from_millis(1);
        let own = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        own.block_on(async {
            let stop = CancellationToken::new();
            let serving = tokio::spawn(health(listener, Readiness::default(), liveness, beat, stop.clone()));
            let mut blocked = Vec::new();
            for _ in 0..THREADS {
                let (release, released) = std::sync::mpsc::channel::<()>();
                stuck.spawn(async move { released.recv() });
                blocked.push(release);
            }
            let is_stuck = |response: &str| {
                response.starts_with("HTTP/1.1 503")
                    && (0..THREADS).all(|at| response.contains(&format!("thread {at} is")))
            };
            until(address, is_stuck).await;
            drop(blocked);
            until(address, |response| response.starts_with("HTTP/1.1 200")).await;
            stop.cancel();
            assert!(serving.await.expect("no panic").is_ok());
        });
    }

    /// Waits for a response of `/healthz` that satisfies a condition; a minute is for a failure only.
    async fn until(address: SocketAddr, condition: impl Fn(&str) -> bool) {
        let found = async { while !condition(&healthz(address).await) {} };
        tokio::time::timeout(Duration::from_mins(1), found).await.expect("such a response of /healthz");
    }
}
