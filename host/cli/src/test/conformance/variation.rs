//! A case for every plugin: how it varies a parent that was generated from the CRD's schema, and what surrounds the parent.

use serde::Deserialize;
use serde_json::{Map, Number, Value, json};
use windlass_core::contract::Descriptor;
use windlass_core::plugin::schema::structural as schema;

use crate::fields::set;
use crate::test::generate::{Fields, Generator, ParentKind, is_content, parts};
use crate::test::world::healthy_status;
use crate::yaml;

/// A case; each item of `strings` and of `numbers` gives one parent.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Variation {
    /// What the case is about.
    pub description: String,
    /// Which optional fields the parent has: all or none; default: all.
    #[serde(default)]
    pub fields: FieldsOf,
    /// Values of all strings of which the schema accepts them.
    #[serde(default)]
    strings: Vec<String>,
    /// Values of all numbers of which the schema accepts them.
    #[serde(default)]
    numbers: Vec<Number>,
    /// Whether strings, lists and objects are empty where the schema accepts it.
    #[serde(default)]
    empty: bool,
    /// Whether fields are null where the schema accepts it.
    #[serde(default)]
    null: bool,
    /// A field of all objects that keep unknown fields.
    unknown: Option<Value>,
    /// Fields of the parent's metadata; those of labels and annotations are added.
    #[serde(default)]
    metadata: Map<String, Value>,
    /// The parent's status, as an older version of the plugin may have written it.
    status: Option<Value>,
    /// The children that exist before the first call.
    pub children: Option<Children>,
    /// The config.
    pub config: Option<ConfigOf>,
    /// Whether the parent is deleted before its first call.
    #[serde(default)]
    pub deleted: bool,
}

/// Children that exist, of all kinds that the plugin declares.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Children {
    /// Their number.
    count: usize,
    /// Further fields of each.
    #[serde(default)]
    with: Map<String, Value>,
}

/// Which optional fields the parent has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FieldsOf {
    /// All of them.
    #[default]
    All,
    /// None of them.
    Required,
}

/// The `spec.config` of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ConfigOf {
    /// None.
    Absent,
    /// An object without fields.
    Empty,
    /// One that the schema accepts, with an unknown field.
    Unknown,
}

/// A change of all values that it fits.
#[derive(Debug)]
enum Change<'a> {
    Put(Value),
    Empty,
    Null,
    Unknown(&'a Value),
}

impl Variation {
    /// A case from its text.
    ///
    /// # Errors
    /// If the text is not a case.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        Ok(serde_json::from_value(yaml::only(text)?)?)
    }

    /// The parents of the case. None, if the case changes the content and the schema accepts no such change.
    pub fn parents(&self, kind: &ParentKind, base: &Value) -> Vec<Value> {
        let strings = self.strings.iter().map(|text| Change::Put(json!(text)));
        let numbers = self.numbers.iter().map(|number| Change::Put(Value::Number(number.clone())));
        let empty = self.empty.then_some(Change::Empty);
        let null = self.null.then_some(Change::Null);
        let unknown = self.unknown.as_ref().map(Change::Unknown);
        let changes: Vec<_> = strings.chain(numbers).chain(empty).chain(null).chain(unknown).collect();
        let mut base = base.clone();
        add(&mut base, &self.metadata);
        if let Some(status) = &self.status {
            set(&mut base, &["status"], status.clone());
        }
        if changes.is_empty() {
            return vec![base];
        }
        changes.iter().filter_map(|change| changed(kind, &base, change)).collect()
    }

    /// The children that exist before the first call.
    pub fn observed(&self, descriptor: &Descriptor, parent: &Value) -> Vec<Value> {
        let Some(Children { count, with }) = &self.children else { return Vec::new() };
        let rules = descriptor.children.iter().cycle().take(*count).enumerate();
        let observed = rules.map(|(at, rule)| {
            let mut object = json!({
                "apiVersion": rule.kind.api_version(), "kind": *rule.kind.kind,
                "metadata": {
                    "name": format!("other-{at}"), "uid": format!("6f1c1c52-5a3e-4d5f-9f6e-{at:012}"), "generation": 1,
                    "resourceVersion": "1000", "creationTimestamp": "2026-01-01T00:00:00Z",
                },
            });
            if let Some(namespace) = parent.pointer("/metadata/namespace") {
                set(&mut object, &["metadata", "namespace"], namespace.clone());
            }
            let status = healthy_status(&object);
            if let Some(fields) = object.as_object_mut() {
                fields.extend(with.clone());
                fields.extend(status.map(|status| ("status".to_owned(), status)));
            }
            object
        });
        observed.collect()
    }
}

