//! Converts a Rust type to a structural schema.
//!
//! The schema of a CRD (apiextensions v1, "structural schemas") is a subset of JSON Schema: no references, one type for each
//! field, no `null` type, and no properties inside `oneOf` alone. A type beyond that becomes
//! `x-kubernetes-preserve-unknown-fields`: the API server accepts any value, and serde checks it when the plugin reads it.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value};

use crate::json::object;

type Fields = Map<String, Value>;

/// Who writes the document: the schema of a type depends on it.
#[derive(Clone, Copy)]
pub(crate) enum Direction {
    /// Users write it, and the plugin reads it (`spec`).
    Read,
    /// The plugin writes it (`status`).
    Written,
}

/// The structural schema of a type.
pub(crate) fn of<T: JsonSchema>(direction: Direction) -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.meta_schema = None;
    settings.inline_subschemas = true;
    let settings = match direction {
        Direction::Read => settings.for_deserialize(),
        Direction::Written => settings.for_serialize(),
    };
    let mut schema = structural(settings.into_generator().into_root_schema_for::<T>().to_value());
    if let Direction::Written = direction {
        relax(&mut schema);
    }
    schema
}

/// Makes fields that may be null optional: the response leaves out what is null.
fn relax(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    if let Some(Value::Object(properties)) = schema.get("properties") {
        let nullable = properties.iter().filter(|(_, property)| may_be_null(property));
        let nullable: Vec<_> = nullable.map(|(name, _)| Value::from(name.as_str())).collect();
        let mut required = array(schema.remove("required"));
        required.retain(|name| !nullable.contains(name));
        if !required.is_empty() {
            schema.insert("required".to_owned(), Value::Array(required));
        }
    }
    for keyword in ["items", "additionalProperties"] {
        schema.get_mut(keyword).into_iter().for_each(relax);
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(relax);
    }
}

/// Whether a schema accepts null.
fn may_be_null(schema: &Value) -> bool {
    let is_true = |keyword: &str| schema.get(keyword) == Some(&Value::Bool(true));
    is_true("nullable") || (is_true(PRESERVE) && schema.get("type").is_none())
}

/// Keywords with the same meaning in both, whose values contain no schemas.
const PLAIN: [&str; 12] = [
    "description",
    "default",
    "maximum",
    "minimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "multipleOf",
    "maxProperties",
    "minProperties",
];

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

fn structural(schema: Value) -> Value {
    let Value::Object(mut from) = schema else {
        return unchecked(None);
    };
    let description = from.get("description").cloned();
    // Subschemas are inlined, so only a recursive type has a reference; a structural schema cannot be recursive.
    if from.contains_key("$ref") {
        return unchecked(description);
    }
    let mut to = Fields::new();
    for keyword in PLAIN {
        if let Some(value) = from.remove(keyword).filter(|value| !value.is_null()) {
            to.insert(keyword.to_owned(), value);
        }
    }
    for (keyword, value) in from.iter().filter(|(keyword, _)| keyword.starts_with("x-kubernetes-")) {
        to.insert(keyword.clone(), value.clone());
    }
    if !set_type(&mut from, &mut to) {
        return unchecked(description);
    }
    set_bounds(&mut from, &mut to);
    set_enum(&mut from, &mut to);
    set_items(&mut from, &mut to);
    set_properties(&mut from, &mut to);
    for part in array(from.remove("allOf")) {
        merge(&mut to, structural(part));
    }
    for keyword in ["oneOf", "anyOf"] {
        let variants = array(from.remove(keyword));
        if !variants.is_empty() && !set_variants(keyword, variants, &mut to) {
            return unchecked(description);
        }
    }
    if !to.contains_key("type") && !to.contains_key(INT_OR_STRING) {
        to.insert(PRESERVE.to_owned(), true.into());
    }
    Value::Object(to)
}

/// A schema that accepts any value.
fn unchecked(description: Option<Value>) -> Value {
    let mut schema = Fields::new();
    schema.insert(PRESERVE.to_owned(), true.into());
    if let Some(description) = description {
        schema.insert("description".to_owned(), description);
    }
    Value::Object(schema)
}

