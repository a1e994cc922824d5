//! The values in a parent, and their paths as JSON pointers.

use serde_json::Value;
use windlass_core::plugin::schema::structural as schema;

use super::{ParentKind, is_content, texts};

/// The optional fields that a parent has, as paths.
pub fn optional_fields(kind: &ParentKind, parent: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    if let (Some(schema), Some(fields)) = (&kind.schema, parent.as_object()) {
        for (name, value) in fields.iter().filter(|(name, _)| is_content(name)) {
            if let Some(schema) = schema::property(schema, name) {
                optional_below(schema, value, &format!("/{name}"), &mut paths);
            }
        }
    }
    paths
}

fn optional_below(schema: &Value, value: &Value, path: &str, paths: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            let required = texts(schema, "required");
            for (name, field) in fields {
                let path = format!("{path}/{}", escaped(name));
                if !required.contains(&&**name) {
                    paths.push(path.clone());
                }
                if let Some(schema) = schema::property(schema, name) {
                    optional_below(schema, field, &path, paths);
                }
            }
        }
        Value::Array(items) => {
            if let (Some(schema), Some(item)) = (schema.get("items"), items.first()) {
                optional_below(schema, item, &format!("{path}/0"), paths);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The fields of an object, or the items of a list, each with its schema if it has one.
pub fn parts<'a>(schema: &'a Value, value: &'a mut Value) -> Vec<(&'a Value, &'a mut Value)> {
    match value {
        Value::Object(fields) => {
            fields.iter_mut().filter_map(|(name, field)| Some((schema::property(schema, name)?, field))).collect()
        }
        Value::Array(items) => items.iter_mut().filter_map(|item| Some((schema.get("items")?, item))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

/// The paths of a value and of all values in it, as JSON pointers.
pub fn paths_of(value: &Value, path: &str, paths: &mut Vec<String>) {
    paths.push(path.to_owned());
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                paths_of(field, &format!("{path}/{}", escaped(name)), paths);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                paths_of(item, &format!("{path}/{at}"), paths);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Removes the value at a JSON pointer. Returns whether there was one.
pub fn remove(value: &mut Value, path: &str) -> bool {
    let Some((above, name)) = path.rsplit_once('/') else { return false };
    let name = name.replace("~1", "/").replace("~0", "~");
    match value.pointer_mut(above) {
        Some(Value::Object(fields)) => fields.remove(&name).is_some(),
        Some(Value::Array(items)) => match name.parse() {
            Ok(at) if at < items.len() => {
                items.remove(at);
                true
            }
            Ok(_) | Err(_) => false,
        },
        _ => false,
    }
}
