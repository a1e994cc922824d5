//! Reads a registry's responses: status, headers, and bodies up to a limit of bytes and of silence.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use reqwest::Response;
use serde::Deserialize;
use windlass_core::hosts::retry_after;
use windlass_core::reconcile::outcome::bounded;

use crate::DeliveryError;

/// Maximum time without data during a download. Uploads have no such limit.
const SILENCE: Duration = Duration::from_secs(30);
/// Maximum size of a token server's response, and of an error response, in bytes.
pub(super) const MAX_TALK: u64 = 64 << 10;

#[derive(Deserialize)]
struct Errors {
    errors: Vec<ErrorInfo>,
}

#[derive(Deserialize)]
struct ErrorInfo {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

pub(super) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The response, if its status is a success.
pub(super) async fn checked(response: Response, what: &str) -> Result<Response, DeliveryError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let wait = asked_wait(response.headers());
    let said = read(response, MAX_TALK).await.unwrap_or_default();
    let said = serde_json::from_slice::<Errors>(&said).ok().and_then(|said| said.errors.into_iter().next());
    let said = said.map(|said| bounded(format!(": {} ({})", said.message, said.code))).unwrap_or_default();
    Err(match status {
        StatusCode::NOT_FOUND => DeliveryError::not_in_registry(what),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => DeliveryError::denied(&format!("{what}: {status}{said}")),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
            DeliveryError::no_response(&format!("{status}{said}"), wait)
        }
        _ if status.is_server_error() => DeliveryError::no_response(&format!("{status}{said}"), wait),
        _ => DeliveryError::invalid_response(format!("{what}: {status}{said}")),
    })
}

/// Reads a whole response. A response with a length above the limit is rejected before it is read.
pub(super) async fn read(response: Response, limit: u64) -> Result<Vec<u8>, DeliveryError> {
    let mut body = Body::of(response, limit)?;
    let mut bytes = Vec::new();
    while let Some(chunk) = body.next().await? {
        bytes.extend_from_slice(chunk.as_ref());
    }
    Ok(bytes)
}

/// The body of a response, read up to a limit.
pub(super) struct Body {
    response: Response,
    limit: u64,
    left: u64,
}

impl Body {
    pub(super) fn of(response: Response, limit: u64) -> Result<Self, DeliveryError> {
        if response.content_length().is_some_and(|length| length > limit) {
            return Err(too_large(limit));
        }
        Ok(Self { response, limit, left: limit })
    }

    pub(super) async fn next(&mut self) -> Result<Option<impl AsRef<[u8]> + use<>>, DeliveryError> {
        let chunk = unless_silent(self.response.chunk()).await?.map_err(unavailable)?;
        if let Some(chunk) = &chunk {
            self.left = self.left.checked_sub(chunk.len() as u64).ok_or_else(|| too_large(self.limit))?;
        }
        Ok(chunk)
    }
}

fn too_large(limit: u64) -> DeliveryError {
    DeliveryError::invalid_response(format!("it is larger than {limit} bytes"))
}

/// The output of `work`; an error if it takes longer than [`SILENCE`].
pub(super) async fn unless_silent<T>(work: impl Future<Output = T>) -> Result<T, DeliveryError> {
    let silent = |_| DeliveryError::no_response(&format!("no data for {} s", SILENCE.as_secs()), None);
    tokio::time::timeout(SILENCE, work).await.map_err(silent)
}

// Takes the error by value for `map_err`. The message includes the cause, such as an unknown host name or a refused
// connection.
pub(super) fn unavailable(error: reqwest::Error) -> DeliveryError {
    let error = anyhow::Error::from(error.without_url());
    DeliveryError::no_response(&format!("{error:#}"), None)
}

/// The time that the registry asks the client to wait, from `Retry-After`.
fn asked_wait(headers: &HeaderMap) -> Option<Duration> {
    retry_after::wait(headers.get(RETRY_AFTER)?.to_str().ok()?)
}
