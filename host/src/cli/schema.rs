//! Applies the structural schema of a CRD to an object as the API server does: defaults, validation, pruning. CEL rules
//! are not evaluated; [`has_rules`] returns whether there are any.

use std::cell::RefCell;
use std::collections::HashMap;

use regex::Regex;
use serde_json::{Map, Value};
use windlass_core::declared_parent::storage_of;

/// Largest number of problems that are listed; further ones are counted.
const SHOWN: usize = 20;

/// The schema of a CRD's storage version, if it has one.
pub fn of_definition(definition: &Value) -> Option<&Value> {
    storage_of(definition)?.pointer("/schema/openAPIV3Schema")
}

/// A pattern, compiled; `None` if it cannot be read. `windlass test` validates thousands of parents, so that each pattern
/// is compiled only once.
pub fn compiled(pattern: &str) -> Option<Regex> {
    thread_local! {
        static COMPILED: RefCell<HashMap<String, Option<Regex>>> = RefCell::default();
    }
    COMPILED.with_borrow_mut(|all| match all.get(pattern) {
        Some(regex) => regex.clone(),
        None => all.entry(pattern.to_owned()).or_insert_with(|| Regex::new(pattern).ok()).clone(),
    })
}

/// Fills in the defaults of missing fields.
pub fn fill_in(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, property) in object(schema, "properties").into_iter().flatten() {
                if let Some(default) = property.get("default") {
                    let is_missing = match fields.get(name) {
                        None => true,
                        // In a field that is not nullable, null counts as missing.
                        Some(Value::Null) => !is_true(property, "nullable"),
                        Some(_) => false,
                    };
                    if is_missing {
                        fields.insert(name.clone(), default.clone());
                    }
                }
            }
            for (name, field) in fields {
                if let Some(schema) = property(schema, name) {
                    fill_in(schema, field);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for item in items {
                    fill_in(schema, item);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Removes the fields that the schema does not have.
pub fn prune(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| knows(schema, name));
            for (name, field) in fields {
                if let Some(schema) = property(schema, name) {
                    prune(schema, field);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for item in items {
                    prune(schema, item);
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

/// The problems of a whole object, each with the path of its field. Metadata and status are not validated.
pub fn problems(schema: &Value, object: &Value) -> Vec<String> {
    let mut found = Problems::default();
    let mut object = object.clone();
    if let Some(object) = object.as_object_mut() {
        object.retain(|name, _| !["apiVersion", "kind", "metadata", "status"].contains(&name.as_str()));
    }
    found.check(schema, &object, "");
    found.into_lines()
}

/// The problems of a part of an object.
pub fn problems_at(schema: &Value, value: &Value, path: &str) -> Vec<String> {
    let mut found = Problems::default();
    found.check(schema, value, path);
    found.into_lines()
}

#[derive(Default)]
struct Problems {
    lines: Vec<String>,
    more: usize,
}

impl Problems {
    fn add(&mut self, path: &str, problem: &str) {
        if self.lines.len() < SHOWN {
            let path = if path.is_empty() { "the object" } else { path };
            self.lines.push(format!("{path}: {problem}"));
        } else {
            self.more += 1;
        }
    }

    fn into_lines(mut self) -> Vec<String> {
        if self.more > 0 {
            self.lines.push(format!("and {} more problems", self.more));
        }
        self.lines
    }

    fn check(&mut self, schema: &Value, value: &Value, path: &str) {
        if value.is_null() && is_true(schema, "nullable") {
            return;
        }
        if let Some(problem) = wrong_type(schema, value) {
            return self.add(path, &problem);
        }
        if let Some(allowed) = schema.get("enum").and_then(Value::as_array).filter(|all| !all.contains(value)) {
            let allowed: Vec<_> = allowed.iter().map(ToString::to_string).collect();
            self.add(path, &format!("unsupported value {value}; supported are {}", allowed.join(", ")));
        }
        match value {
            Value::Object(fields) => self.check_object(schema, fields, path),
            Value::Array(items) => self.check_array(schema, items, path),
            Value::String(text) => self.check_text(schema, text, path),
            Value::Number(number) => self.check_number(schema, number, path),
            Value::Null | Value::Bool(_) => {}
        }
        self.check_logic(schema, value, path);
    }

    fn check_object(&mut self, schema: &Value, fields: &Map<String, Value>, path: &str) {
        for required in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
            if let Some(name) = required.as_str().filter(|name| !fields.contains_key(*name)) {
                self.add(&join(path, name), "required, and missing");
            }
        }
        self.check_bound(schema, ("minProperties", "maxProperties"), fields.len(), "fields", path);
        for (name, field) in fields {
            let path = join(path, name);
            match property(schema, name) {
                Some(schema) => self.check(schema, field, &path),
                None if knows(schema, name) => {}
                None => {
                    self.add(&path, "unknown field; the API server drops it, or refuses it under strict validation");
                }
            }
        }
    }

    fn check_array(&mut self, schema: &Value, items: &[Value], path: &str) {
        self.check_bound(schema, ("minItems", "maxItems"), items.len(), "items", path);
        let keys: Vec<_> =
            schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array).into_iter().flatten().collect();
        let list_type = schema.get("x-kubernetes-list-type").and_then(Value::as_str);
        for (at, item) in items.iter().enumerate() {
            let path = format!("{path}[{at}]");
            let same = |other: &Value| match list_type {
                Some("set") => other == item,
                Some("map") => keys.iter().filter_map(|key| key.as_str()).all(|key| other.get(key) == item.get(key)),
                _ => false,
            };
            if items.iter().take(at).any(same) {
                self.add(&path, "there is one like it before");
            }
            if let Some(schema) = schema.get("items") {
                self.check(schema, item, &path);
            }
        }
    }

    fn check_text(&mut self, schema: &Value, text: &str, path: &str) {
        self.check_bound(schema, ("minLength", "maxLength"), text.chars().count(), "characters", path);
        if let Some(pattern) = schema.get("pattern").and_then(Value::as_str) {
            match compiled(pattern) {
                Some(regex) if regex.is_match(text) => {}
                Some(_) => self.add(path, &format!("{text:?} does not match the pattern {pattern}")),
                None => self.add(path, &format!("the CRD's pattern {pattern} cannot be read")),
            }
        }
        let is_wrong = match schema.get("format").and_then(Value::as_str) {
            Some("date-time") => text.parse::<jiff::Timestamp>().is_err(),
            Some("date") => text.parse::<jiff::civil::Date>().is_err(),
            Some("ipv4") => text.parse::<std::net::Ipv4Addr>().is_err(),
            Some("ipv6") => text.parse::<std::net::Ipv6Addr>().is_err(),
            // Other formats are checked by the API server only.
            _ => false,
        };
        if is_wrong {
            let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
            self.add(path, &format!("{text:?} has not the format {format}"));
        }
    }

    fn check_number(&mut self, schema: &Value, number: &serde_json::Number, path: &str) {
        let Some(found) = number.as_f64() else { return };
        let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
        if let Some(least) = bound("minimum") {
            let excludes = is_true(schema, "exclusiveMinimum");
            if found < least || (excludes && found <= least) {
                self.add(
                    path,
                    &format!("{number} is less than the {}minimum {least}", if excludes { "exclusive " } else { "" }),
                );
            }
        }
        if let Some(most) = bound("maximum") {
            let excludes = is_true(schema, "exclusiveMaximum");
            if found > most || (excludes && found >= most) {
                self.add(
                    path,
                    &format!("{number} is more than the {}maximum {most}", if excludes { "exclusive " } else { "" }),
                );
            }
        }
        if let Some(step) = bound("multipleOf").filter(|step| *step > 0.0) {
            let times = found / step;
            if (times - times.round()).abs() > 1e-9 {
                self.add(path, &format!("{number} is no multiple of {step}"));
            }
        }
        let is_outside = match schema.get("format").and_then(Value::as_str) {
            Some("int32") => number.as_i64().is_none_or(|number| i32::try_from(number).is_err()),
            Some("int64") => number.as_i64().is_none(),
            _ => false,
        };
        if is_outside {
            self.add(path, &format!("{number} is outside of its format"));
        }
    }

    fn check_bound(&mut self, schema: &Value, (min, max): (&str, &str), found: usize, what: &str, path: &str) {
        let bound = |name: &str| schema.get(name).and_then(Value::as_u64).and_then(|bound| usize::try_from(bound).ok());
        if let Some(least) = bound(min).filter(|least| found < *least) {
            self.add(path, &format!("{found} {what}, and at least {least} are required"));
        }
        if let Some(most) = bound(max).filter(|most| found > *most) {
            self.add(path, &format!("{found} {what}, and at most {most} are allowed"));
        }
    }

    /// Checks `allOf`, `anyOf`, `oneOf` and `not`: in a structural schema they only constrain, and define no fields.
    fn check_logic(&mut self, schema: &Value, value: &Value, path: &str) {
        let fits = |schema: &Value| {
            let mut found = Self::default();
            found.check(&constraint(schema), value, path);
            found.lines.is_empty()
        };
        let all = |name: &str| schema.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
        for part in all("allOf") {
            self.check(&constraint(&part), value, path);
        }
        let any = all("anyOf");
        if !any.is_empty() && !any.iter().any(fits) {
            self.add(path, "it fits none of anyOf");
        }
        let one = all("oneOf");
        let count = one.iter().filter(|schema| fits(schema)).count();
        if !one.is_empty() && count != 1 {
            self.add(path, &format!("it fits {count} of oneOf, and must fit one"));
        }
        if schema.get("not").is_some_and(fits) {
            self.add(path, "it fits what `not` forbids");
        }
    }
}

/// Makes a schema inside `allOf` and the like accept fields that it does not name: they belong to the outer schema.
fn constraint(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Value::Object(fields) = &mut schema {
        fields.insert("x-kubernetes-preserve-unknown-fields".to_owned(), Value::Bool(true));
        for nested in fields.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
            *nested.1 = constraint(nested.1);
        }
        if let Some(items) = fields.get_mut("items") {
            *items = constraint(items);
        }
    }
    schema
}

fn wrong_type(schema: &Value, value: &Value) -> Option<String> {
    if is_true(schema, "x-kubernetes-int-or-string") {
        let fits = value.is_string() || is_integer(value);
        return (!fits).then(|| format!("must be an integer or a string, and is {}", type_of(value)));
    }
    let wanted = schema.get("type").and_then(Value::as_str)?;
    let fits = match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => is_integer(value),
        "number" => value.is_number(),
        _ => true,
    };
    (!fits).then(|| format!("must be of type {wanted}, and is {}", type_of(value)))
}

fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

fn type_of(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => format!("the boolean {value}"),
        Value::Number(_) => format!("the number {value}"),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
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

fn object<'a>(schema: &'a Value, field: &str) -> Option<&'a Map<String, Value>> {
    schema.get(field).and_then(Value::as_object)
}

fn is_true(value: &Value, field: &str) -> bool {
    value.get(field) == Some(&Value::Bool(true))
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object", "required": ["spec"],
            "properties": {
                "spec": {
                    "type": "object", "required": ["image"],
                    "properties": {
                        "image": {"type": "string", "minLength": 1, "maxLength": 8, "pattern": "^[a-z:]+$"},
                        "replicas": {"type": "integer", "minimum": 0, "maximum": 255, "default": 1},
                        "size": {"x-kubernetes-int-or-string": true},
                        "mode": {"type": "string", "enum": ["Fast", "Safe"]},
                        "ports": {"type": "array", "maxItems": 2, "items": {"type": "integer", "exclusiveMinimum": true, "minimum": 0}},
                        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                        "maybe": {"type": "string", "nullable": true},
                        "either": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                            "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
                    },
                },
                "status": {"type": "object", "properties": {"ready": {"type": "integer"}}},
            },
        })
    }

    fn problems_of_spec(spec: &Value) -> Vec<String> {
        problems(&schema(), &json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "a"}, "spec": spec}))
    }

    #[test]
    fn object_that_matches_the_schema_has_no_problems() {
        let spec = json!({
            "image": "nginx:x", "replicas": 255, "size": "5Gi", "mode": "Safe", "ports": [1, 2], "labels": {"any": "b"},
            "free": {"x": [1]}, "maybe": null, "either": {"a": "x"},
        });
        assert_eq!(problems_of_spec(&spec), [""; 0]);
    }

    #[test]
    fn each_problem_names_its_field() {
        for (spec, expected) in [
            (json!({"image": "a", "replicas": 300}), "spec.replicas: 300 is more than the maximum 255"),
            (json!({"image": "a", "replicas": -1}), "spec.replicas: -1 is less than the minimum 0"),
            (json!({"image": "a", "replicas": "3"}), "spec.replicas: must be of type integer, and is a string"),
            (json!({"image": "a", "replicas": 1.5}), "spec.replicas: must be of type integer, and is the number 1.5"),
            (json!({"image": "a", "repliicas": 3}), "spec.repliicas: unknown field"),
            (json!({"replicas": 3}), "spec.image: required, and missing"),
            (json!({"image": ""}), "spec.image: 0 characters, and at least 1 are required"),
            (json!({"image": "A"}), "spec.image: \"A\" does not match the pattern ^[a-z:]+$"),
            (
                json!({"image": "a", "mode": "Slow"}),
                "spec.mode: unsupported value \"Slow\"; supported are \"Fast\", \"Safe\"",
            ),
            (json!({"image": "a", "ports": [1, 2, 3]}), "spec.ports: 3 items, and at most 2 are allowed"),
            (json!({"image": "a", "ports": [1, 0]}), "spec.ports[1]: 0 is less than the exclusive minimum 0"),
            (json!({"image": "a", "labels": {"b": 1}}), "spec.labels.b: must be of type string"),
            (json!({"image": "a", "size": true}), "spec.size: must be an integer or a string"),
            (json!({"image": "a", "mode": null}), "spec.mode: must be of type string, and is null"),
            (json!({"image": "a", "either": {"a": "x", "b": "y"}}), "spec.either: it fits 2 of oneOf"),
        ] {
            let found = problems_of_spec(&spec);
            assert!(found.iter().any(|line| line.starts_with(expected)), "{spec}: {expected}: {found:?}");
        }
        let whole = problems(&schema(), &json!({"apiVersion": "g/v1", "kind": "K"}));
        assert_eq!(whole, ["spec: required, and missing"]);
    }

    #[test]
    fn problems_beyond_the_shown_ones_are_counted() {
        let spec: Map<_, _> = (0..100).map(|at| (format!("field-{at:03}"), json!(1))).collect();
        let found = problems_of_spec(&Value::Object(spec));
        assert_eq!((found.len(), found.last().map(String::as_str)), (SHOWN + 1, Some("and 81 more problems")));
    }

    #[test]
    fn defaults_are_filled_in_and_unknown_fields_are_pruned() {
        let mut object = json!({"spec": {"image": "a"}});
        fill_in(&schema(), &mut object);
        assert_eq!(object["spec"]["replicas"], 1);
        let status = schema()["properties"]["status"].clone();
        let mut found = json!({"ready": 1, "typo": 2});
        prune(&status, &mut found);
        assert_eq!(found, json!({"ready": 1}));
    }
}
