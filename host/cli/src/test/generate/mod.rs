//! Generates parents that the schema of a CRD accepts, edits of them, and parents that the schema rejects.

mod examples;
mod paths;

use serde_json::{Map, Number, Value, json};
use windlass_core::plugin::schema::structural as schema;

use self::examples::ANY;
use super::pattern;
use crate::fields::set;

pub use self::examples::Examples;
pub use self::paths::{optional_fields, parts, paths_of, remove};

/// Tries to generate a value that meets all constraints, such as `oneOf`.
const TRIES: usize = 30;

/// Depth below which optional fields are left out.
const DEPTH_MAX: usize = 12;

/// Texts that users write, and some that software confuses with other types, with | between them.
const WORDS: &str = "web|a|nginx:1.27|registry.example/team/app@sha256:0a|example.com|shop.example.com|10.0.0.0/8|10.1.2.3|/healthz|/|\
    8080|100m|1|1Gi|512Mi|8.4|standard|config.yaml|LOG_LEVEL|true|null|1e3|two words|Grüße ✓";

/// The kind whose parents are generated.
#[derive(Debug, Clone, Default)]
pub struct ParentKind {
    /// As in the objects.
    pub api_version: String,
    /// As in the objects.
    pub kind: String,
    /// Schema of the kind, if it is known.
    pub schema: Option<Value>,
    /// Labels that parents must have: those of the descriptor's selector.
    pub labels: Map<String, Value>,
    /// Annotations that parents must have, likewise.
    pub annotations: Map<String, Value>,
    /// Whether parents have a namespace.
    pub namespaced: bool,
    /// Parents that the plugin accepts.
    pub examples: Examples,
}

impl ParentKind {
    /// The problems of a parent; empty if the schema accepts it.
    pub fn problems(&self, parent: &Value) -> Vec<String> {
        self.schema.as_ref().map(|schema| schema::problems(schema, parent)).unwrap_or_default()
    }

    /// Fills in the defaults of the schema.
    pub fn fill_in(&self, parent: &mut Value) {
        if let Some(schema) = &self.schema {
            schema::fill_in(schema, parent);
        }
    }
}

/// Which optional fields a generated value has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fields {
    /// Only the required ones.
    Required,
    /// Some of them.
    Some,
    /// All of them.
    All,
}

/// A source of parents.
pub struct Generator<'a> {
    kind: &'a ParentKind,
    rng: fastrand::Rng,
    fields: Fields,
    /// The field whose value is generated, by the names of the fields around it.
    field: Vec<String>,
}

impl<'a> Generator<'a> {
    /// A generator; equal seeds give equal parents.
    pub fn new(kind: &'a ParentKind, seed: u64) -> Self {
        Self { kind, rng: fastrand::Rng::with_seed(seed), fields: Fields::Some, field: Vec::new() }
    }

    /// A parent that the schema accepts, with its defaults filled in; `None` if none was found.
    pub fn parent(&mut self, fields: Fields) -> Option<Value> {
        self.fields = fields;
        for _ in 0..TRIES {
            let mut parent = Value::Object(self.content());
            set(&mut parent, &["apiVersion"], self.kind.api_version.clone());
            set(&mut parent, &["kind"], self.kind.kind.clone());
            set(&mut parent, &["metadata"], self.metadata());
            self.kind.fill_in(&mut parent);
            if self.kind.problems(&parent).is_empty() {
                return Some(parent);
            }
        }
        None
    }

    /// Another valid parent of the same name: a smaller one, or any other.
    pub fn edited(&mut self, parent: &Value) -> Option<Value> {
        let mut edited = parent.clone();
        if self.rng.u8(..) < 160 {
            let schema = self.kind.schema.clone().unwrap_or_default();
            for (name, value) in edited.as_object_mut().into_iter().flatten().filter(|(name, _)| is_content(name)) {
                if let Some(schema) = schema::property(&schema, name) {
                    self.shrink(schema, value);
                }
            }
            self.kind.fill_in(&mut edited);
        } else {
            let other = self.parent(Fields::Some)?;
            for (name, value) in other.as_object().into_iter().flatten().filter(|(name, _)| is_content(name)) {
                edited.as_object_mut()?.insert(name.clone(), value.clone());
            }
        }
        (edited != *parent && self.kind.problems(&edited).is_empty()).then_some(edited)
    }

