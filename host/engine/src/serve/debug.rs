//! Serves the recent calls of parents, without values of Secrets, for `windlass explain` and `windlass record`.
//!
//! Only processes in the host's Pod can connect, and `kubectl port-forward`, for which a user needs permission. The specs of parents
//! are not masked.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Query, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use futures::stream;
use parking_lot::Mutex;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::spawn_blocking;
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_core::object::masking::{KEY_LENGTH, Masker};
use windlass_core::reconcile::recent::Reconciled;
use windlass_core::reconcile::recording::{RecordedCall, export, export_all, learn};
use windlass_core::value::line::json as escaped;

use super::connections::{ConnectionEnd, serve};
use crate::recent::Recent;

/// Number of streams that are served at once: each may have megabytes of Secrets in memory. A new one ends the oldest.
const STREAMS: usize = 3;
/// Number of other requests that are served at once, for the same reason; the next one waits.
const AT_ONCE: usize = 1;
/// Time for the response to one of these requests.
const RESPONSE_TIME: Duration = Duration::from_secs(20);
/// Lifetime of a connection: the longest recording.
pub const CONNECTION_TIME: Duration = Duration::from_hours(1);

/// The recent calls that a request asks for. Without a filter: all.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    plugin: Option<String>,
    /// The kind of the parents as kubectl accepts it: kind or plural, with or without the group.
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    /// Whether a stream goes on after the calls that are kept; default: true.
    follow: Option<bool>,
}

impl Wanted {
    fn includes(&self, one: &Reconciled) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| wanted == found.unwrap_or_default())
        };
        let (kind, plural) = (&one.parent.kind, &one.plural);
        is(&self.plugin, Some(one.parent.plugin.as_str()))
            // As for kubectl, a namespace has no effect on cluster-scoped objects.
            && one.parent.key.namespace.as_deref().is_none_or(|found| is(&self.namespace, Some(found)))
            && is(&self.name, Some(&one.parent.key.name))
            && self.kind.as_deref().is_none_or(|wanted| {
                let names = [
                    kind.kind.to_string(),
                    plural.to_string(),
                    format!("{}.{}", kind.kind, kind.group),
                    format!("{plural}.{}", kind.group),
                    format!("{plural}.{}.{}", kind.version, kind.group),
                    kind.to_string(),
                ];
                names.iter().any(|name| name.eq_ignore_ascii_case(wanted))
            })
    }
}

/// What the handlers share.
#[derive(Clone)]
struct Shared {
    recent: Recent,
    permits: Arc<Semaphore>,
    streams: Arc<Mutex<VecDeque<Weak<ConnectionEnd>>>>,
}

impl Shared {
    /// Adds a stream, for as long as the returned reference exists. If there are too many, the connection of the oldest ends.
    fn add_stream(&self, end: ConnectionEnd) -> Arc<ConnectionEnd> {
        let (end, mut streams) = (Arc::new(end), self.streams.lock());
        streams.retain(|stream| stream.strong_count() > 0);
        streams.push_back(Arc::downgrade(&end));
        let excess = streams.len().saturating_sub(STREAMS);
        for oldest in streams.drain(..excess).filter_map(|stream| stream.upgrade()) {
            oldest.0.cancel();
        }
        end
    }
}

/// Serves the recent calls until `stop` is cancelled.
///
/// # Errors
/// If the listener has no address.
pub async fn serve_debug(listener: TcpListener, recent: Recent, stop: CancellationToken) -> anyhow::Result<()> {
    tracing::info!(address = %listener.local_addr()?, "serving recent calls");
    serve(listener, app(recent), CONNECTION_TIME, stop).await;
    Ok(())
}

fn app(recent: Recent) -> Router {
    Router::new()
        .route("/calls", get(calls))
        .route("/calls/stream", get(follow))
        .with_state(Shared { recent, permits: Arc::new(Semaphore::new(AT_ONCE)), streams: Arc::default() })
        .layer(middleware::from_fn(only_local))
}

/// Rejects a request for another host name: a web page in a browser on this machine may have a name that resolves to this address.
async fn only_local(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map_or(host, |(name, _)| name);
    if !matches!(name, "localhost" | "127.0.0.1" | "[::1]") {
        return (StatusCode::FORBIDDEN, "use the name localhost\n").into_response();
    }
    next.run(request).await
}

