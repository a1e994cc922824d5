//! Timeout of a request to the API server.

use std::time::Duration;

/// Time after which a request fails. It is longer than the API server's own timeout of 60 s, so only requests on a dead
/// connection reach it.
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
