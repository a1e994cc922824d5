mod grants;

use serde_json::{Value, json};

use self::grants::grants_of;
use super::*;
use crate::contract::grant::{ChildGrant, SpecGrants, Withheld};
use crate::contract::reserved::HostNamespace;
use crate::contract::{ChildRef, Event, EventType, Keep, Until};
use crate::fixtures::{grants_with, parent_ref, pod, response, validate};
use crate::object::OwnerKey;
use crate::object::mark::MarkKey;

fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut child = pod("a");
    change(&mut child);
    child
}

fn refusal(children: &[Value]) -> String {
    validate(children).expect_err("refused").to_string()
}

fn text(child: &DesiredChild) -> String {
    Value::Object(serde_json::from_str(&json::Value::Object(child.body.clone()).to_string()).expect("JSON")).to_string()
}

#[test]
fn r04_every_child_gets_one_controller_reference_and_the_hosts_labels() {
    let desired = validate(&[pod("a")]).expect("valid");
    expect_test::expect![[r#"{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{"windlass.dev/applied":"1:f31bb7a0de8aa76318ab01c5d78056ff10a1b99a60091b6d54bbe2241332b2e9"},"labels":{"app":"x","windlass.dev/parent-uid":"uid-of-parent","windlass.dev/plugin":"echo"},"name":"a","namespace":"default","ownerReferences":[{"apiVersion":"my-operator.dev/v1","blockOwnerDeletion":true,"controller":true,"kind":"Echo","name":"hello","uid":"uid-of-parent"}]},"spec":{"containers":[{"image":"nginx:1","name":"nginx"}]}}"#]]
        .assert_eq(&text(&desired.children[0]));
}

#[test]
fn r04_a_retained_child_gets_labels_and_no_owner_reference() {
    let desired = validate(&[with(|pod| pod["metadata"]["annotations"] = json!({"windlass.dev/retain": "true"}))])
        .expect("valid");
    let child = &desired.children[0];
    assert_eq!(child.owner, None);
    let meta = child.body.get("metadata").expect("metadata");
    assert_eq!(meta.at(&["ownerReferences"]), None);
    assert_eq!(meta.at(&["annotations", "windlass.dev/retain"]), None, "options are stripped");
    let parent = meta.at(&["annotations", "windlass.dev/retained-for"]).and_then(json::Value::as_str);
    assert_eq!(parent, Some("echo/Echo.my-operator.dev/default/hello"));
}

#[test]
fn empty_fields_of_typed_builders_are_not_desired() {
    let child = with(|pod| {
        pod["metadata"]["creationTimestamp"] = json!(null);
        pod["metadata"]["finalizers"] = json!([]);
        pod["status"] = json!({});
    });
    assert_eq!(validate(&[child]).expect("valid").children, validate(&[pod("a")]).expect("valid").children);
}

#[test]
fn metadata_that_the_api_server_sets_is_ignored_in_a_returned_child() {
    let read = with(|pod| {
        for (field, value) in [
            ("creationTimestamp", json!("2026-01-01T00:00:00Z")),
            ("deletionGracePeriodSeconds", json!(30)),
            ("deletionTimestamp", json!("2026-01-01T00:00:00Z")),
            ("generation", json!(2)),
            ("managedFields", json!([{"manager": "x", "operation": "Apply"}])),
            ("resourceVersion", json!("7")),
            ("selfLink", json!("/api/v1/namespaces/default/pods/a")),
            ("uid", json!("uid-of-another")),
        ] {
            pod["metadata"][field] = value;
        }
    });
    assert_eq!(validate(&[read]).expect("valid").children, validate(&[pod("a")]).expect("valid").children);
}

#[test]
fn key_order_and_an_explicit_namespace_do_not_change_the_desired_child() {
    let spelled = br#"{"spec":{"containers":[{"image":"nginx:1","name":"nginx"}]},"kind":"Pod","metadata":{"labels":
        {"app":"x"},"namespace":"default","name":"a"},"apiVersion":"v1"}"#;
    let response = Response { children: vec![spelled.to_vec()], ..Response::default() };
    let grants = grants_with(&UpdateStrategy::Apply);
    let one = validate(&[pod("a")]).expect("valid");
    let other = super::validate(&response, &parent_ref(), &grants, &Limits::default()).expect("valid");
    assert_eq!(one.children, other.children);
}

#[test]
fn r10_children_are_in_install_order_and_within_a_kind_in_the_order_of_the_response() {
    let child = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    let response =
        [child("Pod", "z"), child("Pod", "a"), child("Service", "s"), child("ConfigMap", "c"), child("Pod", "m")];
    let desired = validate(&response).expect("valid");
    let names: Vec<_> = desired.children.iter().map(|child| &*child.key.name).collect();
    assert_eq!(names, ["c", "s", "z", "a", "m"]);
}

