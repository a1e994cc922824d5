//! Why there is no answer: constructors for the contract's own type.

use std::time::Duration;

use serde::Deserialize;

use crate::{
    place,
    raw::{Failure, Retry},
};

impl Failure {
    /// The parent's spec is wrong. Say which field and what would be right: users read it in the parent's condition
    /// (`Stalled=True, reason=InvalidSpec`). No retry before the parent changes.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }

    /// Not now: call again after `after`, and say what is being waited for.
    pub fn retry(message: impl Into<String>, after: Duration) -> Self {
        Self::Retry(Retry { message: message.into(), after: milliseconds(after) })
    }

    /// Something went wrong: call again, with exponential backoff.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }
}

/// The contract's unit of time.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What serde says, without its position in a document that the reader has never seen.
pub(crate) fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((reason, _)) => reason.to_owned(),
        None => text,
    }
}

/// Reads what a person wrote; the error is a sentence that names the field, as `place.field`.
pub(crate) fn explained<'a, T: Deserialize<'a>>(json: &'a [u8], place: &str) -> Result<T, String> {
    serde_json::from_slice(json).map_err(|error| explanation(json, place, &error))
}

fn explanation(json: &[u8], place: &str, error: &serde_json::Error) -> String {
    let field = place::after(json, place::bytes_before(json, error));
    let reason = reason(error);
    let missing = reason.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
    let path = [place, &field, missing.unwrap_or_default()];
    let path: Vec<_> = path.into_iter().filter(|part| !part.is_empty()).collect();
    match (path.join("."), missing) {
        (path, Some(_)) => format!("{path}: is required"),
        (path, None) if path.is_empty() => reason,
        (path, None) => format!("{path}: {reason}"),
    }
}