/// The response to a request that is refused.
type Refused = (StatusCode, &'static str);

/// The recent calls of the parents of one name, the newest first, for readers.
async fn calls(
    State(shared): State<Shared>,
    Extension(end): Extension<ConnectionEnd>,
    Query(wanted): Query<Wanted>,
) -> Result<Response, Refused> {
    if wanted.name.is_none() {
        return Err((StatusCode::BAD_REQUEST, "name a parent (name=…)\n"));
    }
    let permit = shared.permits.clone().acquire_owned().await;
    let turn = Turn::begin(permit.map_err(|_| (StatusCode::SERVICE_UNAVAILABLE, ""))?, end);
    let mut masker = with_new_key(Masker::with_markers)?;
    let response = masked(move || {
        let found = shared.recent.after(0, |one| wanted.includes(one));
        let calls = export_all(found.iter().rev().map(|one| &**one), &mut masker).map_err(|error| error.to_string())?;
        let text = serde_json::to_string(&Calls { is_on: shared.recent.is_on(), calls });
        let body = body_of(escaped(&text.map_err(|error| error.to_string())?).into_owned(), turn);
        Ok(([(header::CONTENT_TYPE, "application/json")], body))
    });
    Ok(response.await)
}

/// Responds with the result of a function that masks calls, on a thread where it may take seconds without blocking the runtime.
async fn masked<R: IntoResponse + Send + 'static>(
    mask: impl FnOnce() -> Result<R, String> + Send + 'static,
) -> Response {
    match spawn_blocking(mask).await {
        Ok(Ok(response)) => response.into_response(),
        Ok(Err(error)) => (StatusCode::INSUFFICIENT_STORAGE, error + "\n").into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// The turn of a request, while others wait for theirs.
struct Turn {
    _permit: OwnedSemaphorePermit,
    _done: DropGuard,
}

impl Turn {
    /// Begins the turn of the request on a connection, which ends if the client does not receive its response in time.
    fn begin(permit: OwnedSemaphorePermit, end: ConnectionEnd) -> Self {
        let done = CancellationToken::new();
        let turn = Self { _permit: permit, _done: done.clone().drop_guard() };
        tokio::spawn(async move {
            if tokio::time::timeout(RESPONSE_TIME, done.cancelled()).await.is_err() {
                end.0.cancel();
            }
        });
        turn
    }
}

/// A body that keeps its turn until it was sent.
fn body_of(text: String, turn: Turn) -> Body {
    let parts = stream::unfold((Some(text), turn), |(text, turn)| async move {
        text.map(|text| (Ok::<_, Infallible>(text), (None, turn)))
    });
    Body::from_stream(parts)
}

/// A response with recent calls.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Calls {
    /// Whether the host keeps recent calls.
    is_on: bool,
    calls: Vec<RecordedCall>,
}

/// The recent calls as lines of JSON, the oldest first, and then each new one. A value has the same placeholder in all of them.
async fn follow(
    State(shared): State<Shared>,
    Extension(end): Extension<ConnectionEnd>,
    Query(wanted): Query<Wanted>,
) -> Result<Response, Refused> {
    let mut masker = with_new_key(Masker::new)?;
    let stream = shared.add_stream(end);
    let response = masked(move || {
        // All of them first, because the value of a later Secret may occur in an earlier call.
        let kept = shared.recent.after(0, |one| wanted.includes(one));
        kept.iter().try_for_each(|one| learn(one, &mut masker)).map_err(|error| error.to_string())?;
        let (newest, pending) = (shared.recent.newest(), VecDeque::new());
        let lines = Lines { recent: shared.recent, wanted, masker, newest, seen: 0, pending, _stream: stream };
        let lines = stream::unfold(Some(lines), |lines| async move {
            let (line, lines) = lines?.next().await?;
            Some((Ok::<_, Infallible>(line), lines))
        });
        Ok(([(header::CONTENT_TYPE, "application/jsonl")], Body::from_stream(lines)))
    });
    Ok(response.await)
}

/// A masker with a key of its own.
fn with_new_key(masker: fn([u8; KEY_LENGTH]) -> Masker) -> Result<Masker, Refused> {
    let mut key = [0; KEY_LENGTH];
    let unavailable = |_| (StatusCode::INTERNAL_SERVER_ERROR, "the system gives no random numbers\n");
    SystemRandom::new().fill(&mut key).map_err(unavailable)?;
    Ok(masker(key))
}

/// The lines of a stream.
struct Lines {
    recent: Recent,
    wanted: Wanted,
    masker: Masker,
    newest: watch::Receiver<u64>,
    /// The number of the last reconcile that was looked at.
    seen: u64,
    pending: VecDeque<Arc<Reconciled>>,
    _stream: Arc<ConnectionEnd>,
}

impl Lines {
    /// The next line; waits for it. An error is the last line.
    async fn next(mut self) -> Option<(String, Option<Self>)> {
        loop {
            if let Some(one) = self.pending.pop_front() {
                return spawn_blocking(move || self.line_of(&one)).await.ok();
            }
            let newest = *self.newest.borrow_and_update();
            self.pending = self.recent.after(self.seen, |one| self.wanted.includes(one)).into();
            let last = self.pending.back().map_or(newest, |one| one.number.max(newest));
            self.seen = self.seen.max(last);
            if self.pending.is_empty() {
                if self.wanted.follow == Some(false) {
                    return None;
                }
                self.newest.changed().await.ok()?;
            }
        }
    }

    /// The line of a reconcile.
    fn line_of(mut self, one: &Reconciled) -> (String, Option<Self>) {
        let line = export(one, &mut self.masker).map_err(|error| error.to_string());
        match line.and_then(|call| serde_json::to_string(&call).map_err(|error| error.to_string())) {
            Ok(line) => (format!("{}\n", escaped(&line)), Some(self)),
            Err(error) => (format!("{}\n", json!({"error": error})), None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use futures::StreamExt as _;
    use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::TcpStream;
    use windlass_core::object::parent::ParentRef;
    use windlass_core::reconcile::recent::Decision;
    use windlass_core::value::ids::{Gvk, ObjectKey, Uid};

    use super::*;

    /// The response of the debug address, line by line.
    async fn get(recent: &Recent, request_line: &str) -> BufReader<TcpStream> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(serve_debug(listener, recent.clone(), CancellationToken::new()));
        request(address, request_line).await
    }

    async fn request(address: SocketAddr, request: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(address).await.expect("connected");
        stream.write_all(format!("GET {request}\r\n\r\n").as_bytes()).await.expect("sent");
        BufReader::new(stream)
    }

    async fn first_line(recent: &Recent, request: &str) -> String {
        let mut line = String::new();
        get(recent, request).await.read_line(&mut line).await.expect("a line");
        line
    }

    fn reconciled(name: &str) -> Reconciled {
        let kind = Arc::new(Gvk::from_api_version("my-operator.dev/v1", "Echo"));
        let key = ObjectKey::new(Some("shop"), name);
        let plugin = "echo".parse().expect("a name");
        Reconciled {
            number: 0,
            parent: ParentRef { plugin, kind, key, uid: Uid::from("1"), mark_key: None },
            plural: "echoes".into(),
            at: jiff::Timestamp::UNIX_EPOCH,
            trigger: "event",
            duration: Duration::ZERO,
            trace: None,
            call: None,
            is_call_omitted: false,
            decision: Decision { outcome: "Quarantined", ..Decision::default() },
            next: None,
            repeated: 0,
        }
    }

    /// The next line of a stream that is a call.
    async fn next_call(stream: &mut BufReader<TcpStream>) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(stream.read_line(&mut line).await.expect("a line"), 0, "the stream has ended");
            if line.starts_with('{') {
                let call: RecordedCall = serde_json::from_str(&line).expect("a call");
                return call.parent.key.name.to_string();
            }
        }
    }

    #[tokio::test]
    async fn stream_has_the_kept_calls_of_a_plugin_and_then_new_ones() {
        let recent = Recent::new(1024 * 1024);
        recent.add(reconciled("first"));
        let mut stream = get(&recent, "/calls/stream?plugin=echo HTTP/1.1\r\nHost: localhost").await;
        assert_eq!(next_call(&mut stream).await, "first");
        let mut other = reconciled("other");
        other.parent.plugin = "other".parse().expect("a name");
        recent.add(other);
        recent.add(reconciled("second"));
        assert_eq!(next_call(&mut stream).await, "second");
    }

    #[tokio::test]
    async fn new_stream_ends_the_oldest_and_no_stream_delays_another_request() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let recent = Recent::new(1024 * 1024);
        recent.add(reconciled("first"));
        tokio::spawn(serve_debug(listener, recent.clone(), CancellationToken::new()));
        let mut streams = VecDeque::new();
        for _ in 0..3 * STREAMS {
            let mut stream = request(address, "/calls/stream HTTP/1.1\r\nHost: localhost").await;
            assert_eq!(next_call(&mut stream).await, "first");
            streams.push_back(stream);
        }
        for mut ended in streams.drain(..2 * STREAMS) {
            let mut rest = Vec::new();
            // The connection was closed or reset.
            let _ = ended.read_to_end(&mut rest).await;
        }
        let mut status = String::new();
        let mut response = request(address, "/calls?name=first HTTP/1.1\r\nHost: localhost").await;
        response.read_line(&mut status).await.expect("a line");
        assert!(status.starts_with("HTTP/1.1 200"), "{status}");
        recent.add(reconciled("second"));
        for stream in &mut streams {
            assert_eq!(next_call(stream).await, "second");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_does_not_receive_its_response_delays_others_for_a_bounded_time() {
        let recent = Recent::new(1024);
        let shared = Shared { recent, permits: Arc::new(Semaphore::new(AT_ONCE)), streams: Arc::default() };
        let permits = shared.permits.clone();
        let end = ConnectionEnd::default();
        let wanted = Wanted { name: Some("web".to_owned()), ..Wanted::default() };
        let response = calls(State(shared), Extension(end.clone()), Query(wanted)).await;
        assert_eq!(permits.available_permits(), 0, "the response was not sent");
        end.0.cancelled().await;
        drop(response);
        assert_eq!(permits.available_permits(), AT_ONCE);
    }

    #[test]
    fn kind_of_a_parent_may_be_written_as_for_kubectl() {
        for (kind, is_found) in [
            ("echo", true),
            ("Echo", true),
            ("echoes", true),
            ("echoes.my-operator.dev", true),
            ("Echo.v1.my-operator.dev", true),
            ("echoes.v1.my-operator.dev", true),
            ("echo.other.dev", false),
        ] {
            let wanted = Wanted { kind: Some(kind.to_owned()), ..Wanted::default() };
            assert_eq!(wanted.includes(&reconciled("web")), is_found, "{kind}");
        }
    }

    #[tokio::test]
    async fn request_without_the_name_of_a_parent_or_with_an_unknown_filter_is_rejected() {
        let recent = Recent::new(1024);
        for (path, status) in [("/calls", 400), ("/calls?name=web&kin=echo", 400), ("/calls/stream?plugins=echo", 400)]
        {
            let line = first_line(&recent, &format!("{path} HTTP/1.1\r\nHost: localhost")).await;
            assert!(line.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {line}");
        }
    }

    #[tokio::test]
    async fn turn_of_a_request_ends_with_its_body() {
        let permits = Arc::new(Semaphore::new(1));
        let permit = permits.clone().try_acquire_owned().expect("a permit");
        let turn = Turn::begin(permit, ConnectionEnd::default());
        let mut body = body_of("calls".to_owned(), turn).into_data_stream();
        assert_eq!(body.next().await.expect("a part").expect("sent"), "calls");
        assert_eq!(permits.available_permits(), 0, "the part may not be sent yet");
        assert!(body.next().await.is_none());
        assert_eq!(permits.available_permits(), 1);
    }

    #[tokio::test]
    async fn request_for_another_host_name_is_rejected() {
        let recent = Recent::new(1024);
        for (host, status) in [("localhost:8081", 200), ("127.0.0.1", 200), ("[::1]:1", 200), ("evil.example", 403)] {
            let line = first_line(&recent, &format!("/calls?name=web HTTP/1.1\r\nHost: {host}")).await;
            assert!(line.starts_with(&format!("HTTP/1.1 {status}")), "{host}: {line}");
        }
    }
}
