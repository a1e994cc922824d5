//! A Plugin's source → the component's bytes with the digest that they should have, and whoever signed them. Knows
//! nothing of WebAssembly.

mod config_map;
mod encoding;
mod fetched_versions;
mod folder;
#[cfg(test)]
mod fuzz;
mod json_file;
pub mod oci;
mod remotes;
mod secrets;
mod sources;
mod timeouts;
mod trust;

use std::sync::Arc;
use std::time::Duration;

pub use config_map::{KEY_DIGEST, KEY_ENCODING, KEY_PART, KEY_PARTS, PLUGIN_KEY, SIGNATURE_KEY, fetch};
pub use encoding::Encoding;
pub use folder::read as read_file;
pub use remotes::{Look, Wanted, fetch_once};
pub use sources::{FollowConfigMaps, Needs, Signal, Sources};
pub use timeouts::in_time;
pub use trust::Trust;

use windlass_core::digest::Digest;
use windlass_core::ids::PluginName;
use windlass_core::names::plugin_reason as reason;

use self::oci::{OciError, RegistryError};
use self::trust::Distrust;

/// Called with each Plugin whose source may have changed; must not block.
pub type Changed = Arc<dyn Fn(&PluginName) + Send + Sync>;

/// The largest component that is taken, after decompression.
pub const MAX_COMPONENT_BYTES: u64 = 64 * 1024 * 1024;
/// The largest signature that is looked at; cosign's take a few KiB.
const MAX_SIGNATURE_BYTES: u64 = 256 * 1024;

/// A component as it was delivered.
#[derive(Debug, Clone)]
pub struct Delivered {
    /// SHA-256 of the bytes.
    pub digest: Digest,
    /// The component.
    pub bytes: Vec<u8>,
    /// What lies beside it as its signature: a sigstore bundle, if it is one.
    pub signature: Option<Vec<u8>>,
}

impl Delivered {
    /// Whether it is the pinned one, and one of the keys signed it, where that is wanted. Blocks for as long as hashing it
    /// takes.
    ///
    /// # Errors
    /// It is another one, or nobody signed it, or somebody else.
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

/// Why there is no component.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryError {
    /// The ConfigMap is not there.
    #[error("ConfigMap {0} does not exist; create it with `windlass push`")]
    NotFound(String),
    /// The host may not read it.
    #[error("ConfigMap {name} cannot be read: {message}. Allow the host to get, list and watch ConfigMaps there")]
    Forbidden {
        /// Namespace and name.
        name: String,
        /// What the API server said.
        message: String,
    },
    /// It holds no component, or several.
    #[error("ConfigMap {name}: {problem}")]
    Invalid {
        /// Namespace and name.
        name: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Parts are missing, or do not make up what the head promises.
    #[error("ConfigMap {name}: {problem}; nothing of it is loaded")]
    Incomplete {
        /// Namespace and name of the head.
        name: String,
        /// What is missing.
        problem: String,
    },
    /// The bytes are not the pinned ones.
    #[error("the source has {found}, but spec.digest pins {pinned}")]
    NotPinned {
        /// Digest of what was delivered.
        found: Digest,
        /// What the Plugin says.
        pinned: Digest,
    },
    /// The API server could not be asked.
    #[error("ConfigMap {name} could not be read: {message}")]
    Unavailable {
        /// Namespace and name.
        name: String,
        /// What happened.
        message: String,
    },
    /// The reference is none.
    #[error("spec.source.oci.reference: {0}")]
    Reference(String),
    /// The pull secret cannot be used.
    #[error("the pull secret {secret} cannot be used: {problem}")]
    Credentials {
        /// The Secret's name.
        secret: String,
        /// What is wrong.
        problem: String,
    },
    /// The registry has no component that may be taken, or cannot be asked.
    #[error("{reference}: {error}")]
    Oci {
        /// As the Plugin names it.
        reference: String,
        /// The component that the artifact is, once that is known.
        component: Option<Digest>,
        /// Why not.
        error: Box<OciError>,
    },
    /// A file of the host's folder cannot be used.
    #[error("{file}: {problem}")]
    File {
        /// Where it is.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// The keys that are trusted cannot be had.
    #[error("{0}")]
    Keys(String),
    /// Nobody who is trusted signed it.
    #[error(transparent)]
    Distrusted(Distrust),
    /// The host wants signatures, and the Plugin does not say whose.
    #[error("this host runs signed components alone (--require-signatures); set spec.verify.publicKeys")]
    MustBeSigned,
}

impl DeliveryError {
    /// The reason for the condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotFound(_) => reason::SOURCE_NOT_FOUND,
            Self::Forbidden { .. } => reason::SOURCE_FORBIDDEN,
            Self::Invalid { .. } | Self::File { .. } => reason::SOURCE_INVALID,
            Self::Incomplete { .. } => reason::PARTS_INCOMPLETE,
            Self::NotPinned { .. } => reason::DIGEST_MISMATCH,
            Self::Unavailable { .. } => reason::API_ERROR,
            Self::Reference(_) => reason::INVALID_SPEC,
            Self::Credentials { .. } => reason::INVALID_PULL_SECRET,
            Self::Keys(_) => reason::INVALID_KEYS,
            Self::MustBeSigned => reason::NOT_SIGNED,
            Self::Distrusted(distrust) => distrust.reason(),
            Self::Oci { error, .. } => error.reason(),
        }
    }

    /// Whether it is about who signed, and not about what there is.
    pub fn is_distrust(&self) -> bool {
        match self {
            Self::Keys(_) | Self::Distrusted(_) | Self::MustBeSigned => true,
            Self::Oci { error, .. } => matches!(**error, OciError::Distrusted(_)),
            _ => false,
        }
    }

    /// How long the source wants to be left alone.
    pub fn wait(&self) -> Option<Duration> {
        let Self::Oci { error, .. } = self else { return None };
        if let OciError::Registry(RegistryError::Unavailable { wait, .. }) = **error { wait } else { None }
    }

    /// Digest of what was delivered, or would be, if that is known.
    pub fn candidate(&self) -> Option<Digest> {
        match self {
            Self::NotPinned { found, .. } => Some(*found),
            Self::Oci { component, .. } => *component,
            _ => None,
        }
    }
}