#[test]
fn u10_message_about_a_kind_without_grant_names_the_component_or_the_plugin_as_the_cause() {
    let secret = Gvk::from_api_version("v1", "Secret");
    let refused = |grants: &Grants| {
        let child = with(|pod| pod["kind"] = json!("Secret")).to_string().into_bytes();
        let response = Response { children: vec![child], ..Response::default() };
        super::validate(&response, &parent_ref(), grants, &Limits::default()).expect_err("refused").to_string()
    };
    let undeclared = grants_with(&UpdateStrategy::Apply);
    assert!(refused(&undeclared).contains("the component's descriptor does not declare"), "{}", refused(&undeclared));
    let withheld = undeclared.with_withheld(vec![(secret, Withheld::NotNamed)]);
    assert_eq!(refused(&withheld), "child \"a\" is of kind Secret.v1, which is not granted by spec.grants.children");
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table: one row for each refusal")]
fn response_with_a_forbidden_child_is_rejected_as_a_whole() {
    let metadata = |field: &str, value: Value| with(|pod| pod["metadata"][field] = value);
    for (child, expected) in [
        (
            with(|pod| pod["kind"] = json!("Secret")),
            "child \"a\" is of kind Secret.v1, which the component's descriptor does not declare: its author must add it to the \
             descriptor's `children`",
        ),
        (
            with(|pod| pod["apiVersion"] = json!("v2")),
            "child \"a\" is of kind Pod.v2, which the component's descriptor does not declare: its author must add it to the \
             descriptor's `children`",
        ),
        (
            with(|pod| pod["apiVersion"] = json!("/v1")),
            "child 1 is not a Kubernetes object: apiVersion \"/v1\" has no group before its slash",
        ),
        (
            metadata("namespace", json!("kube-system")),
            "Pod a is in namespace kube-system; it must be in default, the namespace of its parent",
        ),
        (
            with(|pod| pod["kind"] = json!("PersistentVolume")),
            "PersistentVolume a is cluster-scoped and cannot be the child of a namespaced parent",
        ),
        (
            metadata("ownerReferences", json!([{"uid": "x"}])),
            "Pod default/a sets metadata.ownerReferences, which plugins must not set",
        ),
        (metadata("finalizers", json!(["x/y"])), "Pod default/a sets metadata.finalizers, which plugins must not set"),
        (metadata("generateName", json!("a-")), "Pod default/a sets metadata.generateName, which plugins must not set"),
        (
            metadata("labels", json!({"windlass.dev/plugin": "other"})),
            "Pod default/a sets metadata.labels[windlass.dev/plugin], which plugins must not set",
        ),
        (
            metadata("annotations", json!({"windlass.dev/applied": "1:0"})),
            "Pod default/a sets metadata.annotations[windlass.dev/applied], which plugins must not set",
        ),
        (metadata("labels", json!({"a": 1})), "Pod default/a: metadata.labels[a] is not a string"),
        (
            metadata("name", json!("")),
            "child 1 is not a Kubernetes object: metadata.name \"\" is not a valid name: that of a Pod is a DNS subdomain \
             (RFC 1123)",
        ),
        (
            metadata("name", json!("../b")),
            "child 1 is not a Kubernetes object: metadata.name \"../b\" is not a valid name: that of a Pod is a DNS subdomain \
             (RFC 1123)",
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "a-"}}),
            "child 1 is not a Kubernetes object: metadata.generateName asks for another name at every reconcile; give the \
             child a metadata.name",
        ),
        (json!([]), "child 1 is not a Kubernetes object: a list instead of an object"),
        (
            json!({"apiVersion": "v1", "kind": "Pod"}),
            "child 1 is not a Kubernetes object: metadata is missing or not an object",
        ),
        (pod("good"), "Pod default/good is twice in the response"),
    ] {
        assert_eq!(refusal(&[pod("good"), child]), expected);
    }
}

#[test]
fn limits_on_children_events_and_json_depth_are_enforced() {
    let limits = Limits { children: 1, json_depth: 4, ..Limits::default() };
    let check = |children: &[Value]| {
        super::validate(&response(children), &parent_ref(), &grants_with(&UpdateStrategy::Apply), &limits)
            .expect_err("refused")
            .to_string()
    };
    assert_eq!(check(&[pod("a"), pod("b")]), "the response has 2 children, more than the limit of 1");
    let event = Event { event_type: EventType::Normal, reason: "Reported".to_owned(), message: String::new() };
    let two_events = Response { events: vec![event.clone(), event], ..Response::default() };
    let limits = &Limits { events: 1, ..limits.clone() };
    let refusal = super::validate(&two_events, &parent_ref(), &grants_with(&UpdateStrategy::Apply), limits);
    assert_eq!(refusal.expect_err("refused").to_string(), "the response has 2 events, more than the limit of 1");
    let deep = with(|pod| pod["spec"] = json!({"a": {"b": {"c": {}}}}));
    assert!(check(&[deep]).starts_with("child 0 is not valid JSON: nested too deeply"));
}

