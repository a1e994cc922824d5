use serde_json::json;

use super::pattern::{COMPILED, PATTERN_LENGTH_MAX, PATTERNS_KEPT};
use super::problems::SHOWN;
use super::*;
use crate::value::bounded::{LruCache, bounded};

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
                    "env": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                        "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
                    "hosts": {"type": "array", "x-kubernetes-list-type": "set",
                        "items": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}},
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
        (json!({"image": "a", "env": [{"name": "A"}, {"name": "A"}]}), "spec.env[1].name: \"A\" is given twice"),
        (json!({"image": "a", "hosts": ["b", "c", "b"]}), "spec.hosts[2]: is given twice"),
        (json!({"image": "a", "hosts": ["B"]}), "spec.hosts[0]: \"B\" is not a DNS label: a-z"),
    ] {
        let found = problems_of_spec(&spec);
        assert!(found.iter().any(|line| line.starts_with(expected)), "{spec}: {expected}: {found:?}");
    }
    let whole = problems(&schema(), &json!({"apiVersion": "g/v1", "kind": "K"}));
    assert_eq!(whole, ["spec: required, and missing"]);
}

#[test]
fn whole_numbers_fit_their_format_however_they_are_written() {
    let problems = |format: &str, number: &str| {
        let number: Value = serde_json::from_str(number).expect("a number");
        problems_at(&json!({"type": "integer", "format": format}), &number, "a")
    };
    for (format, number) in [
        ("int64", "1.0"),
        ("int64", "-9223372036854775808"),
        ("int64", "9223372036854775807"),
        ("int32", "2147483647"),
        ("int32", "1e3"),
    ] {
        assert_eq!(problems(format, number), [""; 0], "{format} {number}");
    }
    for (format, number) in [
        ("int64", "9223372036854775808"),
        ("int64", "9223372036854775808.0"),
        ("int32", "2147483648"),
        ("int32", "-1e10"),
    ] {
        assert_eq!(
            problems(format, number),
            [format!("a: {} is outside of its format", serde_json::from_str::<Value>(number).expect("a number"))]
        );
    }
}

#[test]
fn numbers_are_compared_as_the_api_server_does() {
    let problems = |schema: Value, number: Value| problems_at(&schema, &number, "a");
    assert_eq!(problems(json!({"multipleOf": 0.01}), json!(111_856.93)), [""; 0]);
    assert_eq!(problems(json!({"multipleOf": 0.01}), json!(0.015)).len(), 1);
    assert_eq!(problems(json!({"enum": [1.0, 2]}), json!(1)), [""; 0]);
    assert_eq!(problems(json!({"enum": [1.0, 2]}), json!(3)).len(), 1);
}

#[test]
fn stored_object_that_costs_too_much_to_be_checked_has_no_problem_beyond_those_found() {
    let list = json!({"type": "array", "items": {"type": "integer"}});
    let schema = json!({"properties": {"a": {"type": "integer"}}, "additionalProperties": list});
    let key = "k".repeat(100_000);
    let mut items = vec![json!(1); 1000];
    items.push(json!("no number"));
    let few = problems_of_stored(&schema, &json!({"k": items}), "spec");
    assert_eq!(few, ["spec.k[1000]: must be of type integer, and is a string"]);
    let found = problems_of_stored(&schema, &json!({"a": "b", key: items}), "spec");
    assert_eq!(found, ["spec.a: must be of type integer, and is a string"]);
    let patterns = json!({"properties": {"a": {"type": "integer"}, "text": {"pattern": "^a+$"}}});
    let found = problems_of_stored(&patterns, &json!({"text": "b".repeat(1_000_000), "a": "b"}), "spec");
    assert_eq!(found, ["spec.a: must be of type integer, and is a string"]);
}

#[test]
fn message_shows_the_beginning_of_a_long_text_and_of_a_long_path() {
    let key = "k".repeat(100_000);
    let found = problems_at(&json!({"additionalProperties": {"type": "integer"}}), &json!({key: "x"}), "spec");
    assert_eq!(found, [format!("spec.{}…: must be of type integer, and is a string", "k".repeat(495))]);
    let found = problems_at(&json!({"enum": ["a"]}), &json!("x".repeat(10_000)), "a");
    assert_eq!(found, [format!("a: unsupported value \"{}\"…; supported are \"a\"", "x".repeat(100))]);
}

