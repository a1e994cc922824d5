//! Builds conditions in the form of `metav1.Condition` (KEP-1623), and sets their transition times. The current time is
//! an argument.

use jiff::Timestamp;

use crate::value::json::{Map, Value};

/// Creates a condition without `lastTransitionTime`.
pub fn condition(kind: &str, status: &str, reason: &str, message: &str, generation: Option<i64>) -> Map {
    // Capacity includes the transition time.
    let mut map = Map::with_capacity(6);
    map.insert("message", message);
    if let Some(generation) = generation {
        map.insert("observedGeneration", generation);
    }
    map.insert("reason", reason);
    map.insert("status", status);
    map.insert("type", kind);
    map
}

/// The conditions of a status that have a type.
pub fn conditions_of(status: &Map) -> impl Iterator<Item = &Map> + Clone {
    let list = status.get("conditions").and_then(Value::as_array).unwrap_or_default();
    list.iter().filter_map(Value::as_object).filter(|condition| type_of(condition).is_some())
}

/// A condition's type.
pub fn type_of(condition: &Map) -> Option<&str> {
    condition.get("type").and_then(Value::as_str)
}

/// The condition of this type.
pub fn condition_of<'a>(status: &'a Map, kind: &str) -> Option<&'a Map> {
    conditions_of(status).find(|condition| type_of(condition) == Some(kind))
}

/// The reason of the condition of this type.
pub fn reason_of<'a>(status: &'a Map, kind: &str) -> Option<&'a str> {
    condition_of(status, kind)?.get("reason").and_then(Value::as_str)
}

/// Returns true if the condition of this type has the status True.
pub fn is_true(status: &Map, kind: &str) -> bool {
    condition_of(status, kind).and_then(|condition| condition.get("status")?.as_str()) == Some("True")
}

/// Sets `lastTransitionTime` of each condition: the earlier time if the condition's status is unchanged, otherwise now.
pub fn stamp(conditions: Vec<Map>, before: &Map, now: Timestamp) -> Value {
    let stamped = conditions.into_iter().map(|mut condition| {
        let before = conditions_of(before).find(|before| type_of(before) == type_of(&condition));
        let unchanged = before.filter(|before| before.get("status") == condition.get("status"));
        let time = unchanged
            .and_then(|before| before.get("lastTransitionTime").cloned())
            .unwrap_or_else(|| Value::from(format!("{now:.0}")));
        condition.insert("lastTransitionTime", time);
        Value::Object(condition)
    });
    Value::Array(stamped.collect())
}
