//! How the fields of a kind merge.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::fields::{FieldSet, Scalar, Step};

/// How a field merges, as `x-kubernetes-map-type` and `x-kubernetes-list-type` say it in a schema.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// A scalar, or an object or list that is owned as a whole.
    Atomic,
    /// A map that is owned as a whole: other than an [`Field::Atomic`] object, a built-in kind does not write it if it is empty.
    AtomicMap,
    /// What the schema does not mention here: a scalar, a list that is owned as a whole, or an object with declared fields that
    /// are inferred in turn.
    Inferred,
    /// What a schema leaves open (`x-kubernetes-preserve-unknown-fields`): a scalar, a list that is owned as a whole, or an object
    /// whose fields are owned one by one, as those of a map.
    Untyped,
    /// An object with declared fields. It is owned through them; only a write that adds it owns it, too.
    Struct {
        /// The declared fields; all others are inferred.
        fields: BTreeMap<String, Field>,
        /// Those that the API server always writes, with their empty values: required fields and structs of built-in kinds.
        present: BTreeMap<String, Value>,
    },
    /// An object whose fields are owned one by one (`granular`).
    Map(Box<Field>),
    /// A list whose items are found by their key fields (`map`).
    ListByKeys {
        /// The names of the key fields, each with the value that an item has without it.
        keys: Vec<(String, Option<Value>)>,
        /// How the items merge.
        item: Box<Field>,
    },
    /// A list of scalars, each at most once (`set`).
    Set,
}

static INFERRED: Field = Field::Inferred;
static UNTYPED: Field = Field::Untyped;
static ATOMIC: Field = Field::Atomic;

/// How a value is walked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Form {
    Leaf,
    Object,
    List,
}

impl Field {
    /// An object with declared fields, none of them named yet.
    pub fn structure() -> Self {
        Self::Struct { fields: BTreeMap::new(), present: BTreeMap::new() }
    }

    /// A list whose items are found by key fields without defaults.
    pub fn list_by_keys(keys: &[&str]) -> Self {
        let keys = keys.iter().map(|key| ((*key).to_owned(), None)).collect();
        Self::ListByKeys { keys, item: Box::new(Self::structure()) }
    }

    pub(crate) fn form(&self, value: &Value) -> Form {
        match self {
            Self::Struct { .. } | Self::Map(_) => Form::Object,
            Self::ListByKeys { .. } | Self::Set => Form::List,
            // As in the API server, null is an object here: it equals whatever stands on the other side.
            Self::Inferred | Self::Untyped if value.is_object() || value.is_null() => Form::Object,
            Self::Atomic | Self::AtomicMap | Self::Inferred | Self::Untyped => Form::Leaf,
        }
    }

    /// A field of this object, and whether the schema declares it.
    pub(crate) fn field(&self, name: &str) -> (&Self, bool) {
        match self {
            Self::Struct { fields, .. } => (fields.get(name).unwrap_or(&INFERRED), true),
            Self::Inferred => (&INFERRED, true),
            Self::Map(item) => (item, false),
            Self::Untyped => (&UNTYPED, false),
            Self::Atomic | Self::AtomicMap | Self::ListByKeys { .. } | Self::Set => (&ATOMIC, false),
        }
    }

    /// The items of this list.
    pub(crate) fn item(&self) -> &Self {
        match self {
            Self::ListByKeys { item, .. } => item,
            _ => &ATOMIC,
        }
    }