/// A value that a schema accepts, with all its optional fields.
pub fn generated(schema: &Value) -> Value {
    let properties = json!({"type": "object", "properties": {"config": schema}});
    let kind = ParentKind {
        api_version: "example.com/v1".to_owned(),
        kind: "Config".to_owned(),
        schema: Some(properties),
        ..ParentKind::default()
    };
    let holder = Generator::new(&kind, 1).parent(Fields::All);
    holder.and_then(|holder| holder.get("config").cloned()).unwrap_or_else(|| json!({}))
}

/// Adds fields to the metadata, and entries to its labels and annotations.
fn add(parent: &mut Value, metadata: &Map<String, Value>) {
    let Some(present) = parent.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    for (name, value) in metadata {
        match (present.get_mut(name), value) {
            (Some(Value::Object(present)), Value::Object(more)) => present.extend(more.clone()),
            _ => {
                present.insert(name.clone(), value.clone());
            }
        }
    }
}

/// The parent with a change, if the schema accepts it somewhere.
fn changed(kind: &ParentKind, base: &Value, change: &Change<'_>) -> Option<Value> {
    let schema = kind.schema.as_ref()?;
    let mut parent = base.clone();
    for (name, value) in parent.as_object_mut()?.iter_mut().filter(|(name, _)| is_content(name)) {
        if let Some(schema) = schema::property(schema, name) {
            below(schema, value, change);
        }
    }
    kind.fill_in(&mut parent);
    (parent != *base && kind.problems(&parent).is_empty()).then_some(parent)
}

/// Applies a change to the values in a value.
fn below(schema: &Value, value: &mut Value, change: &Change<'_>) {
    // Equal items would be no set and no map.
    let is_unique = value.is_array() && schema.get("x-kubernetes-list-type").is_some_and(|list| list != "atomic");
    for (schema, part) in parts(schema, value).into_iter().take(if is_unique { 1 } else { usize::MAX }) {
        at(schema, part, change);
    }
    if let (Change::Unknown(unknown), Value::Object(fields)) = (change, value)
        && schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
    {
        fields.insert("unknownField".to_owned(), (*unknown).clone());
    }
}

/// Applies a change to a value, or to the values in it.
fn at(schema: &Value, value: &mut Value, change: &Change<'_>) {
    // What a format means is not checked here.
    let is_free = schema.get("format").is_none();
    let candidate = match (change, &*value) {
        (Change::Put(new @ Value::String(_)), Value::String(_)) => is_free.then(|| new.clone()),
        (Change::Put(new @ Value::Number(number)), Value::Number(_)) => fits(schema, number).then(|| new.clone()),
        (Change::Empty, Value::String(_)) => is_free.then(|| json!("")),
        (Change::Empty, Value::Array(_)) => Some(json!([])),
        (Change::Empty, Value::Object(_)) => Some(json!({})),
        (Change::Null, _) => Some(Value::Null),
        (Change::Put(_) | Change::Empty | Change::Unknown(_), _) => None,
    };
    match candidate.filter(|candidate| schema::problems_at(schema, candidate, "").is_empty()) {
        Some(candidate) => *value = candidate,
        None => below(schema, value, change),
    }
}

/// Whether a number is in the range of its format.
fn fits(schema: &Value, number: &Number) -> bool {
    schema.get("format") != Some(&json!("int32")) || number.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
}

#[cfg(test)]
mod tests {
    use super::super::super::generate::tests::kind;
    use super::*;

    fn parent() -> Value {
        json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a", "labels": {"x": "y"}},
            "spec": {"image": "nginx", "replicas": 3, "env": [{"name": "x"}], "mode": "Fast", "deep": {"level": 3}}})
    }

    #[test]
    fn values_are_varied_where_the_schema_accepts_it() {
        let kind = kind();
        let case = Variation::parse("description: A\nstrings: ['Grüße', '']\nnumbers: [1, 1000000]\n").expect("a case");
        let parents = case.parents(&kind, &parent());
        assert!(!parents.is_empty());
        for varied in &parents {
            assert_eq!(kind.problems(varied), [""; 0], "{varied}");
            assert_ne!(varied["spec"], parent()["spec"]);
        }
        assert!(parents.iter().any(|parent| parent["spec"]["replicas"] == 1), "{parents:?}");
        assert!(parents.iter().all(|parent| parent["spec"]["replicas"] != 1_000_000), "{parents:?}");
    }

    #[test]
    fn metadata_is_added() {
        let case = Variation::parse("description: A\nmetadata: {labels: {z: w}, note: 1}\n").expect("a case");
        let [varied] = case.parents(&kind(), &parent()).try_into().expect("one parent");
        assert_eq!(varied["metadata"], json!({"name": "a", "labels": {"x": "y", "z": "w"}, "note": 1}));
    }

    #[test]
    fn case_that_changes_nothing_has_no_parent() {
        let case = Variation::parse("description: A\nstrings: ['']\n").expect("a case");
        assert_eq!(case.parents(&kind(), &parent()), Vec::<Value>::new());
        assert!(Variation::parse("description: A\nnumber: 1\n").is_err(), "an unknown field");
    }
}
