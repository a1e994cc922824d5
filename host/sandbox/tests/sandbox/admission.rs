//! Tests the export `admission`, which the host does not call yet: a component's responses equal those of the same code
//! run natively.

use std::fs;

use myapp::MyApp;
use serde_json::{Value, json};
use wasmtime::component::{Component, Linker};
use wasmtime::{Engine, Store};
use windlass_plugin::{AdmissionResponse, Decision, Invalid, Operation, testing};

use crate::golden::component;

mod generated {
    wasmtime::component::bindgen!({ path: "../../wit/0.2", world: "admitting-plugin" });
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
        let kind = admission::Kind { api_version: "example.com/v1".to_owned(), name: "MyApp".to_owned() };
        let request = admission::AdmissionRequest {
            operation: match operation {
                Operation::Create => admission::Operation::Create,
                Operation::Update => admission::Operation::Update,
                Operation::Delete => admission::Operation::Delete,
            },
            kind,
            subresource: None,
            namespace: None,
            namespace_labels: Vec::new(),
            name: Some("shop".to_owned()),
            object: bytes(&object),
            old_object: bytes(&old),
            dry_run: false,
            username: "user".to_owned(),
            groups: Vec::new(),
            config: None,
        };
        let mut store = Store::new(&engine, ());
        let plugin = AdmittingPlugin::instantiate(&mut store, &component, &linker).unwrap();
        let verdict = plugin.windlass_plugin_admission().call_review(&mut store, &request).unwrap();
        let decision = match verdict.decision {
            admission::Decision::Allow => Decision::Allow,
            admission::Decision::Replace(object) => Decision::Replace(serde_json::from_slice(&object).unwrap()),
            admission::Decision::Deny(admission::Invalid { field, message }) => {
                Decision::Deny(Invalid { field, message })
            }
        };
        let response = AdmissionResponse { decision, warnings: verdict.warnings };
        assert_eq!(response, testing::review::<MyApp>(operation, object.as_ref(), old.as_ref()), "{object:?}");
        denied += usize::from(matches!(response.decision, Decision::Deny(_)));
        defaulted += usize::from(matches!(response.decision, Decision::Replace(_)));
    }
    assert!(denied >= 8 && defaulted > 10, "{denied} denied, {defaulted} defaulted");
}
