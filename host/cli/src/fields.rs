//! Sets fields of objects, and turns values of the core into those of the command line.

use serde_json::{Value, json};
use windlass_core::value::json::{Map, Value as CoreValue};

/// Sets a field of an object, by the names on the way to it; objects that are missing on the way are added. A value on the way that
/// is no object stays as it is: a plugin may return anything.
pub fn set(object: &mut Value, path: &[&str], value: impl Into<Value>) {
    let Some((name, above)) = path.split_last() else { return };
    let around = above
        .iter()
        .try_fold(object, |object, name| Some(object.as_object_mut()?.entry(*name).or_insert_with(|| json!({}))));
    if let Some(fields) = around.and_then(Value::as_object_mut) {
        fields.insert((*name).to_owned(), value.into());
    }
}

/// An object of the core as one of the command line.
pub fn object_of(fields: &Map) -> Value {
    Value::Object(fields.iter().map(|(name, value)| (name.to_owned(), value_of(value))).collect())
}

/// A value of the core as one of the command line. (`serde_json` would parse no text that is nested as deep as a response may be.)
/// That equal decimals stay equal, and others unequal, depends on `serde_json`'s feature `float_roundtrip`.
pub fn value_of(value: &CoreValue) -> Value {
    match value {
        CoreValue::Null => Value::Null,
        CoreValue::Bool(value) => Value::Bool(*value),
        CoreValue::String(text) => Value::String(text.to_string()),
        CoreValue::Number(number) => serde_json::from_str(number.as_str()).unwrap_or_default(),
        CoreValue::Array(items) => items.iter().map(value_of).collect(),
        CoreValue::Object(fields) => object_of(fields),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_is_set_with_the_objects_around_it_unless_another_value_is_there() {
        let mut object = json!({"metadata": {"name": "a", "labels": {"b": "c"}}, "spec": 1});
        set(&mut object, &["metadata", "labels", "example.com/b"], "d");
        set(&mut object, &["metadata", "annotations", "e"], "f");
        set(&mut object, &["spec", "replicas"], 2);
        set(&mut object, &["kind"], "Pod");
        let labels = json!({"b": "c", "example.com/b": "d"});
        let metadata = json!({"name": "a", "labels": labels, "annotations": {"e": "f"}});
        assert_eq!(object, json!({"metadata": metadata, "spec": 1, "kind": "Pod"}));
    }
}