    /// How an item of this list is found, or what is wrong with the item.
    pub(crate) fn step(&self, item: &Value) -> Result<Step, String> {
        let Self::ListByKeys { keys, .. } = self else {
            return match item {
                Value::Number(_) | Value::String(_) | Value::Bool(_) => Ok(Step::Value(Scalar(item.clone()))),
                Value::Object(_) => Err("associative list without keys has an element that's a map type".into()),
                Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
                Value::Null => Err("associative list without keys has an element that's an explicit null".into()),
            };
        };
        let Value::Object(item) = item else {
            return Err("associative list with keys may not have non-map elements".into());
        };
        let mut found: Vec<_> = keys
            .iter()
            .filter_map(|(key, default)| Some((key.clone(), Scalar(item.get(key).or(default.as_ref())?.clone()))))
            .collect();
        if found.is_empty() {
            let names: Vec<_> = keys.iter().map(|(key, _)| key.as_str()).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields {names:?} (and doesn't have default \
                 values for any key fields)"
            ));
        }
        found.sort();
        Ok(Step::Key(found))
    }

    /// The field at a path of names; the items of lists are no step of it. Structs on the way are made.
    fn at(&mut self, path: &[&str]) -> &mut Self {
        let Some((name, rest)) = path.split_first() else { return self };
        match self {
            Self::ListByKeys { item, .. } => item.at(path),
            Self::Struct { fields, .. } => fields.entry((*name).to_owned()).or_insert(Self::Inferred).at(rest),
            _ => {
                *self = Self::structure();
                self.at(path)
            }
        }
    }

    /// Whether an empty value of the field is not written.
    fn omits_empty(&self, value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty() && matches!(self, Self::Map(_) | Self::AtomicMap),
            _ => false,
        }
    }

    /// Writes a value as the API server does after it read it into a Go struct: without empty lists and maps, but with all structs.
    fn round_trip(&self, value: &mut Value) {
        match value {
            Value::Object(values) if self.form(&Value::Object(Map::new())) == Form::Object => {
                values.retain(|name, value| {
                    let (field, _) = self.field(name);
                    field.round_trip(value);
                    !field.omits_empty(value)
                });
                let Self::Struct { fields, present } = self else { return };
                for (name, empty) in present {
                    let value = values.entry(name.clone()).or_insert_with(|| empty.clone());
                    fields.get(name).unwrap_or(&INFERRED).round_trip(value);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.item().round_trip(item)),
            _ => {}
        }
    }
}

/// How the fields of a kind merge, and which of them a write leaves alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    root: Field,
    is_built_in: bool,
    has_status: bool,
    /// What a status write of a built-in kind leaves alone.
    status_keeps: Vec<Vec<&'static str>>,
}

impl Shape {
    /// A custom kind with a status subresource, whose schema declares all fields.
    pub fn custom() -> Self {
        let mut shape =
            Self { root: Field::structure(), is_built_in: false, has_status: true, status_keeps: Vec::new() };
        shape.rules(METADATA);
        shape
    }

    /// A built-in kind with these rules, a line each: a path, and what stands there.
    pub(crate) fn built_in(rules: &[(&str, &str)], has_status: bool) -> Self {
        let mut shape = Self { is_built_in: true, has_status, status_keeps: vec![vec!["spec"]], ..Self::custom() };
        shape.rules("metadata present");
        for (prefix, rules) in rules {
            let at = |line: &str| format!("{prefix}{}", line.trim());
            let lines: Vec<_> = rules.lines().filter(|line| !line.trim().is_empty()).map(at).collect();
            shape.rules(&lines.join("\n"));
        }
        shape
    }

    /// The same kind, but a status write does not change labels: that is so for Deployments.
    pub(crate) fn status_keeps_labels(mut self) -> Self {
        self.status_keeps.push(vec!["metadata", "labels"]);
        self
    }

    /// The same kind without a status subresource: `status` is a field as any other.
    #[must_use]
    pub fn without_status(mut self) -> Self {
        self.has_status = false;
        self
    }

    /// The same kind with a field, at a path as `status.conditions`. Items of lists are no step of the path.
    #[must_use]
    pub fn with(mut self, path: &str, field: Field) -> Self {
        *self.root.at(&path.split('.').collect::<Vec<_>>()) = field;
        self
    }

    pub(crate) fn root(&self) -> &Field {
        &self.root
    }

