//! Components of contract 0.2, beside those of 0.1.

use serde_json::json;
use windlass_core::contract::{CallFailure, Failure, LoadFailure, PluginResult, Requirement, Response, Selection};
use windlass_core::value::ids::Gvk;
use windlass_sandbox::{Ambient, Component, run_here};

use crate::golden::component;
use crate::{SANDBOX, limits, load, request};

const CANDIDATE: &str = "0.2.0-rc.1";

/// The bytes of a parent that asks the guest for this.
fn parent(asks: &str) -> Vec<u8> {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "annotations": {"asks": asks}},
    })
    .to_string()
    .into_bytes()
}

fn call(component: &Component, parent: &[u8]) -> Result<PluginResult, CallFailure> {
    run_here(component.reconcile(&request(parent), &limits(), Ambient::now([7; 32]))).0
}

#[test]
fn component_of_contract_0_2_is_described_and_called() {
    let newest = load(&component("contract/newest"));
    assert_eq!(&*newest.surface().contract, CANDIDATE);
    assert_eq!(newest.surface().unsupported_imports, [""; 0]);
    let descriptor = newest.descriptor();
    assert_eq!((&*descriptor.name, descriptor.children.len()), ("newest", 1));
    let response = call(&newest, &parent("")).unwrap().unwrap();
    let requirement = Requirement {
        id: "settings".to_owned(),
        kind: Gvk::from_api_version("v1", "ConfigMap"),
        namespace: Some("default".to_owned()),
        select: Selection::Name("settings".to_owned()),
    };
    let child = br#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"web"},"stringData":{"of":"Echo"}}"#.to_vec();
    let expected = Response { children: vec![child], requeue: Some(5000), requirements: vec![requirement], ..Response::default() };
    assert_eq!(response, expected);
    let failure = call(&newest, &parent("failure")).unwrap().unwrap_err();
    assert_eq!(failure, Failure::Invalid("data.size: must be a number".to_owned()));
}

#[test]
fn component_that_asks_for_what_is_not_built_is_refused_with_its_name() {
    let newest = load(&component("contract/newest"));
    for (asks, names) in [
        ("stage", "stage"),
        ("retain", "retain"),
        ("take-over", "take-over"),
        ("once", "create: once"),
        ("ready", "ready"),
        ("update", "update of a single child"),
        ("replaces", "replaces"),
        ("keep", "keep"),
        ("waiting", "waiting"),
        ("requeue-at", "requeue-at"),
        ("all", "all namespaces"),
        ("two", "other than one namespace"),
        ("label-selector", "label-selector"),
        ("metadata-only", "metadata-only"),
    ] {
        let failure = call(&newest, &parent(asks)).unwrap_err();
        let CallFailure::Malformed(message) = failure else { panic!("{asks}: {failure:?}") };
        assert!(message.contains(names) && message.ends_with("of contract 0.2.0-rc.1 yet"), "{asks}: {message}");
    }
}

#[test]
fn component_of_both_contracts_is_called_by_the_newer() {
    let both = load(&component("contract/both"));
    assert_eq!(&*both.surface().contract, CANDIDATE);
    assert_eq!(both.descriptor().version, "0.2.0");
    let failure = call(&both, b"{}").unwrap().unwrap_err();
    assert_eq!(failure, Failure::Failed("called by contract 0.2".to_owned()));
}

#[test]
fn component_of_another_candidate_is_refused_with_what_to_do() {
    let mut bytes = component("contract/newest");
    let (this, another) = (b"@0.2.0-rc.1", b"@0.2.0-rc.9");
    let places: Vec<_> = bytes.windows(this.len()).enumerate().filter(|(_, found)| found == this).map(|(at, _)| at).collect();
    for at in places {
        bytes[at..at + another.len()].copy_from_slice(another);
    }
    let Err(LoadFailure::UnsupportedContract(message)) = SANDBOX.0.load(&bytes) else { panic!("it is loaded") };
    assert_eq!(
        message,
        "the component is built for contract 0.2.0-rc.9, a candidate that this host does not run: it runs 0.2.0-rc.1 and 0.1; build \
         the component again with the SDK of the host's release"
    );
}
