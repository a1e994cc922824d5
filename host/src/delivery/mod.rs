//! A Plugin's source → the component's bytes with the digest that they should have. Knows nothing of WebAssembly.

mod config_map;
mod encoding;
mod receipts;
mod sources;

pub use config_map::{KEY_DIGEST, KEY_ENCODING, KEY_PART, KEY_PARTS, PLUGIN_KEY, fetch};
pub use encoding::Encoding;
pub use sources::Sources;

use windlass_core::digest::Digest;
use windlass_core::names::plugin_reason as reason;

/// The largest component that is taken, after decompression.
pub const MAX_COMPONENT_BYTES: u64 = 64 * 1024 * 1024;

/// A component as it was delivered.
#[derive(Debug, Clone)]
pub struct Delivered {
    /// SHA-256 of the bytes.
    pub digest: Digest,
    /// The component.
    pub bytes: Vec<u8>,
}

/// Why there is no component.
#[derive(Debug, thiserror::Error)]
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
}

impl DeliveryError {
    /// The reason for the `Fetched` condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotFound(_) => reason::SOURCE_NOT_FOUND,
            Self::Forbidden { .. } => reason::SOURCE_FORBIDDEN,
            Self::Invalid { .. } => reason::SOURCE_INVALID,
            Self::Incomplete { .. } => reason::PARTS_INCOMPLETE,
            Self::NotPinned { .. } => reason::DIGEST_MISMATCH,
            Self::Unavailable { .. } => reason::API_ERROR,
        }
    }

    /// Digest of what was delivered, if it was whole.
    pub fn candidate(&self) -> Option<Digest> {
        if let Self::NotPinned { found, .. } = self { Some(*found) } else { None }
    }
}