#[test]
fn memory_for_the_values_of_a_response_is_limited() {
    let limits = Limits { response_bytes: 1024, ..Limits::default() };
    let check = |children: &[Value]| {
        super::validate(&response(children), &parent_ref(), &grants_with(&UpdateStrategy::Apply), &limits)
    };
    assert!(check(&[pod("a"), pod("b"), pod("c")]).is_ok());
    let dense = |items: usize| with(|pod| pod["spec"] = json!(vec![json!([0]); items]));
    assert!(check(&[dense(20)]).is_ok());
    let refused = check(&[pod("a"), dense(200)]).expect_err("refused").to_string();
    assert!(refused.starts_with("child 1 is not valid JSON: values that take more memory"), "{refused}");
}

#[test]
fn number_of_status_conditions_is_limited() {
    let check = |count: usize| {
        let conditions: Vec<_> = (0..count).map(|index| json!({"type": format!("C{index}")})).collect();
        let status = Some(json!({ "conditions": conditions }).to_string().into_bytes());
        let response = Response { status, ..Response::default() };
        super::validate(&response, &parent_ref(), &grants_with(&UpdateStrategy::Apply), &Limits::default())
    };
    assert!(check(100).is_ok());
    let refused = check(101).expect_err("refused").to_string();
    assert_eq!(refused, "the response has 101 conditions, more than the limit of 100");
}

#[test]
fn name_is_checked_by_the_rule_of_the_childs_kind() {
    let named = |api_version: &str, kind: &str, name: &str| {
        let child = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
        let grants = grants_of(api_version, kind);
        super::validate(&response(&[child]), &parent_ref(), &grants, &Limits::default())
            .map(|desired| desired.children[0].key.to_string())
    };
    let role = named("rbac.authorization.k8s.io/v1", "Role", "app:reader");
    assert_eq!(role, Ok("default/app:reader".to_owned()));
    for (api_version, kind, name) in [
        ("v1", "ConfigMap", "app:reader"),
        ("v1", "Service", "a.b"),
        ("rbac.authorization.k8s.io/v1", "Role", "a/b"),
        ("rbac.authorization.k8s.io/v1", "Role", ".."),
        ("rbac.authorization.k8s.io/v1", "Role", "a%2fb"),
    ] {
        let refused = named(api_version, kind, name).expect_err(name).to_string();
        assert!(refused.contains("is not a valid name: that of a"), "{refused}");
    }
}

#[test]
fn job_with_a_time_to_live_expires() {
    let job = |spec: Value| {
        let body = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": spec});
        let grants = grants_of("batch/v1", "Job");
        let desired = super::validate(&response(&[body]), &parent_ref(), &grants, &Limits::default()).expect("valid");
        desired.children[0].expires()
    };
    assert!(job(json!({"ttlSecondsAfterFinished": 0})));
    assert!(!job(json!({"ttlSecondsAfterFinished": null})) && !job(json!({})));
    assert!(
        !validate(&[with(|pod| pod["spec"]["ttlSecondsAfterFinished"] = json!(1))]).expect("valid").children[0]
            .expires()
    );
}

#[test]
fn options_of_contract_0_2_are_those_of_the_annotations_of_0_1_which_it_rejects() {
    let of = |child: Value, options: Option<ChildOptions>| {
        let response = Response { options: options.map(|options| [options].into()), ..response(&[child]) };
        super::validate(&response, &parent_ref(), &grants_with(&UpdateStrategy::Apply), &Limits::default())
    };
    let annotated = |key: &str| with(|pod| pod["metadata"]["annotations"] = json!({key: "true"}));
    let (retain, take_over) = ("windlass.dev/retain", "windlass.dev/take-over");
    let retained = ChildOptions { retain: true, ..ChildOptions::default() };
    let taken = ChildOptions { take_over: true, ..ChildOptions::default() };
    for (annotation, options) in [(retain, retained), (take_over, taken)] {
        let (before, now) = (of(annotated(annotation), None), of(pod("a"), Some(options)));
        assert_eq!(before.expect("valid").children, now.expect("valid").children);
        let message = of(annotated(annotation), Some(ChildOptions::default())).expect_err("refused").to_string();
        assert!(message.contains("since contract 0.2 this is a field of the child"), "{message}");
    }
    let update = Some(UpdateStrategy::OnDelete);
    let child = of(pod("a"), Some(ChildOptions { update, ready: Some(false), stage: 3, ..ChildOptions::default() }));
    let child = &child.expect("valid").children[0];
    assert_eq!((&child.update, child.ready, child.stage), (&UpdateStrategy::OnDelete, Some(false), 3));
    let long = UpdateStrategy::Rolling { recreate: false, until: Until::Conditions(vec!["C".repeat(400)].into()) };
    let message =
        of(pod("a"), Some(ChildOptions { update: Some(long), ..ChildOptions::default() })).expect_err("refused");
    assert!(message.to_string().contains("is longer than 316 bytes"), "{message}");
    let two = Response { options: Some(vec![ChildOptions::default(); 2].into()), ..response(&[pod("a")]) };
    let message = super::validate(&two, &parent_ref(), &grants_with(&UpdateStrategy::Apply), &Limits::default());
    assert_eq!(message.expect_err("refused").to_string(), "the response has 1 children and options for 2");
}