fn array(value: Option<Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn text<'a>(fields: &'a Fields, keyword: &str) -> Option<&'a str> {
    fields.get(keyword).and_then(Value::as_str)
}

/// Sets `type` and `format`. False if a structural schema cannot express the types.
fn set_type(from: &mut Fields, to: &mut Fields) -> bool {
    let mut types = match from.remove("type") {
        Some(Value::Array(types)) => types,
        Some(one) => vec![one],
        None => Vec::new(),
    };
    if types.iter().any(|one| one == "null") {
        to.insert("nullable".to_owned(), true.into());
        types.retain(|one| one != "null");
    }
    match types.as_slice() {
        [] => {}
        [one] => {
            to.insert("type".to_owned(), one.clone());
        }
        [a, b] if (a == "integer" && b == "string") || (a == "string" && b == "integer") => {
            to.insert(INT_OR_STRING.to_owned(), true.into());
        }
        _ => return false,
    }
    if let Some(format) = from.remove("format") {
        set_format(format.as_str().unwrap_or_default(), to);
    }
    true
}

/// Replaces integer formats: the API server warns about others than these two. Unsigned ones become bounds.
fn set_format(format: &str, to: &mut Fields) {
    let (format, maximum) = match format {
        "int8" | "int16" | "int32" | "uint8" | "uint16" => ("int32", None),
        "uint32" => ("int64", Some(u32::MAX)),
        "int64" | "int" | "uint64" | "uint" => ("int64", None),
        other => (other, None),
    };
    to.insert("format".to_owned(), format.into());
    if let Some(maximum) = maximum {
        to.entry("maximum").or_insert_with(|| maximum.into());
    }
}

/// Sets exclusive bounds, which are flags in `OpenAPI` 3.0.
fn set_bounds(from: &mut Fields, to: &mut Fields) {
    for (keyword, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if let Some(value) = from.remove(keyword) {
            to.insert(bound.to_owned(), value);
            to.insert(keyword.to_owned(), true.into());
        }
    }
}

fn set_enum(from: &mut Fields, to: &mut Fields) {
    let constant = from.remove("const").map(|value| vec![value]);
    let mut values = constant.unwrap_or_else(|| array(from.remove("enum")));
    if values.iter().any(Value::is_null) {
        to.insert("nullable".to_owned(), true.into());
        values.retain(|value| !value.is_null());
    }
    if values.is_empty() {
        return;
    }
    if !to.contains_key("type") && values.iter().all(Value::is_string) {
        to.insert("type".to_owned(), "string".into());
    }
    to.insert("enum".to_owned(), Value::Array(values));
}

fn set_items(from: &mut Fields, to: &mut Fields) {
    if text(to, "type") != Some("array") {
        return;
    }
    let items = match (from.remove("prefixItems"), from.remove("items")) {
        (None, Some(items)) => structural(items),
        _ => unchecked(None),
    };
    let scalar = items.get("type").is_some_and(|one| one != "object" && one != "array");
    if from.remove("uniqueItems") == Some(true.into()) && scalar {
        to.insert("x-kubernetes-list-type".to_owned(), "set".into());
    }
    to.insert("items".to_owned(), items);
}

fn set_properties(from: &mut Fields, to: &mut Fields) {
    if let Some(required) = from.remove("required").filter(|required| !is_empty(required)) {
        to.insert("required".to_owned(), required);
    }
    let additional = from.remove("additionalProperties");
    if let Some(Value::Object(properties)) = from.remove("properties").filter(|properties| !is_empty(properties)) {
        let mut schemas = Fields::new();
        for (name, schema) in properties {
            schemas.insert(name, structural(schema));
        }
        to.insert("properties".to_owned(), Value::Object(schemas));
        // A flattened map beside named fields.
        if matches!(additional, Some(Value::Object(_) | Value::Bool(true))) {
            to.insert(PRESERVE.to_owned(), true.into());
        }
    } else if let Some(values @ Value::Object(_)) = additional {
        to.insert("additionalProperties".to_owned(), structural(values));
    } else if additional == Some(true.into()) {
        to.insert(PRESERVE.to_owned(), true.into());
    }
}

