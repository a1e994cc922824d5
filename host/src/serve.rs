//! The host's own HTTP: `/healthz` and `/readyz`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use tokio_util::sync::CancellationToken;

use crate::telemetry::one_line;
use crate::watch::AllProgress;

/// Whether the host is ready: caches filled and followed, and every Plugin tried.
#[derive(Debug, Clone, Default)]
pub struct Readiness {
    state: Arc<AtomicU8>,
    watches: AllProgress,
}

const STARTING: u8 = 0;
const READY: u8 = 1;
const STOPPING: u8 = 2;

impl Readiness {
    /// Of a host with these watches.
    pub fn new(watches: AllProgress) -> Self {
        Self { state: Arc::default(), watches }
    }

    /// The host is ready from now on: a Plugin that comes later makes it no less so. Answers whether that is new.
    pub fn ready(&self) -> bool {
        self.state.compare_exchange(STARTING, READY, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The host is stopping, whatever becomes ready meanwhile.
    pub fn stopping(&self) {
        self.state.store(STOPPING, Ordering::Relaxed);
    }

    /// # Errors
    /// What keeps the host from being ready.
    fn get(&self) -> Result<(), String> {
        match self.state.load(Ordering::Relaxed) {
            READY => {}
            STOPPING => return Err("the host is stopping".to_owned()),
            _ => return Err("not every Plugin was tried yet".to_owned()),
        }
        let stalled = self.watches.stalled();
        if stalled.is_empty() {
            return Ok(());
        }
        let lines = stalled
            .iter()
            .map(|(kind, stalled)| format!("the watch of {kind} has stalled: {}\n", one_line(&stalled.to_string())));
        Err(lines.collect())
    }
}

/// Serves until told to stop.
///
/// # Errors
/// If the address cannot be listened on.
pub async fn serve(address: SocketAddr, readiness: Readiness, stop: CancellationToken) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind(address)
        .await
        .map_err(|error| anyhow::anyhow!("--health-addr {address} cannot be listened on: {error}"))?;
    tracing::info!(address = %listener.local_addr()?, "serving /healthz and /readyz");
    let app = Router::new()
        // That it answers is the answer: the runtime's threads are not stuck.
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .with_state(readiness);
    axum::serve(listener, app).with_graceful_shutdown(async move { stop.cancelled().await }).await?;
    Ok(())
}

async fn ready(State(readiness): State<Readiness>) -> (StatusCode, String) {
    match readiness.get() {
        Ok(()) => (StatusCode::OK, "ok".to_owned()),
        Err(message) => (StatusCode::SERVICE_UNAVAILABLE, message),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use windlass_core::ids::Gvk;
    use windlass_core::progress::SILENCE_LIMIT;

    use super::*;

    #[test]
    fn host_is_not_ready_while_a_watch_has_stalled_and_names_the_kind() {
        let watches = AllProgress::default();
        let secrets = watches.track(&Gvk::from_api_version("v1", "Secret"));
        let readiness = Readiness::new(watches.clone());
        assert!(readiness.get().is_err_and(|message| message.contains("Plugin")));
        readiness.ready();
        assert_eq!(readiness.get(), Ok(()));
        watches.check(Instant::now() + SILENCE_LIMIT + Duration::from_secs(1));
        assert!(
            readiness
                .get()
                .is_err_and(|message| message.starts_with("the watch of Secret.v1 has stalled: no progress"))
        );
        secrets.listed();
        watches.check(Instant::now());
        assert_eq!(readiness.get(), Ok(()));
        readiness.stopping();
        assert!(readiness.get().is_err());
    }
}
