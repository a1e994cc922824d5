//! The status that an object has now, and the status fields that the schema of its kind allows.

use crate::object::Object;
use crate::value::json::{Map, Value};

/// The host's status fields that the parent kind's schema has; fields that the API server would prune are neither
/// compared nor sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusShape {
    /// Whether the kind has a status subresource; without it the host writes no status.
    pub subresource: bool,
    /// Whether the schema has `status.observedGeneration`.
    pub observed_generation: bool,
    /// Whether the schema has `status.conditions`.
    pub conditions: bool,
}

impl StatusShape {
    /// The shape of a status that the host does not write: it has none of the host's fields.
    pub const NONE: Self = Self { subresource: false, observed_generation: false, conditions: false };

    /// Whether the host writes `status.observedGeneration`.
    pub fn has_generation(self) -> bool {
        self.subresource && self.observed_generation
    }
}

/// The present status of an object; empty if it has none, or if the status is not a JSON object.
pub fn observed(parent: &Object) -> Map {
    if let Some(Value::Object(map)) = parent.field("status") { map } else { Map::default() }
}
