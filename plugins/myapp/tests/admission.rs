//! What MyApp says to who writes an application.

#![allow(clippy::panic)]

use myapp::MyApp;
use windlass_plugin::{Operation, Value, Verdict, json, testing};

fn app(spec: Value) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "MyApp", "metadata": { "name": "shop" }, "spec": spec })
}

fn create(spec: Value) -> Verdict {
    testing::review::<MyApp>(Operation::Create, Some(&app(spec)), None)
}

#[test]
fn what_is_left_out_is_filled_in_and_what_is_given_stays() {
    let Verdict::Replace(object) = create(json!({ "image": "shop:1", "resources": { "cpu": 2 }, "other": true }))
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
fn what_is_whole_is_allowed_as_it_is() {
    let Verdict::Replace(whole) = create(json!({ "image": "shop:1" })) else { panic!("not replaced") };
    assert_eq!(testing::review::<MyApp>(Operation::Update, Some(&whole), Some(&whole)), Verdict::Allow(Vec::new()));
}

#[test]
fn what_is_wrong_is_refused_and_the_field_is_named() {
    let refused = |spec: Value| match create(spec) {
        Verdict::Deny(why) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(json!({ "image": "shop:1", "replicas": 101 })), "spec.replicas: 101 is not between 1 and 100");
    assert_eq!(refused(json!({ "replicas": 1 })), "spec.image: is required");
    assert_eq!(
        refused(json!({ "image": "shop:1", "port": "http" })),
        "spec.port: invalid type: string \"http\", expected a whole number from 0 to 4294967295"
    );
}

#[test]
fn who_goes_may_go_whatever_is_wrong() {
    let allowed = Verdict::Allow(Vec::new());
    let wrong = app(json!({ "image": "" }));
    assert_eq!(testing::review::<MyApp>(Operation::Delete, None, Some(&wrong)), allowed);
    let mut leaving = wrong.clone();
    if let Some(metadata) = leaving["metadata"].as_object_mut() {
        metadata.insert("deletionTimestamp".to_owned(), json!("2026-01-01T00:00:00Z"));
    }
    assert_eq!(testing::review::<MyApp>(Operation::Update, Some(&leaving), Some(&wrong)), allowed);
}
