//! Tests a component that was built with the first release of the contract and is never rebuilt (tests/frozen): it
//! stands for every component that was pushed before the contract grew.

use std::fs;
use std::path::Path;

use windlass_core::contract::{CallReport, Response};
use windlass_sandbox::Ambient;

use crate::{limits, load, request, run_here};

#[test]
fn component_of_the_first_contract_release_loads_and_responds_as_before() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/frozen/echo-0.1.0.wasm");
    let component = load(&fs::read(path).expect("the frozen component"));
    assert_eq!(component.surface().contract, "0.1.0");
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