    /// A parent that the schema rejects: a valid one with a wrong value.
    pub fn invalid(&mut self, parent: &Value) -> Option<Value> {
        self.kind.schema.as_ref()?;
        for _ in 0..TRIES {
            let mut broken = parent.clone();
            let mut paths = Vec::new();
            for (name, value) in parent.as_object()?.iter().filter(|(name, _)| is_content(name)) {
                paths_of(value, &format!("/{name}"), &mut paths);
            }
            let at = self.rng.choice(&paths)?;
            *broken.pointer_mut(at)? = self.wrong_value()?;
            if !self.kind.problems(&broken).is_empty() {
                return Some(broken);
            }
        }
        None
    }

    fn wrong_value(&mut self) -> Option<Value> {
        let values = json!([
            null, -1, 1_000_000_000_000_i64, 1.5, "", "x".repeat(70_000), "no such value \u{0}", true, [], [null], {},
            {"unknown": {"field": 1}},
        ]);
        self.rng.choice(values.as_array()?).cloned()
    }

    /// The fields beside `apiVersion`, `kind`, `metadata` and `status`.
    fn content(&mut self) -> Map<String, Value> {
        let content = self.kind.schema.as_ref().map(|schema| self.value(schema, 0));
        let Some(Value::Object(mut fields)) = content else { return Map::new() };
        fields.retain(|name, _| is_content(name));
        fields
    }

    fn metadata(&mut self) -> Value {
        let names = ["web", "a", "shop-2", "a-name-of-forty-characters-in-total-1234"];
        let name = self.rng.choice(&names).copied().unwrap_or("web");
        let (mut labels, mut annotations) = (self.kind.labels.clone(), self.kind.annotations.clone());
        let mut metadata = json!({
            "name": name, "uid": "6f1c1c52-5a3e-4d5f-9f6e-1f2d3c4b5a69", "generation": 1, "resourceVersion": "1000",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        });
        if self.rng.bool() {
            labels.insert("team".to_owned(), json!("shop"));
            // What `kubectl apply` and users write: values that are no valid labels.
            let applied = format!("{{\"metadata\":{{\"name\":\"{name}\"}}}}\n");
            annotations.insert("kubectl.kubernetes.io/last-applied-configuration".to_owned(), applied.into());
            annotations.insert("example.com/note".to_owned(), json!("Two words, and a line.\nGrüße ✓"));
        }
        if self.kind.namespaced {
            set(&mut metadata, &["namespace"], "default");
        }
        for (name, values) in [("labels", labels), ("annotations", annotations)] {
            if !values.is_empty() {
                set(&mut metadata, &[name], values);
            }
        }
        metadata
    }

    /// A value that the schema probably accepts.
    fn value(&mut self, schema: &Value, depth: usize) -> Value {
        if is_true(schema, "nullable") && self.fields == Fields::Some && self.rng.u8(..) < 24 {
            return Value::Null;
        }
        if let Some(allowed) = schema.get("enum").and_then(Value::as_array) {
            return self.rng.choice(allowed).cloned().unwrap_or_default();
        }
        if let Some(default) = schema.get("default").filter(|default| !default.is_object())
            && self.rng.u8(..) < 40
        {
            return default.clone();
        }
        if is_true(schema, "x-kubernetes-int-or-string") {
            return if self.rng.bool() { json!(self.rng.u32(1..=8)) } else { json!(self.text(schema)) };
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("string") => json!(self.text(schema)),
            Some("integer") => self.integer(schema),
            Some("number") => self.number(schema),
            Some("boolean") => json!(self.rng.bool()),
            Some("array") => self.array(schema, depth),
            Some("object") => self.object(schema, depth),
            // A value of any type.
            Some(_) | None => json!({"any": "value"}),
        }
    }

    /// The value of a field, or of an item, of the value at this depth.
    fn value_in(&mut self, name: &str, schema: &Value, depth: usize) -> Value {
        self.field.push(name.to_owned());
        let value = self.value(schema, depth + 1);
        self.field.pop();
        value
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Value {
        let mut fields = Map::new();
        let required = texts(schema, "required");
        let chosen = self.alternative(schema);
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let is_used = match chosen.iter().find(|(field, _)| field == name) {
                Some((_, is_chosen)) => *is_chosen,
                None if required.contains(&name.as_str()) => true,
                None if depth >= DEPTH_MAX => false,
                None => self.fields == Fields::All || self.fields == Fields::Some && self.rng.bool(),
            };
            if is_used {
                fields.insert(name.clone(), self.value_in(name, property, depth));
            }
        }
        if is_true(schema, "x-kubernetes-embedded-resource") {
            fields.insert("apiVersion".to_owned(), json!("v1"));
            fields.insert("kind".to_owned(), json!("ConfigMap"));
            fields.insert("metadata".to_owned(), json!({"name": "embedded"}));
        }
        if let Some(rest) = schema.get("additionalProperties").filter(|rest| rest.is_object()) {
            let (least, most) = self.bounds(schema, "minProperties", "maxProperties");
            for at in fields.len()..self.rng.usize(least..=most) {
                let keys = ["cpu", "memory", "app", "config.yaml", "key", "storage"];
                let key = self.rng.choice(&keys).copied().unwrap_or("key");
                let key = if fields.contains_key(key) { format!("{key}-{at}") } else { key.to_owned() };
                let value = self.value_in(&key, rest, depth);
                fields.insert(key, value);
            }
        } else if is_true(schema, "x-kubernetes-preserve-unknown-fields") && self.fields != Fields::Required {
            fields.entry("unknownField").or_insert_with(|| json!({"text": "Two words.", "number": 1.5}));
        }
        Value::Object(fields)
    }

