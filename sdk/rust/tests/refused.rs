//! A native test of a plugin refuses what the host refuses, with the same sentence.

#![allow(clippy::indexing_slicing, clippy::unwrap_used)]

use std::panic;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::{
    ChildOptions, ChildRef, CustomResource, Descriptor, Failure, Reconciler, Request, Requirement, Response, Value,
    json,
    kinds::{ConfigMap, Secret},
    raw::{self, Selection},
    testing,
};

/// Returns the response that its spec has.
struct Echo;

#[derive(Deserialize, JsonSchema)]
struct Spec {
    case: Value,
}

#[derive(Serialize, JsonSchema)]
struct Status {}

impl Reconciler for Echo {
    type Spec = Spec;
    type Status = Status;

    fn descriptor() -> Descriptor {
        let kind = CustomResource::namespaced::<Self>("example.com", "v1", "Echo");
        Descriptor::new("echo", "0.1.0", kind).child::<ConfigMap>().child::<Secret>().related::<ConfigMap>()
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        let case = &request.spec.case;
        let response = items(case, "children")
            .fold(Response::new(), |response, child| response.child_with(&child["object"], options(&child["options"])));
        let response = response.keep(items(case, "keep").map(child));
        Ok(items(case, "requirements").fold(response, |response, required| {
            let [id, api_version, kind, name] = ["id", "apiVersion", "kind", "name"].map(|field| text(required, field));
            response.require(Requirement::dynamic(id, api_version, kind, Selection::Name(name.to_owned())))
        }))
    }
}

fn options(given: &Value) -> ChildOptions {
    let options = ChildOptions::new().retain(given["retain"] == true);
    let options = match given["once"].as_str() {
        Some(once) => options.once(once),
        None => options,
    };
    if given["replaces"].is_null() { options } else { options.replaces(child(&given["replaces"])) }
}

fn child(of: &Value) -> ChildRef {
    let [api_version, name, kind] = ["apiVersion", "name", "kind"].map(|field| text(of, field).to_owned());
    ChildRef { kind: raw::Kind { api_version, name: kind }, namespace: None, name }
}

fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of[field].as_str().unwrap()
}

fn items<'a>(case: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    case[field].as_array().into_iter().flatten()
}

#[test]
fn responses_that_the_host_refuses_fail_the_test_with_its_sentence() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../host/conformance/refused.json");
    let cases: Vec<Value> = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let parent = json!({ "metadata": { "name": "web", "namespace": "shop" }, "spec": { "case": case } });
        let refused = panic::catch_unwind(|| testing::request::<Echo>(parent).call()).unwrap_err();
        let sentence = refused.downcast_ref::<String>().unwrap();
        assert_eq!(**sentence, case["refused"], "{}", case["description"]);
    }
}
