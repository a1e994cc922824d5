//! Timeout of a request to the API server.

use std::time::Duration;

/// Longer than the API server's own 60 s: only a dead connection reaches it, and no worker is blocked forever.
const TIMEOUT: Duration = Duration::from_secs(65);

/// Waits for the response to a request, at most 65 s.
///
/// # Errors
/// The error of the request, or the timeout.
pub async fn in_time<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, kube::Error> {
    match tokio::time::timeout(TIMEOUT, request).await {
        Ok(response) => response,
        Err(elapsed) => Err(kube::Error::Service(Box::new(elapsed))),
    }
}