#[test]
fn typo_in_a_config_is_a_problem_with_its_path_and_the_known_fields() {
    let schema = json!({
        "type": "object", "required": ["image", "size"],
        "properties": {
            "image": {"type": "string", "pattern": "^[a-z]+$"},
            "size": {"type": "integer", "default": 1},
            "network": {"type": "object", "properties": {"allowDns": {"type": "boolean"}}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "open": {"type": "object"},
            "closed": {"type": "object", "additionalProperties": false},
            "elsewhere": {"$ref": "#/$defs/other", "properties": {"a": {}}},
            "either": {"type": "object", "properties": {"a": {}, "b": {}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            "odd": {"type": ["string", "null"], "pattern": "(?=look)ahead"},
        },
    });
    let all = json!({
        "image": "a", "size": 2, "network": {"allowDns": true}, "labels": {"x": "y"}, "free": {"x": 1}, "open": {"x": 1},
        "closed": {}, "elsewhere": {"x": 1}, "either": {"a": 1}, "odd": "x",
    });
    assert_eq!(problems_of_config(&schema, &all), [""; 0]);
    assert_eq!(problems_of_config(&schema, &json!({"image": "a"})), [""; 0], "a default is no missing field");
    for (config, expected) in [
        (
            json!({"image": "a", "network": {"allowDSN": true}}),
            "spec.config.network.allowDSN: unknown field; known are allowDns",
        ),
        (json!({"imgae": "a"}), "spec.config.image: required, and missing"),
        (json!({"image": 1}), "spec.config.image: must be of type string, and is the number 1"),
        (
            json!({"image": "a", "labels": {"x": 1}}),
            "spec.config.labels.x: must be of type string, and is the number 1",
        ),
        (json!({"image": "a", "closed": {"x": 1}}), "spec.config.closed.x: unknown field; known are "),
        (json!({"image": "a", "either": {"c": 1}}), "spec.config.either.c: unknown field; known are a, b"),
        (json!([]), "spec.config: must be of type object, and is an array"),
    ] {
        let found = problems_of_config(&schema, &config);
        assert!(found.iter().any(|line| line == expected), "{config}: {found:?}");
    }
}

/// What the kinds of stores have in common, and one part for each kind.
fn stores() -> Value {
    json!({
        "type": "object", "properties": {"common": {}},
        "oneOf": [{"properties": {"s3": {}}, "required": ["s3"]}, {"properties": {"gcs": {}}, "required": ["gcs"]}],
    })
}

#[test]
fn config_field_that_another_part_of_the_schema_may_name_is_known() {
    let named = json!({"properties": {"b": {}}});
    let outside = |keyword: &str, value: Value| json!({"properties": {"a": {}}, keyword: value});
    let closed = json!({"additionalProperties": false, "patternProperties": {"^x-": {}}, "properties": {"a": {}}});
    let mixed = json!({"additionalProperties": {"type": "string"}, "patternProperties": {"^x-": {}}});
    let inner = json!({"properties": {"in": {"properties": {"b": {}}}}});
    let nested = json!({"properties": {"in": {"properties": {"a": {}}}}, "anyOf": [inner]});
    let same = json!({"oneOf": [{"const": 1}, {"const": 2}]});
    for (schema, config) in [
        (stores(), json!({"s3": "x"})),
        (stores(), json!({"gcs": "x", "common": 1})),
        (outside("allOf", json!([{"anyOf": [named]}])), json!({"a": 1, "b": 1})),
        (outside("dependentSchemas", json!({"a": named})), json!({"a": 1, "b": 1})),
        (outside("if", named.clone()), json!({"b": 1})),
        (outside("then", named.clone()), json!({"b": 1})),
        (outside("else", named.clone()), json!({"b": 1})),
        (outside("anyOf", json!([{"$ref": "#/$defs/b"}])), json!({"b": 1})),
        (outside("unevaluatedProperties", json!({})), json!({"b": 1})),
        (closed.clone(), json!({"x-b": 1})),
        (mixed, json!({"x-b": 1})),
        (nested, json!({"in": {"a": 1, "b": 1}})),
        (same, json!(1)),
        (json!({"not": {"$ref": "#/$defs/b"}}), json!(1)),
    ] {
        assert_eq!(problems_of_config(&schema, &config), [""; 0], "{schema}: {config}");
    }
    for (schema, config, expected) in [
        (stores(), json!({"s3": "x", "comon": 1}), "spec.config.comon: unknown field; known are common"),
        (outside("if", named.clone()), json!({"c": 1}), "spec.config.c: unknown field; known are a"),
        (closed, json!({"y": 1}), "spec.config.y: unknown field; known are a"),
        (stores(), json!({}), "spec.config: it fits 0 of oneOf, and must fit one"),
    ] {
        assert_eq!(problems_of_config(&schema, &config), [expected], "{schema}: {config}");
    }
}

#[test]
fn compiled_patterns_are_bounded_in_size_and_in_number() {
    COMPILED.set(bounded(PATTERNS_KEPT));
    let (schema, value) = (json!({"pattern": "^((abc){90}){90}$"}), json!("-"));
    assert_eq!(problems_of_config(&schema, &value), [""; 0], "too large for the host");
    let (unicode, ascii) = (json!({"pattern": r"^\p{L}$"}), json!({"pattern": r"^\S\d$"}));
    assert_eq!(problems_at(&unicode, &value, "a"), [""; 0], "the API server checks it alone");
    assert_eq!(problems_at(&ascii, &json!("\u{a0}1"), "a"), [""; 0], "a space of Unicode is none of RE2");
    assert_eq!(problems_at(&ascii, &json!("a\u{661}"), "a").len(), 1, "neither is a digit");
    assert_eq!(problems_of_config(&json!({"pattern": "^a$"}), &value).len(), 1);
    assert_eq!(COMPILED.with_borrow(LruCache::len), 2, "the patterns of a config do not stay");
    for at in 0..2 * PATTERNS_KEPT {
        assert!(compiled(&format!("^{at}$")).is_some());
    }
    assert!(COMPILED.with_borrow(LruCache::len) <= PATTERNS_KEPT);
    assert!(compiled(&"a".repeat(PATTERN_LENGTH_MAX + 1)).is_none());
}

#[test]
fn required_fields_and_keys_of_lists_count_as_work() {
    let names: Vec<_> = (0..2000).map(|at| format!("f{at}")).collect();
    let items: Vec<_> = (0..2500).map(|at| json!({"f0": at})).collect();
    for schema in [
        json!({"items": {"required": names}}),
        json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": names[..10]}),
    ] {
        let found = problems_of_config(&schema, &json!(items));
        assert!(found.iter().any(|line| line.contains("would take too long")), "{found:?}");
    }
    let found = problems_of_config(&json!({"required": names}), &json!({}));
    assert_eq!((found.len(), found.last().map(String::as_str)), (SHOWN + 1, Some("and 1980 more problems")));
}

#[test]
fn schema_that_costs_much_for_each_item_is_given_up() {
    let alternatives: Vec<_> = (0..2000).map(|at| json!({"enum": [at]})).collect();
    let patterns: Vec<_> = (0..2000).map(|at| json!({"pattern": format!("{at}|a")})).collect();
    let items = vec![json!("a"); 20_000];
    for schema in [
        json!({"items": {"anyOf": alternatives}}),
        json!({"items": {"allOf": patterns}}),
        json!({"x-kubernetes-list-type": "set"}),
    ] {
        let distinct: Vec<_> = (0..20_000).map(|at| json!(at)).collect();
        let value = if schema.get("items").is_some() { json!(items) } else { json!(distinct) };
        let found = problems_of_config(&schema, &value);
        assert!(found.iter().any(|line| line.contains("would take too long")), "{found:?}");
    }
    // A pattern of a few characters that would need gigabytes.
    assert!(compiled(r"((\w{1000}){1000}){1000}").is_none());
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
