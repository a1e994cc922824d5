//! The admission of applications.

#![allow(clippy::panic)]

use myapp::MyApp;
use windlass_plugin::{Decision, Operation, Value, json, testing};

fn app(spec: Value) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "MyApp", "metadata": { "name": "shop" }, "spec": spec })
}

fn review(operation: Operation, object: Option<&Value>, old: Option<&Value>) -> Decision {
    testing::review::<MyApp>(operation, object, old).decision
}

fn create(spec: Value) -> Decision {
    review(Operation::Create, Some(&app(spec)), None)
}

#[test]
fn missing_fields_get_defaults_and_others_stay() {
    let Decision::Replace(object) = create(json!({ "image": "shop:1", "resources": { "cpu": 2 }, "other": true }))
    else {
        panic!("not replaced");
    };
    let expected = json!({
        "image": "shop:1",
        "replicas": 1,
        "port": 8080,
        "resources": { "cpu": 2, "memory": "128Mi" },
        "env": [],
        "other": true,
    });
    assert_eq!(object, app(expected));
}

#[test]
fn a_complete_object_is_allowed_unchanged() {
    let Decision::Replace(whole) = create(json!({ "image": "shop:1" })) else { panic!("not replaced") };
    assert_eq!(review(Operation::Update, Some(&whole), Some(&whole)), Decision::Allow);
}

#[test]
fn an_invalid_object_is_denied_and_the_field_is_named() {
    let denied = |spec: Value| match create(spec) {
        Decision::Deny(invalid) => invalid.to_string(),
        other => panic!("{other:?}"),
    };
    let no_cpu = json!({ "image": "shop:1", "resources": { "cpu": "0" } });
    assert_eq!(denied(no_cpu), "spec.resources.cpu: 0 is not more than 0");
    assert_eq!(denied(json!({ "replicas": 1 })), "spec.image: is required");
    assert_eq!(
        denied(json!({ "image": "shop:1", "port": "http" })),
        "spec.port: invalid type: string \"http\", expected a whole number from 0 to 4294967295"
    );
}

#[test]
fn a_deletion_is_allowed_even_if_the_object_is_invalid() {
    let invalid = app(json!({ "image": "" }));
    assert_eq!(review(Operation::Delete, None, Some(&invalid)), Decision::Allow);
    let mut deleted = invalid.clone();
    if let Some(metadata) = deleted["metadata"].as_object_mut() {
        metadata.insert("deletionTimestamp".to_owned(), json!("2026-01-01T00:00:00Z"));
    }
    assert_eq!(review(Operation::Update, Some(&deleted), Some(&invalid)), Decision::Allow);
}
