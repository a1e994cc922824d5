use proptest::prelude::*;
use serde_json::json;

use super::*;

/// The spec of a CRD with one version of this schema.
fn spec(schema: &Value) -> Value {
    json!({"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]})
}

fn between_schemas(old: &Value, new: &Value) -> Vec<String> {
    let wrap = |schema: &Value| json!({"type": "object", "properties": {"spec": schema}});
    narrowings(&spec(&wrap(old)), &spec(&wrap(new))).iter().map(ToString::to_string).collect()
}

/// Pairs of schemas: the second one accepts less than the first, which is reported with this message. In the reverse
/// direction nothing is reported, unless the pair is marked as a change in both directions.
#[test]
#[expect(clippy::too_many_lines)]
fn u01_schema_that_accepts_less_is_reported_and_one_that_accepts_more_is_not() {
    const BOTH: bool = true;
    let string = || json!({"type": "string"});
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let table = [
        // Fields that would be dropped.
        (
            object(json!({"a": string(), "b": string()})),
            object(json!({"a": string()})),
            "spec.b: the field is dropped",
            !BOTH,
        ),
        (
            object(json!({"a": object(json!({"b": object(json!({"c": string()}))}))})),
            object(json!({"a": object(json!({"b": object(json!({}))}))})),
            "spec.a.b.c: the field is dropped",
            !BOTH,
        ),
        (
            json!({"type": "array", "items": object(json!({"name": string(), "port": {"type": "integer"}}))}),
            json!({"type": "array", "items": object(json!({"name": string()}))}),
            "spec[].port: the field is dropped",
            !BOTH,
        ),
        (
            json!({"type": "array", "items": {"type": "array", "items": object(json!({"a": string()}))}}),
            json!({"type": "array", "items": {"type": "array", "items": object(json!({}))}}),
            "spec[][].a: the field is dropped",
            !BOTH,
        ),
        (
            json!({"type": "object", "additionalProperties": object(json!({"a": string()}))}),
            json!({"type": "object", "additionalProperties": object(json!({}))}),
            "spec[*].a: the field is dropped",
            !BOTH,
        ),
        (
            json!({"type": "object", "additionalProperties": string()}),
            json!({"type": "object"}),
            "spec[*]: other keys are dropped",
            !BOTH,
        ),
        (
            json!({"type": "object", "additionalProperties": true}),
            json!({"type": "object", "additionalProperties": string()}),
            "spec[*]: a value of any type becomes string",
            !BOTH,
        ),
        (
            json!({"type": "object", "additionalProperties": string()}),
            object(json!({"a": string()})),
            "spec[*]: other keys are dropped",
            !BOTH,
        ),
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            json!({"type": "object"}),
            "spec: fields that the schema does not name are dropped",
            !BOTH,
        ),
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": string()}}),
            "spec.a: a value of any type becomes string",
            !BOTH,
        ),
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            json!({"type": "object", "additionalProperties": string()}),
            "spec[*]: a value of any type becomes string",
            !BOTH,
        ),
        (
            json!({"x-kubernetes-preserve-unknown-fields": true}),
            string(),
            "spec: a value of any type becomes string",
            !BOTH,
        ),
        // Types.
        (string(), json!({"type": "integer"}), "spec: the type string becomes integer", BOTH),
        (json!({"type": "number"}), json!({"type": "integer"}), "spec: the type number becomes integer", !BOTH),
        (json!({"x-kubernetes-int-or-string": true}), string(), "spec: an integer or a string becomes string", !BOTH),
        (
            json!({"type": "boolean"}),
            json!({"x-kubernetes-int-or-string": true}),
            "spec: the type boolean becomes an integer or a string",
            BOTH,
        ),
        (json!({"type": "string", "nullable": true}), string(), "spec: null is no longer accepted", !BOTH),
        // Values.
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            json!({"type": "string", "enum": ["b", "c"]}),
            "spec: the value \"a\" is no longer accepted",
            BOTH,
        ),
        (string(), json!({"type": "string", "enum": ["a"]}), "spec: only listed values are accepted (enum)", !BOTH),
        (
            json!({"type": "integer"}),
            json!({"type": "integer", "minimum": 0}),
            "spec: minimum is tighter (none becomes 0)",
            !BOTH,
        ),
        (
            json!({"type": "integer", "minimum": -1}),
            json!({"type": "integer", "minimum": 0}),
            "spec: minimum is tighter (-1 becomes 0)",
            !BOTH,
        ),
        (
            json!({"type": "integer", "minimum": 0}),
            json!({"type": "integer", "minimum": 0, "exclusiveMinimum": true}),
            "spec: exclusiveMinimum is added",
            !BOTH,
        ),
        (
            json!({"type": "integer", "maximum": 10}),
            json!({"type": "integer", "maximum": 9}),
            "spec: maximum is tighter (10 becomes 9)",
            !BOTH,
        ),
        (string(), json!({"type": "string", "minLength": 1}), "spec: minLength is tighter (none becomes 1)", !BOTH),
        (
            json!({"type": "string", "maxLength": 64}),
            json!({"type": "string", "maxLength": 63}),
            "spec: maxLength is tighter (64 becomes 63)",
            !BOTH,
        ),
        (
            json!({"type": "array", "items": string()}),
            json!({"type": "array", "items": string(), "maxItems": 3}),
            "spec: maxItems is tighter (none becomes 3)",
            !BOTH,
        ),
        (
            json!({"type": "array", "items": string()}),
            json!({"type": "array", "items": string(), "minItems": 2}),
            "spec: minItems is tighter (none becomes 2)",
            !BOTH,
        ),
        (
            json!({"type": "object", "additionalProperties": string()}),
            json!({"type": "object", "additionalProperties": string(), "maxProperties": 1}),
            "spec: maxProperties is tighter (none becomes 1)",
            !BOTH,
        ),
        (string(), json!({"type": "string", "pattern": "^a"}), "spec: pattern is added", !BOTH),
        (
            json!({"type": "string", "pattern": "^a"}),
            json!({"type": "string", "pattern": "^b"}),
            "spec: pattern is changed",
            BOTH,
        ),
        (json!({"type": "integer"}), json!({"type": "integer", "multipleOf": 2}), "spec: multipleOf is added", !BOTH),
        (string(), json!({"type": "string", "format": "date"}), "spec: the format none becomes date", !BOTH),
        (
            json!({"type": "integer", "format": "int64"}),
            json!({"type": "integer", "format": "int32"}),
            "spec: the format int64 becomes int32",
            !BOTH,
        ),
        (
            object(json!({"a": string()})),
            json!({"type": "object", "properties": {"a": string()}, "required": ["a"]}),
            "spec.a: the field becomes required",
            !BOTH,
        ),
        // Rules.
        (
            object(json!({"a": string()})),
            json!({"type": "object", "properties": {"a": string()}, "x-kubernetes-validations": [{"rule": "has(self.a)"}]}),
            "spec: the rule \"has(self.a)\" is added",
            !BOTH,
        ),
        (
            string(),
            json!({"type": "string", "anyOf": [{"pattern": "^a"}, {"pattern": "^b"}]}),
            "spec: anyOf is added",
            !BOTH,
        ),
        (
            json!({"type": "array", "items": string()}),
            json!({"type": "array", "items": string(), "x-kubernetes-list-type": "set"}),
            "spec: items must be unique in another way (x-kubernetes-list-type)",
            !BOTH,
        ),
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-embedded-resource": true}),
            "spec: x-kubernetes-embedded-resource is added",
            !BOTH,
        ),
    ];
    for (wide, narrow, message, both) in table {
        let found = between_schemas(&wide, &narrow);
        assert_eq!(found, [format!("v1 {message}")], "{wide} becomes {narrow}");
        assert_eq!(between_schemas(&wide, &wide), [""; 0], "{wide} stays");
        assert_eq!(!between_schemas(&narrow, &wide).is_empty(), both, "{narrow} becomes {wide}");
    }
}

