//! Checks a parent against the schema that its component declares, before the plugin is called, and fills in its defaults.
//!
//! The API server did the same when the parent was written, with the schema of the cluster at that time: an object may be older than the
//! schema, and the schema of the cluster older than the component.

use std::collections::BTreeMap;
use std::hash::BuildHasher as _;

use hashbrown::DefaultHashBuilder;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::structural::{fill_in_within, is_true, of_definition, problems_of_stored, property};
use crate::contract::{Descriptor, Parent};
use crate::value::bounded::{LruCache, bounded};

/// Number of specs of a component that are known to fit: most calls are for a change of a child, with the spec of the call before.
const KNOWN_MAX: usize = 1024;

/// Largest amount of work for the defaults of one spec, about 6 MB of memory. The schema comes from a component that the host does not trust.
const DEFAULTS_MAX: usize = 400_000;

/// The schema of the spec of a component's parents. Other fields of a parent are validated by the API server alone.
pub struct ParentSchema {
    spec: Value,
    is_required: bool,
    /// Hashes of specs that fit and have all defaults.
    known: Mutex<LruCache<u64, ()>>,
    hasher: DefaultHashBuilder,
}

/// A parent by its schema.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// The parent with its defaults, as JSON; `None` if it lacks none.
    pub completed: Option<Vec<u8>>,
    /// What the schema does not allow, each with the path of its field.
    pub problems: Vec<String>,
}

/// The part of a parent that is checked.
#[derive(Deserialize)]
struct Written<'a> {
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
}

impl ParentSchema {
    /// The schema in the CRD of a descriptor; `None` if it has none of the spec.
    pub fn of(descriptor: &Descriptor) -> Option<Self> {
        let Parent::Custom(definition) = &descriptor.parent else { return None };
        let definition: Value = serde_json::from_slice(definition).ok()?;
        let schema = of_definition(&definition)?;
        let required = schema.get("required").and_then(Value::as_array);
        let is_required = required.is_some_and(|names| names.iter().any(|name| name == "spec"));
        let spec = compact(property(schema, "spec")?);
        Some(Self { spec, is_required, known: Mutex::new(bounded(KNOWN_MAX)), hasher: DefaultHashBuilder::default() })
    }

    /// Checks a parent, and fills in its defaults. Numbers in fields without defaults stay as they are written. Defaults that would cost too
    /// much are not filled in, and what would cost too much to be checked has no problem.
    pub fn check(&self, parent: &[u8]) -> Checked {
        let Ok(Written { spec }) = serde_json::from_slice(parent) else { return Checked::default() };
        let Some(spec) = spec else { return self.check_without_spec(parent) };
        let hash = self.hasher.hash_one(spec.get());
        if self.known.lock().get(&hash).is_some() {
            return Checked::default();
        }
        let Ok(mut completed) = serde_json::from_str(spec.get()) else { return Checked::default() };
        let mut work = DEFAULTS_MAX;
        let is_changed = fill_in_within(&self.spec, &mut completed, &mut work);
        if work == 0 {
            return Checked::default();
        }
        let checked = Checked {
            problems: problems_of_stored(&self.spec, &completed, "spec"),
            completed: is_changed.then(|| with_spec(parent, &completed)).flatten(),
        };
        if checked == Checked::default() {
            self.known.lock().put(hash, ());
        }
        checked
    }

    /// A spec that has a default need not be there, and may be null if the schema says so.
    fn check_without_spec(&self, parent: &[u8]) -> Checked {
        match self.spec.get("default") {
            _ if is_true(&self.spec, "nullable") => Checked::default(),
            Some(default) => {
                let (mut spec, mut work) = (default.clone(), DEFAULTS_MAX);
                fill_in_within(&self.spec, &mut spec, &mut work);
                let completed = if work > 0 { with_spec(parent, &spec) } else { None };
                Checked { completed, problems: Vec::new() }
            }
            None if self.is_required => {
                Checked { completed: None, problems: vec!["spec: required, and missing".to_owned()] }
            }
            None => Checked::default(),
        }
    }
}

/// A parent with another spec; `None` if it cannot be read.
fn with_spec(parent: &[u8], spec: &Value) -> Option<Vec<u8>> {
    let mut fields: BTreeMap<String, &RawValue> = serde_json::from_slice(parent).ok()?;
    let written = fields.remove("spec");
    let before = written.and_then(|written| serde_json::from_str(written.get()).ok()).unwrap_or_default();
    let mut text = Vec::with_capacity(parent.len());
    write(written.unwrap_or(RawValue::NULL), &before, spec, &mut text);
    let spec = RawValue::from_string(String::from_utf8(text).ok()?).ok()?;
    fields.insert("spec".to_owned(), &spec);
    serde_json::to_vec(&fields).ok()
}