    fn rules(&mut self, rules: &str) {
        for rule in rules.lines() {
            let mut words = rule.split_whitespace();
            let path: Vec<_> = words.next().unwrap_or_default().split('.').collect();
            let kind = words.next().unwrap_or_default();
            let empty = match kind {
                "present" => Some(json!({})),
                "null" => Some(Value::Null),
                "text" => Some("".into()),
                _ => None,
            };
            if let (Some(empty), Some((name, parent))) = (empty, path.split_last()) {
                self.root.at(&path);
                let mut parent = self.root.at(parent);
                if let Field::ListByKeys { item, .. } = parent {
                    parent = item;
                }
                if let Field::Struct { present, .. } = parent {
                    present.insert((*name).to_owned(), empty);
                }
                continue;
            }
            *self.root.at(&path) = match kind {
                "atomic" => Field::Atomic,
                "atomic-map" => Field::AtomicMap,
                "map" => Field::Map(Box::new(Field::Inferred)),
                "set" => Field::Set,
                _ => {
                    let keys = words.next().unwrap_or_default().split(',').map(key).collect();
                    let item = if words.next() == Some("atomic") { Field::Atomic } else { Field::structure() };
                    Field::ListByKeys { keys, item: Box::new(item) }
                }
            };
        }
    }

    /// Writes an object as the API server does after it read it: a built-in kind, or the metadata of any kind.
    pub(crate) fn round_trip(&self, object: &mut Value) {
        if self.is_built_in {
            self.root.round_trip(object);
        } else if let Some(metadata) = object.get_mut("metadata") {
            self.root.field("metadata").0.round_trip(metadata);
        }
    }

    /// Whether a write resets `managedFields`: by a list of one empty entry, or by an empty list. A custom kind is read without
    /// empty lists in its metadata.
    pub(crate) fn is_reset(&self, object: &Value) -> bool {
        match object.pointer("/metadata/managedFields").and_then(Value::as_array).map(Vec::as_slice) {
            Some([]) => self.is_built_in,
            Some([Value::Object(entry)]) => entry.values().all(|value| value.is_null() || value == ""),
            _ => false,
        }
    }

    pub(crate) fn is_built_in(&self) -> bool {
        self.is_built_in
    }

    /// The fields that a write does not own, because it cannot change them.
    pub(crate) fn not_owned(&self, subresource: Option<&str>) -> FieldSet {
        let mut fields = FieldSet::default();
        for path in self.kept(subresource) {
            fields.insert(&path.iter().map(|name| Step::Field((*name).to_owned())).collect::<Vec<_>>());
        }
        fields
    }

    fn kept(&self, subresource: Option<&str>) -> Vec<Vec<&'static str>> {
        match subresource {
            None if self.has_status => vec![vec!["status"]],
            Some("status") if self.is_built_in => self.status_keeps.clone(),
            Some("status") => vec![vec!["spec"], vec!["metadata"]],
            _ => Vec::new(),
        }
    }

    /// Gives an object that is written the fields of the object before which the write leaves alone.
    pub(crate) fn keep(&self, before: &Value, after: &mut Value, subresource: Option<&str>) {
        if subresource == Some("status") && !self.is_built_in {
            let status = after.get_mut("status").map(Value::take);
            *after = before.clone();
            put(after, &["status"], status);
            return;
        }
        for path in self.kept(subresource) {
            let kept = path.iter().try_fold(before, |value, name| value.get(name)).cloned();
            put(after, &path, kept);
        }
    }
}

/// Sets or removes the field at a path.
fn put(object: &mut Value, path: &[&str], value: Option<Value>) {
    let Some((last, parents)) = path.split_last() else { return };
    let parent = parents.iter().try_fold(object, |object, name| object.get_mut(*name));
    let Some(Value::Object(fields)) = parent else { return };
    match value {
        Some(value) => fields.insert((*last).to_owned(), value),
        None => fields.remove(*last),
    };
}

/// A key field with its default: `protocol=TCP`.
fn key(text: &str) -> (String, Option<Value>) {
    match text.split_once('=') {
        Some((name, default)) => {
            (name.to_owned(), Some(serde_json::from_str(default).unwrap_or_else(|_| default.into())))
        }
        None => (text.to_owned(), None),
    }
}

const METADATA: &str = "metadata.annotations map
metadata.finalizers set
metadata.labels map
metadata.ownerReferences keys uid= atomic";
