//! Why a request to a registry failed.

use std::io;
use std::time::Duration;

use windlass_core::object::reason::PluginReason;
use windlass_core::value::digest::Digest;

use crate::DeliveryError;

impl DeliveryError {
    /// The registry does not have the requested content.
    pub(super) fn not_in_registry(what: &str) -> Self {
        Self::new(PluginReason::SourceNotFound, format!("the registry has no {what}"))
    }

    /// The registry denies access.
    pub(super) fn denied(why: &str) -> Self {
        let message = format!("the registry denied access with these credentials: {why}");
        Self::new(PluginReason::SourceForbidden, message)
    }

    /// The registry did not respond, failed, or asks the client to retry later, after `wait` if it says when.
    pub(super) fn no_response(problem: &str, wait: Option<Duration>) -> Self {
        let message = format!("the registry did not respond: {problem}");
        Self { wait, ..Self::new(PluginReason::SourceUnavailable, message) }
    }

    /// The response is invalid or too large.
    pub(super) fn invalid_response(problem: &str) -> Self {
        Self::new(PluginReason::SourceInvalid, format!("invalid response of the registry: {problem}"))
    }

    /// The bytes do not have the expected digest.
    pub(super) fn tampered(wanted: Digest, found: Digest) -> Self {
        let message = format!(
            "digest mismatch: the registry returned {found} for {wanted}; the content was changed after it was pushed"
        );
        Self::new(PluginReason::DigestMismatch, message)
    }

    /// The downloaded bytes could not be stored. Takes the error by value for `map_err`.
    #[expect(clippy::needless_pass_by_value, reason = "for map_err")]
    pub(super) fn unkept(error: io::Error) -> Self {
        let message = format!("the download cannot be stored in the host's --cache-dir: {error}");
        Self::new(PluginReason::SourceUnavailable, message)
    }
}
