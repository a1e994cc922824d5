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

use self::oci::{OciError, RegistryError};
use self::trust::Distrust;

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
        let found = self.digest;
        if let Some(pinned) = pinned.filter(|pinned| *pinned != found) {
            return Err(DeliveryError::NotPinned { found, pinned });
        }
        let Some(trust) = trust else { return Ok(()) };
        let what = format!("the component {found}");
        let Some(signature) = &self.signature else {
            let how =
                "sign it with `cosign sign-blob --bundle`, and push it with `windlass push --signature`".to_owned();
            return Err(DeliveryError::Distrusted(Distrust::Unsigned { what, how }));
        };
        let verified = trust::of_blob(trust, signature, &self.bytes);
        verified.map_err(|why| DeliveryError::Distrusted(Distrust::NotByKeys { what, why }))
    }
}

/// Why a source gives no component.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryError {
    /// The ConfigMap does not exist.
    #[error("ConfigMap {0} does not exist; create it with `windlass push`")]
    NotFound(String),
    /// The host may not read the ConfigMap.
    #[error("ConfigMap {name} cannot be read: {message}. Allow the host to get, list and watch ConfigMaps there")]
    Forbidden {
        /// Namespace and name.
        name: String,
        /// The message of the API server.
        message: String,
    },
    /// The ConfigMap does not contain exactly one valid component, or is a plugin's child.
    #[error("ConfigMap {name}: {problem}")]
    Invalid {
        /// Namespace and name.
        name: String,
        /// Description of the problem, and advice for the user.
        problem: String,
    },
    /// Parts are missing, or do not form a component with the digest that the head gives.
    #[error("ConfigMap {name}: {problem}; nothing of it is loaded")]
    Incomplete {
        /// Namespace and name of the head.
        name: String,
        /// Description of the problem.
        problem: String,
    },
    /// The component does not have the pinned digest.
    #[error("the source has {found}, but spec.digest pins {pinned}")]
    NotPinned {
        /// Digest of the delivered component.
        found: Digest,
        /// Digest in the Plugin's `spec.digest`.
        pinned: Digest,
    },
    /// The ConfigMap could not be read for another reason, for example because the API server did not respond.
    #[error("ConfigMap {name} could not be read: {message}")]
    Unavailable {
        /// Namespace and name.
        name: String,
        /// Description of the failure.
        message: String,
    },
    /// The reference is invalid.
    #[error("spec.source.oci.reference: {0}")]
    Reference(String),
    /// The pull secret cannot be used.
    #[error("the pull secret {secret} cannot be used: {problem}")]
    Credentials {
        /// The Secret's name.
        secret: String,
        /// Description of the problem.
        problem: String,
    },
    /// The artifact gives no component, for example because the registry does not respond.
    #[error("{reference}: {error}")]
    Oci {
        /// The reference in the Plugin.
        reference: String,
        /// Digest of the artifact's component, if known.
        component: Option<Digest>,
        /// Why there is no component.
        error: Box<OciError>,
    },
    /// A file in the host's folder of components cannot be used.
    #[error("{file}: {problem}")]
    File {
        /// Path of the file.
        file: String,
        /// Description of the problem.
        problem: String,
    },
    /// The public keys cannot be read, or are not supported.
    #[error("{0}")]
    Keys(String),
    /// No trusted key signed the component.
    #[error(transparent)]
    Distrusted(Distrust),
    /// The host requires signatures, and the Plugin names no keys.
    #[error("the host requires signed components (--require-signatures); set spec.verify.publicKeys")]
    MustBeSigned,
}

impl DeliveryError {
    /// The reason for the condition.
    pub fn reason(&self) -> PluginReason {
        match self {
            Self::NotFound(_) => PluginReason::SourceNotFound,
            Self::Forbidden { .. } => PluginReason::SourceForbidden,
            Self::Invalid { .. } | Self::File { .. } => PluginReason::SourceInvalid,
            Self::Incomplete { .. } => PluginReason::PartsIncomplete,
            Self::NotPinned { .. } => PluginReason::DigestMismatch,
            Self::Unavailable { .. } => PluginReason::ApiError,
            Self::Reference(_) => PluginReason::InvalidSpec,
            Self::Credentials { .. } => PluginReason::InvalidPullSecret,
            Self::Keys(_) => PluginReason::InvalidKeys,
            Self::MustBeSigned => PluginReason::NotSigned,
            Self::Distrusted(distrust) => distrust.reason(),
            Self::Oci { error, .. } => error.reason(),
        }
    }

    /// Whether the failure concerns the signature or the keys, and not the component itself.
    pub fn is_distrust(&self) -> bool {
        match self {
            Self::Keys(_) | Self::Distrusted(_) | Self::MustBeSigned => true,
            Self::Oci { error, .. } => matches!(**error, OciError::Distrusted(_)),
            Self::NotFound(_)
            | Self::Forbidden { .. }
            | Self::Invalid { .. }
            | Self::File { .. }
            | Self::Incomplete { .. }
            | Self::NotPinned { .. }
            | Self::Unavailable { .. }
            | Self::Reference(_)
            | Self::Credentials { .. } => false,
        }
    }

    /// Time that the registry asks the host to wait before the next request; `None` if it does not ask.
    pub fn wait(&self) -> Option<Duration> {
        let Self::Oci { error, .. } = self else { return None };
        if let OciError::Registry(RegistryError::Unavailable { wait, .. }) = **error { wait } else { None }
    }

    /// Digest of the component in the source, if known.
    pub fn candidate(&self) -> Option<Digest> {
        match self {
            Self::NotPinned { found, .. } => Some(*found),
            Self::Oci { component, .. } => *component,
            Self::NotFound(_)
            | Self::Forbidden { .. }
            | Self::Invalid { .. }
            | Self::File { .. }
            | Self::Incomplete { .. }
            | Self::Unavailable { .. }
            | Self::Reference(_)
            | Self::Credentials { .. }
            | Self::Keys(_)
            | Self::Distrusted(_)
            | Self::MustBeSigned => None,
        }
    }
}