#[test]
fn u01_schema_that_accepts_at_least_as_much_is_not_reported() {
    let object = |rest: Value| {
        let mut schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        schema.as_object_mut().expect("a map").extend(rest.as_object().expect("a map").clone());
        schema
    };
    let plain = object(json!({}));
    for (old, new) in [
        // A required field with a default is filled in.
        (
            plain.clone(),
            json!({"type": "object", "properties": {"a": {"type": "string", "default": "x"}}, "required": ["a"]}),
        ),
        (plain.clone(), object(json!({"description": "what it is for", "minProperties": 0}))),
        (plain.clone(), json!({"type": "object", "additionalProperties": {"type": "string"}})),
        (plain.clone(), json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
        (plain, json!({"x-kubernetes-preserve-unknown-fields": true})),
        (json!({"type": "integer", "format": "int32"}), json!({"type": "integer", "format": "int64"})),
        (json!({"type": "integer"}), json!({"type": "integer", "format": "int64"})),
        (json!({"type": "integer"}), json!({"x-kubernetes-int-or-string": true})),
        (json!({"type": "string", "enum": ["a"]}), json!({"type": "string"})),
    ] {
        assert_eq!(between_schemas(&old, &new), [""; 0], "{old} becomes {new}");
    }
}

#[test]
fn u01_schema_without_api_version_kind_and_metadata_is_not_reported() {
    let with_metadata = json!({"type": "object", "properties": {
        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}});
    assert_eq!(narrowings(&spec(&with_metadata), &spec(&json!({"type": "object"}))), []);
}

/// The spec of a CRD with these versions: name, whether the version is served and stored, and the name of its field.
fn spec_of(versions: &[(&str, bool, bool, &str)]) -> Value {
    let version = |(name, served, storage, field): &(&str, bool, bool, &str)| {
        json!({"name": name, "served": served, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {*field: {"type": "string"}}}}})
    };
    json!({"versions": versions.iter().map(version).collect::<Vec<_>>()})
}