#[test]
fn r08_kept_children_are_those_of_the_plugin_that_the_response_does_not_return() {
    let kept = |api_version: &str, kind: &str, namespace: Option<&str>, name: &str| ChildRef {
        kind: Gvk::from_api_version(api_version, kind),
        namespace: namespace.map(ToOwned::to_owned),
        name: name.to_owned(),
    };
    let of = |children: Vec<ChildRef>, finalized| {
        let response = Response { keep: Keep::These(children.into()), finalized, ..response(&[pod("a")]) };
        super::validate(&response, &parent_ref(), &grants_with(&UpdateStrategy::Apply), &Limits::default())
    };
    let desired =
        of(vec![kept("v1", "Pod", None, "b"), kept("v1", "ConfigMap", Some("default"), "a")], false).expect("valid");
    let Kept::These(these) = desired.kept else { panic!("{:?}", desired.kept) };
    let mut names: Vec<_> = these.iter().map(|(kind, key)| format!("{} {key}", kind.kind)).collect();
    names.sort();
    assert_eq!(names, ["ConfigMap default/a", "Pod default/b"]);
    let refused = |children, finalized| of(children, finalized).expect_err("refused").to_string();
    let both = refused(vec![kept("v1", "Pod", None, "a")], false);
    assert!(both.contains("returns Pod default/a and keeps it as it is"), "{both}");
    let foreign = refused(vec![kept("v1", "Secret", None, "a")], false);
    assert!(foreign.contains("the plugin may have no children of Secret.v1"), "{foreign}");
    let last = refused(Vec::new(), true);
    assert!(last.contains("the clean-up is complete"), "{last}");
}

#[test]
fn child_that_replaces_a_kept_one_is_rejected() {
    let old = ChildRef { kind: Gvk::from_api_version("v1", "Pod"), namespace: None, name: "old".to_owned() };
    let options = ChildOptions { replaces: Some(old.clone()), ..ChildOptions::default() };
    for (keep, is_rejected) in [(Keep::All, true), (Keep::These([old].into()), true), (Keep::None, false)] {
        let response = Response { options: Some([options.clone()].into()), keep, ..response(&[pod("a")]) };
        let result =
            super::validate(&response, &parent_ref(), &grants_with(&UpdateStrategy::Apply), &Limits::default());
        assert_eq!(result.is_err_and(|error| error.to_string().contains("replaces a child that")), is_rejected);
    }
}

/// The refusal of children that are created once, each with these other options.
fn refused_once(count: usize, others: &ChildOptions) -> Option<String> {
    let options = ChildOptions { once: Some("1".to_owned()), ..others.clone() };
    let pods: Vec<_> = (0..count).map(|at| pod(&format!("a-{at}"))).collect();
    let response = Response { options: Some(vec![options; count].into()), ..response(&pods) };
    let grants = grants_with(&UpdateStrategy::Apply);
    super::validate(&response, &parent_ref(), &grants, &Limits::default()).err().map(|refusal| refusal.to_string())
}

#[test]
fn r25_child_that_is_created_once_cannot_be_retained() {
    let retained = ChildOptions { retain: true, ..ChildOptions::default() };
    let refusal = refused_once(1, &retained).expect("refused");
    assert!(refusal.contains("retained and created once"), "{refusal}");
}

#[test]
fn r25_children_that_are_created_once_are_as_many_as_a_parent_can_note() {
    assert_eq!(refused_once(100, &ChildOptions::default()), None);
    let refusal = refused_once(101, &ChildOptions::default()).expect("refused");
    assert!(refusal.contains("101 children that are created once, more than the limit of 100"), "{refusal}");
}
