//! What a user wants of a parent, to see that it has changed where no status says it.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::num::NonZeroU64;

use crate::object::Object;
use crate::value::json::{self, Map, Value};

/// The wish of a parent's user at one moment, hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Wish(NonZeroU64);

impl Wish {
    /// Everything in the parent but its metadata and status. Not its `metadata.generation`, which also changes with the annotations of a
    /// Deployment.
    pub fn of(parent: &Object) -> Self {
        let mut hasher = DefaultHasher::new();
        parent.uid.hash(&mut hasher);
        let content = json::parse(&parent.json.bytes(), json::OBJECT_DEPTH).ok();
        let fields = content.as_ref().and_then(Value::as_object).into_iter().flat_map(Map::iter);
        for (field, value) in fields.filter(|(field, _)| !matches!(*field, "metadata" | "status")) {
            (field, value.to_string()).hash(&mut hasher);
        }
        Self(NonZeroU64::new(hasher.finish()).unwrap_or(NonZeroU64::MIN))
    }
}
