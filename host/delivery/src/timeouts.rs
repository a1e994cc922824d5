//! How long the host waits for the answer to one request.

use std::time::Duration;

/// Longer than the API server's own 60 s, so that only a dead connection meets it, and a worker is never held for good.
const TIMEOUT: Duration = Duration::from_secs(65);

/// Waits for the answer to one request no longer than a worker may be held.
///
/// # Errors
/// What the request ends with, or the lack of an answer.
pub async fn in_time<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, kube::Error> {
    match tokio::time::timeout(TIMEOUT, request).await {
        Ok(answer) => answer,
        Err(elapsed) => Err(kube::Error::Service(Box::new(elapsed))),
    }
}
