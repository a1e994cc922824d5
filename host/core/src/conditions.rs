//! Conditions as `metav1.Condition` has them (KEP-1623): made, and given the time of their last change. The clock is an
//! argument.

use jiff::Timestamp;

use crate::json::{Map, Value};

/// A condition without its time.
pub fn condition(kind: &str, status: &str, reason: &str, message: &str, generation: Option<i64>) -> Map {
    // With room for the time.
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

/// The conditions of a status, those without a type left out.
pub fn conditions_of(status: &Map) -> impl Iterator<Item = &Map> + Clone {
    let list = status.get("conditions").and_then(Value::as_array).unwrap_or_default();
    list.iter().filter_map(Value::as_object).filter(|condition| type_of(condition).is_some())
}

/// A condition's type.
pub fn type_of(condition: &Map) -> Option<&str> {
    condition.get("type").and_then(Value::as_str)
}

/// Gives each condition the time of its last change of status: that which the status before has, or now.
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
