//! Tests the export `admission`, which the host does not call yet: a component's responses equal those of the same code
//! run natively.

use std::fs;

use myapp::MyApp;
use serde_json::{Value, json};
use wasmtime::component::{Component, Linker};
use wasmtime::{Engine, Store};
use windlass_plugin::{AdmissionResponse, Operation, testing};

use crate::golden::component;

mod generated {
    wasmtime::component::bindgen!({ path: "../../wit/0.1", world: "admitting-plugin" });
}
use generated::AdmittingPlugin;
use generated::exports::windlass::plugin::admission;

/// A write: the operation, the object after it, and the object before it.
type Write = (Operation, Option<Value>, Option<Value>);

fn app(spec: &Value) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "MyApp", "metadata": { "name": "shop" }, "spec": spec })
}

/// Every spec of the golden cases as a create and as an update, and one delete.
fn writes() -> Vec<Write> {
    let other = app(&json!({ "image": "shop:1" }));
    let mut writes = vec![(Operation::Delete, None, Some(app(&json!({ "image": "" }))))];
    for entry in fs::read_dir(crate::golden::cases("myapp")).unwrap() {
        let path = entry.unwrap().path();
        let case: Value = serde_saphyr::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let Some(spec) = case.pointer("/parent/spec") else { continue };
        writes.push((Operation::Create, Some(app(spec)), None));
        writes.push((Operation::Update, Some(app(spec)), Some(other.clone())));
    }
    writes
}

#[test]
fn myapp_component_admits_as_the_native_code_does() {
    let engine = Engine::default();
    let component = Component::new(&engine, component("myapp")).unwrap();
    // Admission calls no function of the host: such a call would trap.
    let mut linker = Linker::new(&engine);
    linker.define_unknown_imports_as_traps(&component).unwrap();
    let (mut denied, mut defaulted) = (0, 0);
    for (operation, object, old) in writes() {
        let bytes = |object: &Option<Value>| object.as_ref().map(|object| object.to_string().into_bytes());
        let request = admission::AdmissionRequest {
            operation: match operation {
                Operation::Create => admission::Operation::Create,
                Operation::Update => admission::Operation::Update,
                Operation::Delete => admission::Operation::Delete,
            },
            object: bytes(&object),
            old_object: bytes(&old),
            username: "user".to_owned(),
            config: None,
        };
        let mut store = Store::new(&engine, ());
        let plugin = AdmittingPlugin::instantiate(&mut store, &component, &linker).unwrap();
        let response = match plugin.windlass_plugin_admission().call_review(&mut store, &request).unwrap() {
            admission::Verdict::Allow(warnings) => AdmissionResponse::Allow(warnings),
            admission::Verdict::Replace(object) => AdmissionResponse::Replace(serde_json::from_slice(&object).unwrap()),
            admission::Verdict::Deny(message) => AdmissionResponse::Deny(message),
        };
        assert_eq!(response, testing::review::<MyApp>(operation, object.as_ref(), old.as_ref()), "{object:?}");
        denied += usize::from(matches!(response, AdmissionResponse::Deny(_)));
        defaulted += usize::from(matches!(response, AdmissionResponse::Replace(_)));
    }
    assert!(denied > 10 && defaulted > 10, "{denied} denied, {defaulted} defaulted");
}