/// Sets `oneOf` or `anyOf`. False if a structural schema cannot express the variants.
fn set_variants(keyword: &str, variants: Vec<Value>, to: &mut Fields) -> bool {
    let count = variants.len();
    let variants: Vec<Value> = variants.into_iter().filter(|one| one.get("type") != Some(&"null".into())).collect();
    if variants.len() < count {
        to.insert("nullable".to_owned(), true.into());
    }
    let mut variants: Vec<Value> = variants.into_iter().map(structural).collect();
    if variants.len() == 1 {
        for one in variants {
            merge(to, one);
        }
        return true;
    }
    let types: Vec<&str> = variants.iter().filter_map(|one| one.get("type")?.as_str()).collect();
    if types.len() < variants.len() {
        return false;
    }
    if variants.iter().all(|one| one.get("type") == Some(&"string".into()) && one.get("enum").is_some()) {
        let values = variants.iter_mut().flat_map(|one| array(one.get_mut("enum").map(Value::take))).collect();
        to.insert("type".to_owned(), "string".into());
        to.insert("enum".to_owned(), Value::Array(values));
        return true;
    }
    if types == ["integer", "string"] || types == ["string", "integer"] {
        to.insert(INT_OR_STRING.to_owned(), true.into());
        return true;
    }
    if types.iter().all(|one| *one == "object") {
        hoist(keyword, variants, to);
        return true;
    }
    false
}

/// Moves the properties of variants that are objects to the object itself. What stays of a variant is the list of properties
/// that it requires.
fn hoist(keyword: &str, variants: Vec<Value>, to: &mut Fields) {
    to.insert("type".to_owned(), "object".into());
    let mut branches = Vec::new();
    for mut variant in variants {
        let required = variant.get_mut("required").map(Value::take);
        if let Some(fields) = variant.as_object_mut() {
            fields.remove("description");
            fields.remove("required");
        }
        let mut branch = Fields::new();
        // A tag has one value in each variant.
        let mut tags = Fields::new();
        for (name, schema) in variant.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if let Some(values) = schema.get("enum") {
                tags.insert(name.clone(), object([("enum", values.clone())]));
            }
        }
        if !tags.is_empty() {
            branch.insert("properties".to_owned(), Value::Object(tags));
        }
        if let Some(required) = required {
            branch.insert("required".to_owned(), required);
        }
        merge(to, variant);
        branches.push(Value::Object(branch));
    }
    // A variant that requires nothing matches every object, so `oneOf` would reject the others.
    if branches.iter().all(|branch| branch.get("required").is_some()) {
        to.insert(keyword.to_owned(), Value::Array(branches));
    }
}

/// Adds the keywords that are missing. A property in both becomes one that allows either.
fn merge(to: &mut Fields, from: Value) {
    let Value::Object(from) = from else { return };
    for (keyword, value) in from {
        match (to.get_mut(&keyword), value) {
            (None, value) => {
                to.insert(keyword, value);
            }
            (Some(Value::Object(mine)), Value::Object(theirs)) if keyword == "properties" => {
                for (name, schema) in theirs {
                    either(mine, name, schema);
                }
            }
            (Some(Value::Array(mine)), Value::Array(theirs)) if keyword == "required" => {
                mine.extend(theirs);
            }
            _ => {}
        }
    }
}

fn either(properties: &mut Fields, name: String, schema: Value) {
    let Some(mine) = properties.get_mut(&name) else {
        properties.insert(name, schema);
        return;
    };
    if *mine == schema {
        return;
    }
    match (mine.get_mut("enum"), schema.get("enum")) {
        (Some(Value::Array(mine)), Some(Value::Array(theirs))) => {
            mine.extend(theirs.iter().cloned());
        }
        _ => *mine = unchecked(None),
    }
}

#[cfg(test)]
mod tests;