#[test]
fn u01_removed_versions_and_a_storage_version_that_lacks_fields_are_reported() {
    let found = |old: &[_], new: &[_]| {
        narrowings(&spec_of(old), &spec_of(new)).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let v1 = ("v1", true, true, "a");
    assert_eq!(found(&[v1], &[("v2", true, true, "a")]), ["v1: the version is removed"]);
    assert_eq!(
        found(&[v1, ("v0", false, false, "a")], &[v1]),
        [""; 0],
        "a version that is neither served nor stored has no users"
    );
    assert_eq!(found(&[v1], &[("v1", true, false, "a"), ("v2", true, true, "a")]), [""; 0]);
    assert_eq!(
        found(&[v1], &[("v1", false, false, "a"), ("v2", true, true, "a")]),
        ["v1: the version is no longer served"]
    );
    assert_eq!(
        found(&[v1], &[("v1", true, false, "a"), ("v2", true, true, "b")]),
        ["v1 stored as v2, a: the field is dropped"],
        "without conversion, the field a is lost"
    );
}

#[test]
fn u01_a_message_names_the_first_fields_and_counts_the_others() {
    let fields: Map<_, _> = (10..30).map(|at| (format!("f{at}"), json!({"type": "string"}))).collect();
    let found = narrowings(&spec(&json!({"type": "object", "properties": fields})), &spec(&json!({"type": "object"})));
    let text = list(&found);
    assert_eq!(found.len(), 20);
    assert!(text.starts_with("v1 f10: the field is dropped; v1 f11:") && text.ends_with("; and 12 more"), "{text}");
}

/// Schemas with a few levels.
fn schemas() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string"})),
        Just(json!({"type": "integer", "minimum": 1})),
        Just(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            inner.clone().prop_map(|rest| json!({"type": "object", "additionalProperties": rest})),
            proptest::collection::btree_map("[a-c]", inner, 1..3)
                .prop_map(|properties| json!({"type": "object", "properties": properties})),
        ]
    })
}

/// The JSON pointers of all properties of a schema.
fn properties(schema: &Value, at: &str, found: &mut Vec<String>) {
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        let at = format!("{at}/properties/{name}");
        found.push(at.clone());
        properties(below, &at, found);
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(below) = schema.get(keyword) {
            properties(below, &format!("{at}/{keyword}"), found);
        }
    }
}

proptest! {
    #[test]
    fn u01_removed_field_at_any_depth_is_reported_and_an_equal_schema_is_not(
        schema in schemas(),
        at in any::<prop::sample::Index>(),
    ) {
        prop_assert_eq!(between_schemas(&schema, &schema), [""; 0]);
        let mut all = Vec::new();
        properties(&schema, "", &mut all);
        prop_assume!(!all.is_empty());
        let (above, name) = at.get(&all).rsplit_once('/').expect("a pointer");
        let mut without = schema.clone();
        without.pointer_mut(above).and_then(Value::as_object_mut).expect("properties").remove(name);
        let found = between_schemas(&schema, &without);
        prop_assert!(found.len() == 1 && found[0].ends_with(&format!("{name}: the field is dropped")), "{found:?}");
        prop_assert_eq!(between_schemas(&without, &schema), [""; 0], "an added field is not reported");
    }
}

#[test]
fn u01_schema_of_a_field_that_is_no_object_is_as_good_as_none() {
    let object = |field: Value| json!({"type": "object", "properties": {"a": field}});
    let (string, none) = (object(json!({"type": "string"})), object(json!(true)));
    assert_eq!(between_schemas(&string, &none), ["v1 spec.a: the field is dropped"]);
    assert_eq!(between_schemas(&none, &string), [""; 0]);
    assert_eq!(narrowings(&spec(&json!(true)), &spec(&string)), []);
}
