//! Compares the schemas of two CRDs: finds the objects that the old schema accepts and the new schema rejects or
//! truncates.
//!
//! If the new schema lacks a field, the API server silently drops the field from each object at the next write. If a
//! bound is tighter, the next write fails. The comparison of the schemas finds both, independent of the existing
//! objects.

pub mod functions;
pub mod parents;
pub mod structural;

use std::fmt::Write as _;

use serde_json::{Map, Value};

use self::structural::{is_true, join, object};

/// Maximum number of narrowings in a message.
const NAMED_MAX: usize = 8;

/// Maximum depth of the comparison; the API server accepts no schema close to it.
const DEPTH_MAX: usize = 100;

/// A schema that accepts everything: it has no keywords.
const ANYTHING: &Value = &Value::Null;

/// One way in which the new schema accepts less than the old schema.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, derive_more::Display)]
#[display("{}: {what}", if field.is_empty() { "the object" } else { field })]
pub struct Narrowing {
    /// Version and path of the field, for example `v1 spec.ports[].name`; for a change of a version, its name alone.
    pub field: String,
    /// The change, for example `the field is dropped`.
    pub what: String,
}

/// Formats narrowings as one text: the first ones in full, and the number of the others.
pub fn list(narrowings: &[Narrowing]) -> String {
    let mut text = narrowings.iter().take(NAMED_MAX).map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let more = narrowings.len().saturating_sub(NAMED_MAX);
    if more > 0 {
        let _ = write!(text, "; and {more} more");
    }
    text
}

/// Returns where the CRD `new` accepts less than the CRD `old` that it replaces: in versions that both CRDs have,
/// between their storage versions, and in removed versions. Both arguments are the `spec` of a
/// CustomResourceDefinition.
pub fn narrowings(old: &Value, new: &Value) -> Vec<Narrowing> {
    let (before, after): (Vec<_>, Vec<_>) = (list_at(old, "versions").collect(), list_at(new, "versions").collect());
    let named = |name: &str| after.iter().copied().find(|version| text(version, "name") == name);
    let mut found = Vec::new();
    for version in &before {
        let name = text(version, "name");
        match named(name) {
            Some(new) => {
                if is_true(version, "served") && !is_true(new, "served") {
                    found
                        .push(Narrowing { field: name.to_owned(), what: "the version is no longer served".to_owned() });
                }
                found.extend(between(&format!("{name} "), version, new));
            }
            None if is_true(version, "served") || is_true(version, "storage") => {
                found.push(Narrowing { field: name.to_owned(), what: "the version is removed".to_owned() });
            }
            None => {}
        }
    }
    let [old, new] = [&before, &after].map(|versions| versions.iter().find(|version| is_true(version, "storage")));
    if let (Some(old), Some(new)) = (old, new)
        && text(old, "name") != text(new, "name")
    {
        // There is no conversion: an object stored in the old version is read as an object of the new version.
        let pair = format!("{} stored as {}, ", text(old, "name"), text(new, "name"));
        found.extend(between(&pair, old, new));
    }
    found.sort();
    found.dedup();
    found
}

/// Returns where the schema of the version `new` accepts less than the schema of the version `old`. `of` begins the name of each field.
fn between(of: &str, old: &Value, new: &Value) -> Vec<Narrowing> {
    let [old, new] =
        [old, new].map(|version| version.pointer("/schema/openAPIV3Schema").filter(|schema| schema.is_object()));
    let (Some(old), Some(new)) = (old, new) else { return Vec::new() };
    let mut found = Comparison(Vec::new());
    found.schemas(&Place { path: String::new(), depth: 0 }, old, new);
    let named = found.0.into_iter().map(|Narrowing { field, what }| Narrowing { field: format!("{of}{field}"), what });
    named.collect()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    string(value, key).unwrap_or_default()
}

fn string<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

fn list_at<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// A path in both schemas, and its depth.
struct Place {
    path: String,
    depth: usize,
}

impl Place {
    fn field(&self, name: &str) -> Self {
        Self { path: join(&self.path, name), depth: self.depth + 1 }
    }

    /// The values of a list (`[]`) or of a map (`[*]`).
    fn values(&self, of: &str) -> Self {
        Self { path: format!("{}{of}", self.path), depth: self.depth + 1 }
    }
}

