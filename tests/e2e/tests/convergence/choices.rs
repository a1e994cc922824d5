//! Random choices of fields, values and list items.

use serde_json::Value;

/// Adds each field with a probability of one half.
pub fn some(fields: Vec<(&str, Value)>) -> Value {
    fields.into_iter().filter(|_| fastrand::bool()).map(|(name, value)| (name.to_owned(), value)).collect()
}

pub fn one(mut values: Vec<Value>) -> Value {
    values.swap_remove(fastrand::usize(..values.len()))
}

/// Some of these items, in any order.
pub fn items(mut items: Vec<Value>) -> Value {
    fastrand::shuffle(&mut items);
    items.truncate(fastrand::usize(..=items.len()));
    items.into()
}

pub fn merge(mut one: Value, other: Value) -> Value {
    if let (Value::Object(one), Value::Object(other)) = (&mut one, other) {
        one.extend(other);
    }
    one
}

pub fn without(mut value: Value, fields: &[&str]) -> Value {
    if let Value::Object(map) = &mut value {
        map.retain(|field, _| !fields.contains(&&**field));
    }
    value
}
