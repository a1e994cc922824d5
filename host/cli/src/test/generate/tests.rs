//! Tests of the generator, and the kind that other tests of this command use.

use super::*;

/// A kind with each construct of a structural schema.
pub fn kind() -> ParentKind {
    let schema = json!({
        "type": "object", "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
            "spec": {
                "type": "object", "required": ["image", "replicas"],
                "properties": {
                    "image": {"type": "string", "minLength": 1, "maxLength": 40, "pattern": "^\\S+$"},
                    "replicas": {"type": "integer", "minimum": 0, "maximum": 100},
                    "step": {"type": "integer", "minimum": 5, "maximum": 100, "multipleOf": 5},
                    "ratio": {"type": "number", "minimum": 0, "maximum": 1},
                    "mode": {"type": "string", "enum": ["Fast", "Safe"], "default": "Safe"},
                    "cpu": {"x-kubernetes-int-or-string": true, "pattern": "^[0-9]+m?$", "maxLength": 8},
                    "at": {"type": "string", "format": "date-time"},
                    "host": {"type": "string", "nullable": true, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
                    "env": {
                        "type": "array", "maxItems": 5, "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {"type": "object", "required": ["name"], "properties": {
                            "name": {"type": "string", "minLength": 1}, "value": {"type": "string"},
                        }},
                    },
                    "zones": {"type": "array", "minItems": 1, "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                    "limits": {"type": "object", "maxProperties": 2, "additionalProperties": {"type": "string"}},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    "either": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                        "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
                    "deep": {"type": "object", "default": {}, "properties": {"level": {"type": "integer", "default": 3}}},
                },
            },
            "status": {"type": "object", "properties": {"ready": {"type": "integer"}}},
        },
    });
    ParentKind {
        api_version: "example.com/v1".to_owned(),
        kind: "Thing".to_owned(),
        schema: Some(schema),
        labels: Map::new(),
        annotations: Map::new(),
        namespaced: true,
        examples: Examples::default(),
    }
}

#[test]
fn generated_parents_and_their_edits_fit_the_schema() {
    let kind = kind();
    let mut edits = 0;
    for seed in 0..200 {
        let mut generator = Generator::new(&kind, seed);
        for fields in [Fields::Required, Fields::Some, Fields::All] {
            let parent = generator.parent(fields).expect("a parent");
            assert_eq!(kind.problems(&parent), [""; 0], "{parent:#}");
            if let Some(edited) = generator.edited(&parent) {
                assert_eq!(kind.problems(&edited), [""; 0], "{edited:#}");
                assert_eq!(edited["metadata"], parent["metadata"]);
                edits += 1;
            }
        }
    }
    assert!(edits > 200, "too few edits: {edits}");
}

#[test]
fn generated_parents_have_the_labels_and_annotations_that_the_selector_asks_for() {
    let asked = |key: &str| Map::from_iter([(key.to_owned(), json!("true"))]);
    let kind = ParentKind { labels: asked("guarded"), annotations: asked("example.com/ports"), ..kind() };
    for seed in 0..20 {
        let parent = Generator::new(&kind, seed).parent(Fields::Some).expect("a parent");
        assert_eq!(parent["metadata"]["labels"]["guarded"], "true", "{parent:#}");
        assert_eq!(parent["metadata"]["annotations"]["example.com/ports"], "true", "{parent:#}");
    }
}

#[test]
fn optional_fields_are_absent_some_or_all() {
    let kind = kind();
    let mut generator = Generator::new(&kind, 1);
    let least = generator.parent(Fields::Required).expect("a parent");
    assert_eq!(least["spec"]["deep"], json!({"level": 3}), "defaults are filled in");
    assert_eq!(least["spec"].as_object().map(Map::len), Some(4), "{least:#}");
    let whole = generator.parent(Fields::All).expect("a parent");
    let optional = optional_fields(&kind, &whole);
    for name in ["/spec/host", "/spec/env", "/spec/env/0/value", "/spec/deep/level"] {
        assert!(optional.iter().any(|path| path == name), "{name}: {optional:?}");
    }
    assert!(!optional.iter().any(|path| path == "/spec/image"));
}

#[test]
fn generator_repeats_itself_with_the_same_seed() {
    let kind = kind();
    let parents = |seed| -> Vec<_> {
        let mut generator = Generator::new(&kind, seed);
        (0..5).map(|_| generator.parent(Fields::Some)).collect()
    };
    assert_eq!(parents(7), parents(7));
    assert_ne!(parents(7), parents(8));
}

#[test]
fn invalid_parents_do_not_fit_the_schema() {
    let kind = kind();
    let mut found = 0;
    for seed in 0..50 {
        let mut generator = Generator::new(&kind, seed);
        let parent = generator.parent(Fields::Some).expect("a parent");
        if let Some(broken) = generator.invalid(&parent) {
            assert_ne!(kind.problems(&broken), [""; 0], "{broken:#}");
            found += 1;
        }
    }
    assert!(found > 40, "too few: {found}");
}

#[test]
fn values_are_removed_by_their_paths() {
    let mut value = json!({"a": {"b/c": 1, "d": [1, 2]}});
    let mut paths = Vec::new();
    paths_of(&value, "", &mut paths);
    assert_eq!(paths, ["", "/a", "/a/b~1c", "/a/d", "/a/d/0", "/a/d/1"]);
    assert!(remove(&mut value, "/a/b~1c") && remove(&mut value, "/a/d/1") && !remove(&mut value, "/a/d/7"));
    assert_eq!(value, json!({"a": {"d": [1]}}));
}