/// Bounds that are tighter if they are larger.
const LOWER: [&str; 4] = ["minimum", "minLength", "minItems", "minProperties"];
/// Bounds that are tighter if they are smaller.
const UPPER: [&str; 4] = ["maximum", "maxLength", "maxItems", "maxProperties"];
/// Flags with which a schema accepts less.
const STRICT: [&str; 4] = ["exclusiveMinimum", "exclusiveMaximum", "uniqueItems", "x-kubernetes-embedded-resource"];
/// Keywords with which a schema may accept less if they are added or changed.
const FIXED: [&str; 6] = ["pattern", "multipleOf", "allOf", "anyOf", "oneOf", "not"];
/// Flag with which the API server keeps fields that the schema does not name.
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
/// Flag with which a schema accepts integers and strings.
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

struct Comparison(Vec<Narrowing>);

impl Comparison {
    fn add(&mut self, place: &Place, what: impl Into<String>) {
        self.0.push(Narrowing { field: place.path.clone(), what: what.into() });
    }

    fn schemas(&mut self, place: &Place, old: &Value, new: &Value) {
        if place.depth > DEPTH_MAX {
            if old != new {
                self.add(place, "the schema is too deep to be compared");
            }
            return;
        }
        self.types(place, old, new);
        self.values(place, old, new);
        self.bounds(place, old, new);
        self.rules(place, old, new);
        self.fields(place, old, new);
        if let Some(new) = new.get("items").filter(|items| items.is_object()) {
            self.schemas(&place.values("[]"), old.get("items").unwrap_or(ANYTHING), new);
        }
    }

    fn types(&mut self, place: &Place, old: &Value, new: &Value) {
        let is_int_or_string = |schema: &Value| is_true(schema, INT_OR_STRING);
        match (string(old, "type"), string(new, "type")) {
            (Some(old), Some(new)) if old == new || (old == "integer" && new == "number") => {}
            (Some(old), Some(new)) => self.add(place, format!("the type {old} becomes {new}")),
            (Some(old), None) if is_int_or_string(new) && old != "integer" && old != "string" => {
                self.add(place, format!("the type {old} becomes an integer or a string"));
            }
            (None, Some(new)) if is_int_or_string(old) => {
                self.add(place, format!("an integer or a string becomes {new}"));
            }
            (None, Some(new)) => self.add(place, format!("a value of any type becomes {new}")),
            (None, None) if is_int_or_string(new) && !is_int_or_string(old) => {
                self.add(place, "a value of any type becomes an integer or a string");
            }
            (Some(_) | None, None) => {}
        }
        if is_true(old, "nullable") && !is_true(new, "nullable") {
            self.add(place, "null is no longer accepted");
        }
    }

    fn values(&mut self, place: &Place, old: &Value, new: &Value) {
        let Some(after) = new.get("enum").and_then(Value::as_array) else { return };
        match old.get("enum").and_then(Value::as_array) {
            Some(before) => {
                for value in before.iter().filter(|value| !after.contains(value)) {
                    self.add(place, format!("the value {value} is no longer accepted"));
                }
            }
            None => self.add(place, "only listed values are accepted (enum)"),
        }
    }

    fn bounds(&mut self, place: &Place, old: &Value, new: &Value) {
        let number = |schema: &Value, keyword: &str| schema.get(keyword).and_then(Value::as_f64);
        for (keywords, is_tighter) in
            [(LOWER, f64::gt as fn(&f64, &f64) -> bool), (UPPER, f64::lt as fn(&f64, &f64) -> bool)]
        {
            for keyword in keywords {
                let Some(after) = number(new, keyword) else { continue };
                // A count is never negative, so a lower bound of zero restricts nothing.
                let is_of_nothing = keyword != "minimum" && LOWER.contains(&keyword) && after <= 0.0;
                let before = number(old, keyword);
                if !is_of_nothing && before.is_none_or(|before| is_tighter(&after, &before)) {
                    let before = old.get(keyword).map_or_else(|| "none".to_owned(), Value::to_string);
                    let after = new.get(keyword).map(Value::to_string).unwrap_or_default();
                    self.add(place, format!("{keyword} is tighter ({before} becomes {after})"));
                }
            }
        }
        for keyword in STRICT {
            if is_true(new, keyword) && !is_true(old, keyword) {
                self.add(place, format!("{keyword} is added"));
            }
        }
        for keyword in FIXED {
            if let Some(after) = new.get(keyword)
                && old.get(keyword) != Some(after)
            {
                let how = if old.get(keyword).is_some() { "changed" } else { "added" };
                self.add(place, format!("{keyword} is {how}"));
            }
        }
        if let Some(after) = string(new, "format") {
            let before = string(old, "format");
            let is_wider = matches!((before, after), (Some("int32"), "int64") | (Some("float"), "double"));
            // These are the default formats of integers and numbers, so naming one restricts nothing.
            let is_plain = before.is_none() && matches!(after, "int64" | "double");
            if before != Some(after) && !is_wider && !is_plain {
                self.add(place, format!("the format {} becomes {after}", before.unwrap_or("none")));
            }
        }
    }

