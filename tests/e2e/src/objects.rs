//! Reading fields of objects.

use serde_json::Value;

/// One condition of a status. All fields are empty if there is no such condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One of the reasons in docs/conditions.md.
    pub reason: String,
    /// A message for users.
    pub message: String,
    /// The generation for which it was set.
    pub observed_generation: Option<i64>,
}

impl Condition {
    /// Whether its status is `True`.
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }

    /// Whether its status is `False`, for this reason.
    pub fn is_false(&self, reason: &str) -> bool {
        self.status == "False" && self.reason == reason
    }
}

/// A condition of an object, by its type.
pub fn condition(object: &Value, condition_type: &str) -> Condition {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(found) = conditions.iter().find(|condition| condition["type"] == condition_type) else {
        return Condition::default();
    };
    Condition {
        status: text(found, "/status"),
        reason: text(found, "/reason"),
        message: text(found, "/message"),
        observed_generation: found["observedGeneration"].as_i64(),
    }
}

/// The text at a JSON pointer (`/metadata/uid`); empty if there is none.
pub fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}