/// A schema without what no check needs: hundreds of components are loaded at once.
fn compact(schema: &Value) -> Value {
    match schema {
        Value::Object(keywords) => {
            let kept = keywords.iter().filter(|(name, _)| !is_text(name)).map(|(name, value)| {
                let value = match (name.as_str(), value) {
                    ("properties", Value::Object(fields)) => {
                        fields.iter().map(|(name, field)| (name.clone(), compact(field))).collect()
                    }
                    ("default" | "enum", value) => value.clone(),
                    (_, value) => compact(value),
                };
                (name.clone(), value)
            });
            Value::Object(kept.collect())
        }
        Value::Array(items) => items.iter().map(compact).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
}

fn is_text(keyword: &str) -> bool {
    ["description", "title", "example", "externalDocs", "x-kubernetes-validations"].contains(&keyword)
}

/// Writes an object as it is after a change: what did not change as it was written, because numbers may have more digits than a
/// [`Value`] keeps.
fn write_object(written: &BTreeMap<String, &RawValue>, before: &Value, after: &Value, text: &mut Vec<u8>) {
    let added = object_fields(after).filter(|(name, _)| !written.contains_key(*name));
    let kept = written.iter().filter(|(name, _)| before.get(name).is_none() || after.get(name).is_some());
    let mut separator = "{";
    let mut begin = |name: &str, text: &mut Vec<u8>| {
        text.extend_from_slice(std::mem::replace(&mut separator, ",").as_bytes());
        text.extend_from_slice(Value::from(name).to_string().as_bytes());
        text.push(b':');
    };
    for (name, field) in kept {
        begin(name, text);
        match (before.get(name), after.get(name)) {
            (Some(before), Some(after)) => write(field, before, after, text),
            _ => text.extend_from_slice(field.get().as_bytes()),
        }
    }
    for (name, field) in added {
        begin(name, text);
        text.extend_from_slice(field.to_string().as_bytes());
    }
    text.extend_from_slice(if separator == "{" { b"{}" } else { b"}" });
}

fn object_fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn write(written: &RawValue, before: &Value, after: &Value, text: &mut Vec<u8>) {
    let unchanged = || written.get().as_bytes();
    match (before, after) {
        (before, after) if before == after => text.extend_from_slice(unchanged()),
        (Value::Object(_), Value::Object(_)) => match serde_json::from_str(written.get()) {
            Ok(written) => write_object(&written, before, after, text),
            Err(_) => text.extend_from_slice(unchanged()),
        },
        (Value::Array(before), Value::Array(after)) => {
            let written: Vec<&RawValue> = serde_json::from_str(written.get()).unwrap_or_default();
            let mut separator = b'[';
            for ((item, before), after) in written.into_iter().zip(before).zip(after) {
                text.push(std::mem::replace(&mut separator, b','));
                write(item, before, after, text);
            }
            text.push(b']');
        }
        (_, after) => text.extend_from_slice(after.to_string().as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::value::ids::Gvk;

    fn schema() -> ParentSchema {
        let part = json!({"type": "object", "properties": {"kind": {"type": "string", "default": "small"}, "size": {"type": "integer"}}});
        let spec = json!({
            "type": "object", "required": ["image"], "description": "The spec.",
            "properties": {
                "image": {"type": "string", "pattern": r"^\S+$", "description": "The image."},
                "replicas": {"type": "integer", "maximum": 9, "default": 1},
                "description": {"type": "string", "maxLength": 3},
                "when": {"type": "string", "format": "date-time"},
                "any": {"x-kubernetes-preserve-unknown-fields": true},
                "parts": {"type": "array", "items": part},
            },
        });
        let schema = json!({"type": "object", "required": ["metadata", "spec"], "properties": {
            "apiVersion": {"type": "string"}, "metadata": {"type": "object"}, "spec": spec,
            "status": {"type": "object", "required": ["phase"], "properties": {"phase": {"type": "string"}}},
        }});
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
        let definition = json!({"spec": {"versions": [version]}}).to_string();
        let descriptor = Descriptor::about("a", "1.0.0", Parent::Custom(definition.into_bytes()));
        ParentSchema::of(&descriptor).expect("a schema")
    }

    fn checked(spec: &str) -> Checked {
        schema().check(
            format!(r#"{{"apiVersion":"g/v1","metadata":{{"generation":2}},"spec":{spec},"status":{{}}}}"#).as_bytes(),
        )
    }

    #[test]
    fn parent_that_fits_is_handed_over_as_it_is() {
        for spec in [
            r#"{"image": "a", "replicas": 9}"#,
            r#"{"image": "a", "replicas": 1, "unknown": 1}"#,
            r#"{"image": "a", "replicas": 1, "when": "noon", "any": 123456789012345678901234567890}"#,
        ] {
            assert_eq!(checked(spec), Checked::default(), "{spec}");
        }
    }

    #[test]
    fn each_problem_of_a_parent_names_its_field() {
        for (spec, problem) in [
            (r#"{"replicas": 1}"#, "spec.image: required, and missing"),
            (r#"{"image": "a b", "replicas": 1}"#, r#"spec.image: "a b" is not a text without whitespace"#),
            (r#"{"image": "a", "replicas": 10}"#, "spec.replicas: 10 is more than the maximum 9"),
            (
                r#"{"image": "a", "replicas": 1, "description": "long"}"#,
                "spec.description: 4 characters, and at most 3 are allowed",
            ),
            (
                r#"{"image": "a", "replicas": 1, "parts": [{"kind": 1}]}"#,
                "spec.parts[0].kind: must be of type string, and is the number 1",
            ),
        ] {
            assert_eq!(checked(spec).problems, [problem], "{spec}");
        }
    }

    #[test]
    fn spec_that_fitted_before_says_nothing_about_another() {
        let schema = schema();
        let parent = |version: u32, replicas: u32| {
            format!(r#"{{"metadata":{{"resourceVersion":"{version}"}},"spec":{{"image":"a","replicas":{replicas}}}}}"#)
        };
        for (version, replicas, problems) in [(1, 9, 0), (2, 9, 0), (3, 10, 1), (4, 10, 1), (5, 9, 0)] {
            assert_eq!(
                schema.check(parent(version, replicas).as_bytes()).problems.len(),
                problems,
                "version {version}"
            );
        }
    }

    #[test]
    fn defaults_are_filled_in_and_everything_else_stays_as_it_is_written() {
        let spec = r#"{"image":"a","any":1234567890123456789012,"parts":[{"size":1.50e0,"kind":null},{"kind":"b"}],"replicas":null}"#;
        let completed = checked(spec).completed.expect("a completed parent");
        assert_eq!(
            String::from_utf8(completed).expect("UTF-8"),
            r#"{"apiVersion":"g/v1","metadata":{"generation":2},"spec":{"any":1234567890123456789012,"image":"a","parts":[{"kind":"small","size":1.50e0},{"kind":"b"}],"replicas":1},"status":{}}"#
        );
    }

    #[test]
    fn parent_with_too_many_defaults_is_left_as_it_is() {
        let large =
            json!({"type": "object", "properties": {"large": {"type": "string", "default": "a".repeat(10_000)}}});
        let named = json!({"type": "object", "properties": {"a".repeat(10_000): {"type": "integer", "default": 1}}});
        let spec = json!({"type": "object", "properties": {
            "items": {"type": "array", "items": large}, "names": {"type": "array", "items": named},
        }});
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        let version = json!({"name": "v1", "storage": true, "schema": {"openAPIV3Schema": schema}});
        let definition = json!({"spec": {"versions": [version]}}).to_string().into_bytes();
        let schema = ParentSchema::of(&Descriptor::about("a", "1.0.0", Parent::Custom(definition))).expect("a schema");
        let checked = |field: &str, items: usize| {
            schema.check(json!({"spec": {field: vec![json!({}); items]}}).to_string().as_bytes())
        };
        for field in ["items", "names"] {
            assert!(checked(field, 10).completed.is_some_and(|parent| parent.len() > 100_000), "{field}");
            assert_eq!(checked(field, 10_000), Checked::default(), "{field}: a hundred megabytes");
        }
    }

    #[test]
    fn component_for_an_existing_kind_has_no_schema_and_malformed_json_is_left_to_the_plugin() {
        let existing = Parent::Existing(Gvk::from_api_version("v1", "Namespace"));
        assert!(ParentSchema::of(&Descriptor::about("a", "1.0.0", existing)).is_none());
        assert_eq!(schema().check(b"{"), Checked::default());
    }
}
