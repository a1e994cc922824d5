//! Applies the structural schema of a CRD to an object as the API server does: defaults, validation, pruning. CEL rules
//! are not evaluated; [`has_rules`] returns whether there are any. Also checks a Plugin's `spec.config` against the schema
//! that its component declares.

mod pattern;
mod problems;

use serde_json::{Map, Value};

use crate::contract::declared_parent::storage_of;

pub use self::pattern::compiled;
pub use self::problems::{problems, problems_at, problems_of_config, problems_of_stored};

/// The schema of a CRD's storage version, if it has one.
pub fn of_definition(definition: &Value) -> Option<&Value> {
    storage_of(definition)?.pointer("/schema/openAPIV3Schema")
}

/// Fills in the defaults of missing fields, and removes null from fields that are not nullable. Returns whether it changed the value.
pub fn fill_in(schema: &Value, value: &mut Value) -> bool {
    fill_in_within(schema, value, &mut { usize::MAX })
}

/// The same with at most this amount of work, of which the rest is left; at 0, the value is not complete. Each item of a list may lack
/// the same large default.
pub(super) fn fill_in_within(schema: &Value, value: &mut Value, work: &mut usize) -> bool {
    let mut is_changed = false;
    if let Value::Object(fields) = value {
        let count = fields.len();
        let is_missing = |name: &str| property(schema, name).is_some_and(|field| !is_true(field, "nullable"));
        fields.retain(|name, field| !(field.is_null() && is_missing(name)));
        is_changed = fields.len() < count;
        for (name, property) in object(schema, "properties").into_iter().flatten() {
            spend(work, 1);
            if let Some(default) = property.get("default").filter(|_| !fields.contains_key(name)) {
                spend(work, entry_weight(name, default));
                if *work == 0 {
                    return is_changed;
                }
                fields.insert(name.clone(), default.clone());
                is_changed = true;
            }
        }
    }
    for_each_inside(schema, value, |schema, value| {
        spend(work, 1);
        is_changed |= *work > 0 && fill_in_within(schema, value, work);
    });
    is_changed
}

fn spend(work: &mut usize, cost: usize) {
    *work = work.saturating_sub(cost);
}

/// About how much memory a copy of a value needs, in units of 16 bytes.
fn weight(value: &Value) -> usize {
    2 + match value {
        // The first node of a map has room for eleven fields.
        Value::Object(fields) => 40 + fields.iter().map(|(name, field)| entry_weight(name, field)).sum::<usize>(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::String(text) => text.len() / 16,
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn entry_weight(name: &str, value: &Value) -> usize {
    4 + name.len() / 16 + weight(value)
}

/// Removes the fields that the schema does not have.
pub fn prune(schema: &Value, value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.retain(|name, _| knows(schema, name));
    }
    for_each_inside(schema, value, prune);
}

/// Calls `act` with each field or item of a value, and its schema, if it has one.
fn for_each_inside(schema: &Value, value: &mut Value, mut act: impl FnMut(&Value, &mut Value)) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if let Some(schema) = property(schema, name) {
                    act(schema, field);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for item in items {
                    act(schema, item);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether the schema contains CEL rules.
pub fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| name == "x-kubernetes-validations" || has_rules(value))
        }
        Value::Array(items) => items.iter().any(has_rules),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The schema of a field, if it has one.
pub fn property<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    let named = schema.get("properties").and_then(|properties| properties.get(name));
    named.or_else(|| schema.get("additionalProperties").filter(|additional| additional.is_object()))
}

/// Whether the API server keeps a field.
fn knows(schema: &Value, name: &str) -> bool {
    let embedded =
        is_true(schema, "x-kubernetes-embedded-resource") && ["apiVersion", "kind", "metadata"].contains(&name);
    property(schema, name).is_some()
        || embedded
        || is_true(schema, "x-kubernetes-preserve-unknown-fields")
        || is_true(schema, "additionalProperties")
}

pub(super) fn object<'a>(schema: &'a Value, field: &str) -> Option<&'a Map<String, Value>> {
    schema.get(field).and_then(Value::as_object)
}

pub(super) fn is_true(value: &Value, field: &str) -> bool {
    value.get(field) == Some(&Value::Bool(true))
}

pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests;
