//! Tests components that were built with the first release and are never rebuilt (tests/frozen): they stand for every
//! component that was pushed before the contract and the host grew.

use std::fs;
use std::path::{Path, PathBuf};
use std::str;

use serde_json::{Value, json};
use windlass_core::contract::{CallReport, Failure, Observed, Parent, PluginResult, Request, Response};
use windlass_core::value::ids::Gvk;
use windlass_sandbox::{Ambient, Component};

use crate::languages::LOADED;
use crate::{limits, load, request, run_here};

pub(crate) const LANGUAGES: [&str; 5] = ["go", "js", "python", "rust", "zig"];

fn frozen(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/frozen").join(name)
}

/// The bytes of Echo 0.1.0 in this language.
pub(crate) fn echo(language: &str) -> Vec<u8> {
    let packed = fs::read(frozen("echo-0.1.0").join(language).with_extension("wasm.zst")).unwrap();
    zstd::decode_all(&*packed).unwrap()
}

#[test]
fn component_of_the_first_contract_release_loads_and_responds_as_before() {
    let component = load(&fs::read(frozen("bare-0.1.0.wasm")).expect("the frozen component"));
    assert_eq!(&*component.surface().contract, "0.1.0");
    assert_eq!(component.surface().unsupported_imports, [""; 0]);
    assert_eq!(component.descriptor().name, "frozen");
    let parent = br#"{"metadata":{"name":"web"}}"#;
    let (response, report) = run_here(component.reconcile(&request(parent), &limits(), Ambient::now([7; 32])));
    let expected = Response {
        children: vec![parent.to_vec()],
        status: Some(parent.to_vec()),
        requeue: Some(30_000),
        ..Response::default()
    };
    assert_eq!(response, Ok(Ok(expected)));
    let CallReport { notes, impure, .. } = report;
    assert!(notes.len() == 1 && !impure, "{notes:?}");
}

#[test]
fn echo_of_the_first_release_responds_in_every_language_as_it_did_then_byte_for_byte() {
    let requests: Vec<Value> = serde_json::from_slice(&fs::read(frozen("echo-0.1.0/requests.json")).unwrap()).unwrap();
    assert_eq!(requests.len(), 14);
    for (language, component) in &LOADED.frozen {
        let responses = requests.iter().map(|case| recorded(&case["case"], call(component, case)));
        let now = json!({ "description": description(component), "responses": responses.collect::<Vec<_>>() });
        let file = frozen("echo-0.1.0").join(language).with_extension("json");
        // A new component has no responses yet. Those of an old one never change.
        if std::env::var_os("UPDATE_EXPECT").is_some() && !file.exists() {
            fs::write(&file, format!("{now:#}\n")).unwrap();
        }
        let then: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        assert_eq!(now, then, "{language}");
    }
}

/// Calls the component with a recorded request.
fn call(component: &Component, case: &Value) -> PluginResult {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let pod = |pod: &Value| Observed {
        deleting: false,
        kind: Gvk::from_api_version("v1", "Pod"),
        namespace: Some("default".into()),
        name: (*text(&pod["name"])).into(),
        object: text(&pod["object"]).into_bytes().into(),
    };
    let request = Request {
        children: case["pods"].as_array().unwrap().iter().map(pod).collect(),
        ..request(text(&case["parent"]).as_bytes())
    };
    let (response, report) = run_here(component.reconcile(&request, &limits(), Ambient::now([7; 32])));
    assert!(!report.impure, "{case}");
    response.unwrap()
}

/// What is recorded of a response: all bytes, and nothing that a later host may add to it.
fn recorded(case: &Value, result: PluginResult) -> Value {
    let text = |bytes: &[u8]| str::from_utf8(bytes).unwrap().to_owned();
    match result {
        Ok(response) => {
            let children: Vec<_> = response.children.iter().map(|child| text(child)).collect();
            let status = response.status.as_deref().map(text);
            assert_eq!(
                response,
                Response {
                    children: response.children.clone(),
                    status: response.status.clone(),
                    ..Response::default()
                }
            );
            json!({ "case": case, "children": children, "status": status })
        }
        Err(Failure::Invalid(message)) => json!({ "case": case, "invalid": message }),
        Err(failure) => panic!("{case}: {failure:?}"),
    }
}

fn description(component: &Component) -> Value {
    let descriptor = component.descriptor();
    let Parent::Custom(crd) = &descriptor.parent else { panic!("{:?}", descriptor.parent) };
    assert_eq!(&*component.surface().contract, "0.1.0");
    json!({
        "name": descriptor.name,
        "version": descriptor.version,
        "children": descriptor.children.iter().map(|rule| &*rule.kind.kind).collect::<Vec<_>>(),
        "resync": descriptor.resync,
        "crd": str::from_utf8(crd).unwrap(),
    })
}
