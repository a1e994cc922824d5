//! The status that an object has, and which parts of it its kind keeps.

use crate::json::{self, Map, Value};
use crate::object::Object;

/// Which of the host's fields the parent kind's schema keeps; what it would prune is neither compared nor sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusShape {
    /// The status subresource: without it there is no status of ours.
    pub subresource: bool,
    /// `status.observedGeneration`
    pub observed_generation: bool,
    /// `status.conditions`
    pub conditions: bool,
}

/// The status that an object has.
pub fn observed(parent: &Object) -> Map {
    let status = parent.field("status").and_then(|raw| json::parse(raw.get().as_bytes(), 256).ok());
    match status {
        Some(Value::Object(map)) => map,
        _ => Map::default(),
    }
}