    /// For a schema whose `oneOf` or `anyOf` requires fields: which of these fields to use.
    fn alternative<'s>(&mut self, schema: &'s Value) -> Vec<(&'s str, bool)> {
        let mut all = Vec::new();
        for keyword in ["oneOf", "anyOf"] {
            let Some(parts) = schema.get(keyword).and_then(Value::as_array) else { continue };
            let chosen = self.rng.choice(parts).map(|part| texts(part, "required")).unwrap_or_default();
            let names = parts.iter().flat_map(|part| texts(part, "required"));
            all.extend(names.map(|name| (name, chosen.contains(&name))));
        }
        all
    }

    fn array(&mut self, schema: &Value, depth: usize) -> Value {
        let (least, most) = self.bounds(schema, "minItems", "maxItems");
        let anything = json!({"type": "string"});
        let of_items = schema.get("items").unwrap_or(&anything);
        let keys = texts(schema, "x-kubernetes-list-map-keys");
        let is_set = schema.get("x-kubernetes-list-type") == Some(&json!("set"));
        let mut items: Vec<Value> = Vec::new();
        for _ in 0..self.rng.usize(least..=most) {
            let item = self.value_in(ANY, of_items, depth);
            let is_same = |other: &Value| {
                (is_set && *other == item)
                    || (!keys.is_empty() && keys.iter().all(|key| other.get(*key) == item.get(*key)))
            };
            if !items.iter().any(is_same) {
                items.push(item);
            }
        }
        Value::Array(items)
    }

    /// A small range of sizes within the bounds.
    fn bounds(&mut self, schema: &Value, least: &str, most: &str) -> (usize, usize) {
        let least = size(schema, least).unwrap_or(0).max(usize::from(self.fields == Fields::All));
        (least, size(schema, most).unwrap_or(usize::MAX).min(least + 3).max(least))
    }

    fn integer(&mut self, schema: &Value) -> Value {
        let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
        let is_excluded = |name: &str| i64::from(is_true(schema, name));
        #[allow(clippy::cast_possible_truncation, reason = "a bound beyond 64 bits bounds nothing")]
        let whole = |bound: f64| bound as i64;
        let least = bound("minimum").map(|least| whole(least.ceil()) + is_excluded("exclusiveMinimum"));
        let format_most = if schema.get("format") == Some(&json!("int32")) { i64::from(i32::MAX) } else { i64::MAX };
        let most = bound("maximum").map(|most| whole(most.floor()) - is_excluded("exclusiveMaximum"));
        let (least, most) = (least.unwrap_or(0), most.unwrap_or(format_most));
        let small = least.saturating_add(self.rng.i64(0..=5)).min(most).max(least);
        let chosen = match self.rng.u8(..) {
            0..8 if most <= 65_535 => most,
            8..32 => least,
            32..128 if self.fields == Fields::Required => least,
            32..48 => least.saturating_add(self.rng.i64(6..=40)).min(most).max(least),
            _ => small,
        };
        match schema.get("multipleOf").and_then(Value::as_i64).filter(|step| *step > 0) {
            Some(step) => json!((chosen.saturating_add(step - 1) / step).saturating_mul(step)),
            None => json!(chosen),
        }
    }

    fn number(&mut self, schema: &Value) -> Value {
        let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
        let least = bound("minimum").unwrap_or(0.0);
        let most = bound("maximum").unwrap_or(least + 10.0);
        let chosen = least + (most - least) * (f64::from(self.rng.u8(1..=9)) / 10.0);
        let step = bound("multipleOf").filter(|step| *step > 0.0);
        let chosen = step.map_or(chosen, |step| (chosen / step).round() * step);
        Number::from_f64(chosen).map(Value::Number).unwrap_or_default()
    }

    fn text(&mut self, schema: &Value) -> String {
        let least = size(schema, "minLength").unwrap_or(0);
        let most = size(schema, "maxLength").unwrap_or(usize::MAX);
        let format = schema.get("format").and_then(Value::as_str);
        let pattern = schema.get("pattern").and_then(Value::as_str);
        let regex = pattern.and_then(schema::compiled);
        let fits = |text: &str| {
            (least..=most).contains(&text.chars().count()) && regex.as_ref().is_none_or(|regex| regex.is_match(text))
        };
        let examples = self.kind.examples.texts(&self.field);
        if !examples.is_empty()
            && self.rng.u8(..) < 224
            && let Some(text) = self.rng.choice(examples).filter(|text| fits(text))
        {
            return text.clone();
        }
        if let Some(text) = format.and_then(|format| self.of_format(format)).filter(|text| fits(text)) {
            return text;
        }
        let known: Vec<_> = WORDS.split('|').filter(|word| fits(word)).collect();
        if let Some(word) = self.rng.choice(&known).copied()
            && self.rng.u8(..) < 170
        {
            return word.to_owned();
        }
        for _ in 0..TRIES {
            let generated = match pattern {
                Some(pattern) => pattern::text(pattern, &mut self.rng).unwrap_or_default(),
                None => self.any_text(),
            };
            if fits(&generated) {
                return generated;
            }
        }
        self.rng.choice(&known).map_or_else(|| "a".repeat(least), |word| (*word).to_owned())
    }

    /// A text without a pattern, also an empty and a long one.
    fn any_text(&mut self) -> String {
        match self.rng.u8(0..6) {
            0 => String::new(),
            1 => "x".repeat(self.rng.usize(60..300)),
            2 => "line 1\nline 2\n".to_owned(),
            _ => (0..self.rng.usize(1..20)).map(|_| self.rng.alphanumeric()).collect(),
        }
    }

    fn of_format(&mut self, format: &str) -> Option<String> {
        let texts: &[&str] = match format {
            "date-time" => &["2026-01-02T03:04:05Z", "1999-12-31T23:59:59.5+01:00"],
            "date" => &["2026-02-28"],
            "duration" => &["30s", "1h30m", "0s"],
            "ipv4" => &["10.0.0.1"],
            "ipv6" => &["fd00::1"],
            "cidr" => &["10.0.0.0/8"],
            "byte" => &["aGVsbG8=", ""],
            "uri" | "url" => &["https://example.com/a?b=c"],
            "email" => &["someone@example.com"],
            "hostname" => &["host.example.com"],
            "mac" => &["00:00:5e:00:53:01"],
            "uuid" | "uuid3" | "uuid4" | "uuid5" => &["6f1c1c52-5a3e-4d5f-9f6e-1f2d3c4b5a69"],
            _ => &[],
        };
        self.rng.choice(texts).map(|text| (*text).to_owned())
    }

    /// Makes a value smaller: fewer items and entries, less, and fewer optional fields.
    fn shrink(&mut self, schema: &Value, value: &mut Value) {
        match value {
            Value::Array(items) => {
                let least = size(schema, "minItems").unwrap_or(0).min(items.len());
                let kept = self.rng.usize(least..=items.len());
                items.truncate(kept);
            }
            Value::Object(fields) => {
                let required = texts(schema, "required");
                fields.retain(|name, _| required.contains(&&**name) || self.rng.u8(..) < 200);
            }
            Value::Number(number) => {
                let least = schema.get("minimum").and_then(Value::as_i64).unwrap_or(0);
                if let Some(present) = number.as_i64().filter(|present| *present > least) {
                    let less = if self.rng.bool() { least } else { least + (present - least) / 2 };
                    *number = less.into();
                }
            }
            Value::Null | Value::Bool(_) | Value::String(_) => {}
        }
        for (schema, part) in parts(schema, value) {
            self.shrink(schema, part);
        }
    }
}

/// Whether a top-level field is the user's content.
pub fn is_content(name: &str) -> bool {
    !["apiVersion", "kind", "metadata", "status"].contains(&name)
}

/// The texts in a list of a schema.
fn texts<'s>(schema: &'s Value, list: &str) -> Vec<&'s str> {
    schema.get(list).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// A size in a schema.
fn size(schema: &Value, name: &str) -> Option<usize> {
    usize::try_from(schema.get(name)?.as_u64()?).ok()
}

fn is_true(value: &Value, field: &str) -> bool {
    value.get(field) == Some(&Value::Bool(true))
}

#[cfg(test)]
pub mod tests;
