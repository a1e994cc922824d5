//! Components of contract 0.2, beside those of 0.1.

use std::num::NonZero;

use serde_json::json;
use windlass_core::contract::offer::Offer;
use windlass_core::contract::{
    CallFailure, ChildOptions, ChildRef, Failure, FinalizeCause, Keep, LeftOut, LoadFailure, Namespaces, Observed,
    Phase, PluginResult, Request, Requirement, Response, Selection, Until, UpdateStrategy,
};
use windlass_core::object::child::ChildId;
use windlass_core::value::ids::{Gvk, ObjectKey};
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
fn r12_component_of_0_2_is_not_called_to_sync_with_a_parent_that_does_not_fit_its_schema() {
    let echo = load(&component("echo"));
    let parent = |spec: &str| {
        format!(
            r#"{{"apiVersion":"my-operator.dev/v1","kind":"Echo","metadata":{{"name":"a","uid":"u"}},"spec":{spec}}}"#
        )
    };
    let call = |spec: &str, phase| {
        let request = Request { phase, ..request(parent(spec).as_bytes()) };
        let (result, report) = run_here(echo.reconcile(&request, &limits(), Ambient::now([7; 32])));
        (result.unwrap(), report.guest_time_us > 0)
    };
    let (refused, was_called) = call(r#"{"replicas": 1001, "image": " "}"#, Phase::Sync);
    let problems =
        r#"spec.image: " " is not a text without whitespace; spec.replicas: 1001 is more than the maximum 1000"#;
    assert_eq!((refused, was_called), (Err(Failure::Invalid(problems.to_owned())), false));
    let (finalized, was_called) = call(r#"{"replicas": 1001, "image": " "}"#, Phase::Finalize);
    assert_eq!((finalized.unwrap().children.len(), was_called), (1001, true));
    // A component of 0.1 is called as ever: it checks by itself.
    let former = crate::languages::sandbox().load(&crate::frozen::echo("rust")).unwrap();
    let result = run_here(former.reconcile(
        &request(parent(r#"{"replicas": 1001, "image": "a"}"#).as_bytes()),
        &limits(),
        Ambient::now([7; 32]),
    ));
    assert!(result.1.guest_time_us > 0 && matches!(result.0, Ok(Err(Failure::Invalid(_)))), "{result:?}");
}

#[test]
fn r12_component_of_0_2_gets_the_defaults_of_its_schema() {
    let myapp = load(&component("myapp"));
    let parent = |spec: &str| {
        format!(r#"{{"apiVersion":"example.com/v1","kind":"MyApp","metadata":{{"name":"a","uid":"u"}},"spec":{spec}}}"#)
    };
    let called = |spec: &str| call(&myapp, parent(spec).as_bytes()).unwrap().unwrap();
    let whole =
        r#"{"image": "a", "replicas": 1, "port": 8080, "env": [], "resources": {"cpu": "100m", "memory": "128Mi"}}"#;
    assert_eq!(called(r#"{"image": "a", "port": null}"#), called(whole));
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
        namespaces: Namespaces::Named(vec!["default".to_owned()]),
        select: Selection::Name("settings".to_owned()),
        metadata_only: false,
    };
    let child = br#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"web"},"stringData":{"of":"Echo"}}"#.to_vec();
    let expected = Response {
        children: vec![child],
        options: Some([ChildOptions::default()].into()),
        status: Some(b"[]".to_vec()),
        requeue: Some(5000),
        requirements: vec![requirement],
        ..Response::default()
    };
    assert_eq!(response, expected);
    let failure = call(&newest, &parent("failure")).unwrap().unwrap_err();
    assert_eq!(failure, Failure::Invalid("data.size: must be a number".to_owned()));
}

#[test]
fn options_of_a_child_arrive_as_the_guest_returns_them() {
    let newest = load(&component("contract/newest"));
    let none = ChildOptions::default;
    for (asks, expected) in [
        ("stage", ChildOptions { stage: 1, ..none() }),
        ("retain", ChildOptions { retain: true, ..none() }),
        ("take-over", ChildOptions { take_over: true, ..none() }),
        ("ready", ChildOptions { ready: Some(true), ..none() }),
        ("update", ChildOptions { update: Some(UpdateStrategy::Recreate), ..none() }),
        ("replaces", {
            let kind = Gvk::from_api_version("v1", "Secret");
            ChildOptions { replaces: Some(ChildRef { kind, namespace: None, name: "old".to_owned() }), ..none() }
        }),
        ("rolling", {
            let update = UpdateStrategy::Rolling { recreate: true, until: Until::Ready };
            ChildOptions { update: Some(update), ..none() }
        }),
    ] {
        let response = call(&newest, &parent(asks)).unwrap().unwrap();
        assert_eq!(response.options, Some([expected].into()), "{asks}");
    }
}

#[test]
fn guest_is_told_how_far_each_child_is() {
    let child = |api_version: &str, kind: &str, status: serde_json::Value| {
        let object = json!({"metadata": {"name": "web"}, "status": status}).to_string().into_bytes().into();
        let kind = Gvk::from_api_version(api_version, kind);
        Observed { kind, namespace: Some("default".into()), name: "web".into(), deleting: false, object }
    };
    let failed = json!({"conditions": [{"type": "Failed", "status": "True", "message": "no luck"}]});
    let children = vec![
        child("v1", "Secret", json!({})),
        child("batch/v1", "Job", json!({})),
        child("batch/v1", "Job", failed),
        child("example.com/v1", "Own", json!({})),
    ];
    let newest = load(&component("contract/newest"));
    let request = Request { children, ..request(&parent("")) };
    let response = run_here(newest.reconcile(&request, &limits(), Ambient::now([7; 32]))).0.unwrap().unwrap();
    let told = String::from_utf8(response.status.unwrap()).unwrap();
    assert_eq!(told, r#"["ready","progressing: it has not ended yet","failed: no luck","unknown"]"#);
}

#[test]
fn guest_is_told_what_was_left_out_why_it_finalizes_and_that_no_request_was_sent() {
    let newest = load(&component("contract/newest"));
    let asking = call(&newest, &parent("http")).unwrap().unwrap();
    assert_eq!(*asking.http, ["zones"]);
    let kind = Gvk::from_api_version("apps/v1", "Deployment").into();
    let child = ChildId { kind, key: ObjectKey::new(Some("default"), "big") };
    let request = Request {
        phase: Phase::Finalize,
        left_out: vec![LeftOut { child, size: 12 }],
        unsent: asking.http,
        offer: Offer {
            kinds: vec![Gvk::from_api_version("monitoring.example/v1", "Monitor")],
            closed_namespaces: vec!["windlass-system".into()],
        }
        .into(),
        cause: FinalizeCause::LeftNamespaces,
        namespace_terminating: true,
        ..request(&parent(""))
    };
    let response = run_here(newest.reconcile(&request, &limits(), Ambient::now([7; 32]))).0.unwrap().unwrap();
    let told: Vec<String> = serde_json::from_slice(&response.status.unwrap()).unwrap();
    let expected = [
        "left out: Deployment big, 12 bytes",
        "zones: not granted, this host does not send requests to other systems yet",
        "FinalizeCause::LeftNamespaces, true",
        "closed: windlass-system",
        "kind: Monitor of monitoring.example/v1",
    ];
    assert_eq!(told, expected);
}

#[test]
fn what_is_kept_waited_for_and_selected_arrives_as_the_guest_returns_it() {
    let newest = load(&component("contract/newest"));
    let response = |asks: &str| call(&newest, &parent(asks)).unwrap().unwrap();
    let secret = ChildRef { kind: Gvk::from_api_version("v1", "Secret"), namespace: None, name: "old".to_owned() };
    assert_eq!(response("keep").keep, Keep::All);
    assert_eq!(response("keep-these").keep, Keep::These([secret].into()));
    assert_eq!(response("requeue-at").requeue_at, NonZero::new(1));
    assert_eq!(response("once").options.expect("options")[0].once.as_deref(), Some("first"));
    assert_eq!(response("waiting").waiting.as_deref(), Some("a person"));
    let two = ["a", "b"].map(str::to_owned).to_vec();
    assert_eq!(response("two").requirements[0].namespaces, Namespaces::Named(two));
    assert_eq!(response("all").requirements[0].namespaces, Namespaces::All);
    assert!(response("metadata-only").requirements[0].metadata_only);
    assert_eq!(response("label-selector").requirements[0].select, Selection::Labels("app in (web)".to_owned()));
    let CallFailure::Malformed(message) = call(&newest, &parent("no-selector")).unwrap_err() else { panic!() };
    assert!(message.contains("\"settings\" has a label-selector that is not a LabelSelector"), "{message}");
}

#[test]
fn guest_asks_for_times_of_a_schedule_and_is_told_what_is_wrong_in_it() {
    let newest = load(&component("contract/newest"));
    let told = |asks: &str| -> Vec<String> {
        serde_json::from_slice(&call(&newest, &parent(asks)).unwrap().unwrap().status.unwrap()).unwrap()
    };
    // 2026-03-29T00:30:00Z: half an hour later, the clocks of Berlin skip 02:30.
    assert_eq!(told("30 2 * * *; Europe/Berlin; 1774744200000"), ["1774746000000", "Some(1774661400000)"]);
    let wrong = told("30 25 * * *; Europe/Berlin; 0");
    assert!(wrong[0].starts_with("Problem::Schedule(\"hour ") && wrong[1] == "None", "{wrong:?}");
    assert!(told("30 2 * * *; Berlin; 0")[0].starts_with("Problem::TimeZone("));
}

#[test]
fn component_of_both_contracts_is_called_by_the_newer() {
    let both = load(&component("contract/both"));
    assert_eq!(&*both.surface().contract, CANDIDATE);
    assert_eq!(both.descriptor().version, "0.2.0");
    let parent = br#"{"metadata":{"name":"web"},"spec":{"replicas":2,"image":"nginx:1"}}"#;
    let [new, old] = [&both, &load(&component("contract/older"))].map(|one| call(one, parent).unwrap().unwrap());
    assert_eq!(new.children, old.children);
    assert_eq!((new.options.map(|all| all.len()), old.options), (Some(2), None), "by 0.2 and by 0.1");
}

#[test]
fn component_of_another_candidate_is_refused_with_what_to_do() {
    let mut bytes = component("contract/newest");
    let (this, another) = (b"@0.2.0-rc.1", b"@0.2.0-rc.9");
    let places: Vec<_> =
        bytes.windows(this.len()).enumerate().filter(|(_, found)| found == this).map(|(at, _)| at).collect();
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
