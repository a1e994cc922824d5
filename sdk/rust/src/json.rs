//! JSON objects, built in less code than `json!` or `collect` become: a component travels in a ConfigMap.

use serde_json::{Map, Value};

/// An object of these fields.
pub(crate) fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let mut object = Map::new();
    for (name, value) in fields {
        object.insert(name.to_owned(), value);
    }
    Value::Object(object)
}

/// Sets a field of an object.
pub(crate) fn set(object: &mut Value, field: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(field.to_owned(), value);
    }
}

/// The document's bytes. Not by `to_string`: that would bring the indented form along.
pub(crate) fn bytes(value: &Value) -> Vec<u8> {
    // A `Value` has string keys and finite numbers, so nothing can fail.
    serde_json::to_vec(value).unwrap_or_default()
}
