//! Detects that a parent's spec changed where no status has `observedGeneration`.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::num::NonZeroU64;

use crate::object::Object;
use crate::value::json::Map;

/// The spec of a parent, hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpecHash(NonZeroU64);

impl SpecHash {
    /// Everything in the parent but its metadata and status. Not its `metadata.generation`, which also changes with the annotations of a
    /// Deployment.
    pub fn of(parent: &Object) -> Self {
        let mut hasher = DefaultHasher::new();
        parent.uid.hash(&mut hasher);
        let content = parent.values();
        let fields = content.iter().flat_map(Map::iter);
        for (field, value) in fields.filter(|(field, _)| !matches!(*field, "metadata" | "status")) {
            (field, value.to_string()).hash(&mut hasher);
        }
        Self(NonZeroU64::new(hasher.finish()).unwrap_or(NonZeroU64::MIN))
    }
}
