//! Why there is no answer: constructors for the contract's own type.

use std::time::Duration;

use crate::raw::{Failure, Retry};

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
