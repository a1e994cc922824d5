//! Delivers components: fetches the bytes from a Plugin's source, and checks their digest and signature. Does not
//! interpret WebAssembly.

mod blocking;
mod config_map;
mod encoding;
mod facts;
mod folder;
#[cfg(test)]
mod fuzz;
pub mod oci;
mod remotes;
mod secrets;
mod sources;
mod timeouts;
mod trust;

use std::sync::Arc;
use std::time::Duration;

pub use blocking::{blocking, has_one_thread};
pub use config_map::{KEY_DIGEST, KEY_ENCODING, KEY_PART, KEY_PARTS, PLUGIN_KEY, SIGNATURE_KEY, fetch};
pub use encoding::Encoding;
pub use folder::{read as read_file, read_up_to};
pub use remotes::{Resolution, Wanted, fetch_once};
pub use sources::{FollowConfigMaps, Needs, Signal, Sources};
pub use timeouts::in_time;
pub use trust::Trust;

use windlass_core::object::reason::PluginReason;
use windlass_core::value::digest::Digest;
use windlass_core::value::ids::PluginName;

/// Callback for each Plugin whose source may have changed; must not block.
pub type Changed = Arc<dyn Fn(&PluginName) + Send + Sync>;

/// Maximum size of a component, in bytes, after decompression.
pub const MAX_COMPONENT_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum size of a signature, in bytes; cosign's signatures have a few KiB.
const MAX_SIGNATURE_BYTES: u64 = 256 * 1024;

/// A delivered component.
#[derive(Debug, Clone)]
pub struct Delivered {
    /// SHA-256 of the bytes.
    pub digest: Digest,
    /// The bytes of the component.
    pub bytes: Vec<u8>,
    /// The unchecked signature that was delivered with the component, a sigstore bundle; `None` if there is none.
    pub signature: Option<Vec<u8>>,
}

impl Delivered {
    /// Checks that the component has the pinned digest, if any, and that one of the keys signed it, if keys are given.
    /// Blocks while it hashes the component.
    ///
    /// # Errors
    /// If the digest differs, the component is not signed, or no given key signed it.
    pub fn check(&self, pinned: Option<Digest>, trust: Option<&Trust>) -> Result<(), DeliveryError> {
        check_pin(self.digest, pinned)?;
        let Some(trust) = trust else { return Ok(()) };
        let what = format!("the component {}", self.digest);
        let Some(signature) = &self.signature else {
            let how = "sign it with `cosign sign-blob --bundle`, and push it with `windlass push --signature`";
            return Err(trust::unsigned(&what, how));
        };
        trust::of_blob(trust, signature, &self.bytes).map_err(|why| trust::not_by_keys(&what, &why))
    }
}

/// Why a source gives no component.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DeliveryError {
    /// The reason for the condition.
    pub reason: PluginReason,
    cause: Cause,
    message: String,
    /// Digest of the component in the source, if known.
    pub candidate: Option<Digest>,
    /// Time that the registry asks the host to wait before the next request; `None` if it does not ask.
    wait: Option<Duration>,
}

/// What failed, as far as this crate decides by it. Several causes have the same reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// The registry does not have the requested content.
    NotInRegistry,
    /// The registry denies access.
    Denied,
    /// The registry did not respond.
    NoResponse,
    /// The registry's response is invalid or too large.
    InvalidResponse,
    /// The bytes from the registry do not have the expected digest.
    Tampered,
    /// The downloaded bytes could not be stored.
    Unkept,
    /// The signature or the keys.
    Distrust,
    /// Anything else.
    Other,
}

impl DeliveryError {
    fn new(reason: PluginReason, message: impl Into<String>) -> Self {
        Self { reason, cause: Cause::Other, message: message.into(), candidate: None, wait: None }
    }

    /// The signature or the keys are missing or invalid.
    fn distrust(reason: PluginReason, message: impl Into<String>) -> Self {
        Self { cause: Cause::Distrust, ..Self::new(reason, message) }
    }

    /// Whether the failure concerns the signature or the keys, and not the component itself.
    pub fn is_distrust(&self) -> bool {
        match self.cause {
            Cause::Distrust => true,
            Cause::NotInRegistry
            | Cause::Denied
            | Cause::NoResponse
            | Cause::InvalidResponse
            | Cause::Tampered
            | Cause::Unkept
            | Cause::Other => false,
        }
    }
}

/// Checks that a component in a source has the digest in the Plugin's `spec.digest`, if there is one.
fn check_pin(found: Digest, pinned: Option<Digest>) -> Result<(), DeliveryError> {
    let Some(pinned) = pinned.filter(|pinned| *pinned != found) else { return Ok(()) };
    let message = format!("the source has {found}, but spec.digest pins {pinned}");
    Err(DeliveryError { candidate: Some(found), ..DeliveryError::new(PluginReason::DigestMismatch, message) })
}
