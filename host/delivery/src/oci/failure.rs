//! Why a request to a registry failed.

use std::time::Duration;

use windlass_core::value::digest::Digest;

/// Why a request to a registry failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// The registry does not have the requested content.
    #[error("the registry has no {0}")]
    NotFound(String),
    /// The registry denies access.
    #[error("the registry denied access with these credentials: {0}")]
    Forbidden(String),
    /// The registry did not respond, failed, or asks the client to retry later.
    #[error("the registry did not respond: {message}")]
    Unavailable {
        /// Description of the failure.
        message: String,
        /// Time that the registry asks the client to wait; `None` if it does not ask.
        wait: Option<Duration>,
    },
    /// The response is invalid or too large.
    #[error("invalid response of the registry: {0}")]
    Invalid(String),
    /// The bytes do not have the expected digest.
    #[error("digest mismatch: the registry returned {found} for {wanted}; the content was changed after it was pushed")]
    Tampered {
        /// The expected digest.
        wanted: Digest,
        /// The digest of the bytes.
        found: Digest,
    },
    /// The downloaded bytes could not be stored.
    #[error("the download cannot be stored in the host's --cache-dir: {0}")]
    Unkept(String),
}
