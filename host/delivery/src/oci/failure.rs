//! Why a request to a registry failed.

use std::io;
use std::time::Duration;

use windlass_core::object::reason::PluginReason;
use windlass_core::reconcile::outcome::bounded;
use windlass_core::value::digest::Digest;

use crate::{Cause, DeliveryError};

impl DeliveryError {
    /// The registry does not have the requested content.
    pub(super) fn not_in_registry(what: &str) -> Self {
        let message = format!("the registry has no {what}");
        Self { cause: Cause::NotInRegistry, ..Self::new(PluginReason::SourceNotFound, message) }
    }

    /// The registry denies access.
    pub(super) fn denied(why: &str) -> Self {
        let message = format!("the registry denied access with these credentials: {why}");
        Self { cause: Cause::Denied, ..Self::new(PluginReason::SourceForbidden, message) }
    }

    /// The registry did not respond, failed, or asks the client to retry later, after `wait` if it says when.
    pub(super) fn no_response(problem: &str, wait: Option<Duration>) -> Self {
        let message = format!("the registry did not respond: {problem}");
        Self { cause: Cause::NoResponse, wait, ..Self::new(PluginReason::SourceUnavailable, message) }
    }

    /// The response is invalid or too large. The problem may quote a long text of the registry.
    pub(super) fn invalid_response(problem: String) -> Self {
        let message = format!("invalid response of the registry: {}", bounded(problem));
        Self { cause: Cause::InvalidResponse, ..Self::new(PluginReason::SourceInvalid, message) }
    }

    /// The bytes do not have the expected digest.
    pub(super) fn tampered(wanted: Digest, found: Digest) -> Self {
        let message = format!(
            "digest mismatch: the registry returned {found} for {wanted}; the content was changed after it was pushed"
        );
        Self { cause: Cause::Tampered, ..Self::new(PluginReason::DigestMismatch, message) }
    }

    /// The downloaded bytes could not be stored. Takes the error by value for `map_err`.
    #[expect(clippy::needless_pass_by_value, reason = "for map_err")]
    pub(super) fn unkept(error: io::Error) -> Self {
        let message = format!("the download cannot be stored in the host's --cache-dir: {error}");
        Self { cause: Cause::Unkept, ..Self::new(PluginReason::SourceUnavailable, message) }
    }
}