    /// Compares rules over several values: CEL, and uniqueness of list items.
    fn rules(&mut self, place: &Place, old: &Value, new: &Value) {
        let [before, after] = [old, new].map(|schema| list_at(schema, "x-kubernetes-validations"));
        let before: Vec<_> = before.map(|rule| text(rule, "rule")).collect();
        for rule in after.map(|rule| text(rule, "rule")).filter(|rule| !before.contains(rule)) {
            self.add(place, format!("the rule {rule:?} is added"));
        }
        let kind = text(new, "x-kubernetes-list-type");
        let keyed = ["x-kubernetes-list-type", "x-kubernetes-list-map-keys"];
        if matches!(kind, "map" | "set") && keyed.iter().any(|keyword| old.get(keyword) != new.get(keyword)) {
            self.add(place, "items must be unique in another way (x-kubernetes-list-type)");
        }
    }

    fn fields(&mut self, place: &Place, old: &Value, new: &Value) {
        let none = Map::new();
        let [before, after] = [old, new].map(|schema| object(schema, "properties").unwrap_or(&none));
        let [kept_unknown, keeps_unknown] = [old, new].map(|schema| is_true(schema, PRESERVE));
        let [rest_before, rest_after] = [old, new].map(rest_of);
        for (name, old) in before.iter().filter(|(_, old)| old.is_object()) {
            let field = place.field(name);
            match (after.get(name).filter(|new| new.is_object()), rest_after) {
                (Some(new), _) | (None, Some(new)) => self.schemas(&field, old, new),
                // The API server keeps these fields in every object, even if the schema lacks them.
                (None, None) if place.path.is_empty() && matches!(&**name, "apiVersion" | "kind" | "metadata") => {}
                (None, None) if keeps_unknown => {}
                (None, None) => self.add(&field, "the field is dropped"),
            }
        }
        for (name, new) in after.iter().filter(|(name, new)| !before.contains_key(*name) && new.is_object()) {
            // Existing objects may have the field already, with any value.
            if let Some(old) = rest_before.or(kept_unknown.then_some(ANYTHING)) {
                self.schemas(&place.field(name), old, new);
            }
        }
        match (rest_before, rest_after) {
            (Some(old), Some(new)) => self.schemas(&place.values("[*]"), old, new),
            (Some(_), None) if !keeps_unknown => self.add(&place.values("[*]"), "other keys are dropped"),
            (None, Some(new)) if kept_unknown => self.schemas(&place.values("[*]"), ANYTHING, new),
            (Some(_) | None, None) | (None, Some(_)) => {}
        }
        // If the value is no longer an object, the change of its type is reported instead.
        let is_object = text(new, "type") == "object";
        if kept_unknown && !keeps_unknown && rest_after.is_none() && is_object {
            self.add(place, "fields that the schema does not name are dropped");
        }
        let [was_required, required] = [old, new].map(|schema| list_at(schema, "required").filter_map(Value::as_str));
        let was_required: Vec<_> = was_required.collect();
        for name in required.filter(|name| !was_required.contains(name)) {
            // The API server sets a missing field to its default.
            if after.get(name).and_then(|schema| schema.get("default")).is_none() {
                self.add(&place.field(name), "the field becomes required");
            }
        }
    }
}

/// The schema of additional properties; `None` if there are none.
fn rest_of(schema: &Value) -> Option<&Value> {
    match schema.get("additionalProperties")? {
        rest @ Value::Object(_) => Some(rest),
        Value::Bool(true) => Some(ANYTHING),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
