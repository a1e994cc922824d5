//! The host's own HTTP: `/healthz` and `/readyz`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use tokio_util::sync::CancellationToken;

/// Whether the host is ready: caches filled, and every Plugin tried.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<AtomicU8>);

const STARTING: u8 = 0;
const READY: u8 = 1;
const STOPPING: u8 = 2;

impl Readiness {
    /// The host is ready from now on: a Plugin that comes later makes it no less so. Answers whether that is new.
    pub fn ready(&self) -> bool {
        self.0.compare_exchange(STARTING, READY, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The host is stopping, whatever becomes ready meanwhile.
    pub fn stopping(&self) {
        self.0.store(STOPPING, Ordering::Relaxed);
    }

    fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed) == READY
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

async fn ready(State(readiness): State<Readiness>) -> (StatusCode, &'static str) {
    if readiness.get() {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not every Plugin was tried yet")
    }
}
