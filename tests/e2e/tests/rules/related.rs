//! Related objects: a response depends on them without owning them.

use serde_json::{Value, json};
use windlass_e2e::{Namespace, TIMEOUT, condition, wait};

use crate::scripts::{config_map, needs, secret};
use crate::{alone, barrier, guest, names, puppets, write_attempts};

/// Applies an object as a user.
fn apply_input(ns: &Namespace, mut object: Value, labels: &Value) {
    object["metadata"]["namespace"] = ns.name().into();
    object["metadata"]["labels"] = labels.clone();
    ns.env().apply(&object.to_string());
}

/// The related objects that the plugin saw for one requirement.
fn saw(puppet: &Value, id: &str) -> Value {
    puppet["status"]["related"][id].clone()
}

#[test]
fn related_object_by_name_is_followed_through_creation_change_and_deletion() {
    let ns = puppets("by-name");
    let puppet = ns.puppet("web");
    puppet.play(&json!({ "requirements": [needs("in", "input")], "status": "reflect" }));
    puppet.wait(|puppet| saw(puppet, "in") == json!({ "names": [], "values": [] }));
    let name = format!("{}/input", ns.name());
    for value in ["one", "two"] {
        apply_input(&ns, config_map("input", value), &Value::Null);
        puppet.wait(|puppet| saw(puppet, "in") == json!({ "names": [name], "values": [value] }));
    }
    ns.kubectl(&["delete", "configmap", "input"]);
    puppet.wait(|puppet| saw(puppet, "in") == json!({ "names": [], "values": [] }));
}

#[test]
fn related_objects_by_labels_are_exactly_those_that_match() {
    let ns = puppets("by-labels");
    let puppet = ns.puppet("web");
    let requirement = json!({ "id": "in", "apiVersion": "v1", "kind": "ConfigMap", "labels": "role=input,!old" });
    puppet.play(&json!({ "requirements": [requirement], "status": "reflect" }));
    let wait_saw = |values: &[&str]| {
        puppet.wait(|puppet| saw(puppet, "in")["values"] == json!(values));
    };
    for (name, value) in [("b", "2"), ("a", "1")] {
        apply_input(&ns, config_map(name, value), &json!({ "role": "input" }));
    }
    apply_input(&ns, config_map("other", "3"), &json!({ "role": "output" }));
    wait_saw(&["1", "2"]);
    ns.kubectl(&["label", "configmap", "a", "old=yes"]);
    wait_saw(&["2"]);
    ns.kubectl(&["label", "configmap", "other", "role=input", "--overwrite"]);
    wait_saw(&["2", "3"]);
    ns.kubectl(&["delete", "configmap", "b"]);
    wait_saw(&["3"]);
}

#[test]
fn related_objects_that_are_larger_than_a_request_are_not_served_until_the_plugin_requires_fewer() {
    let ns = puppets("too-large");
    let mut large = config_map("large", "1");
    large["data"]["padding"] = "x".repeat(900_000).into();
    apply_input(&ns, large, &json!({ "role": "input" }));
    let requirement = |id: usize| json!({ "id": format!("in-{id}"), "apiVersion": "v1", "kind": "ConfigMap", "labels": "role=input" });
    let script =
        |count: usize| json!({ "requirements": (0..count).map(requirement).collect::<Vec<_>>(), "status": "reflect" });
    let puppet = ns.puppet("web");
    // One object, that many times. The first reconcile may already find it.
    puppet.apply(&script(8));
    puppet.wait_reason("LimitExceeded");
    let ready = condition(&puppet.get().expect("the parent"), "Ready").message;
    assert!(ready.contains("larger than 4194304 bytes") && ready.contains("raise spec.limits.requestBytes"), "{ready}");
    puppet.apply(&script(2));
    puppet.wait(|puppet| saw(puppet, "in-1")["values"] == json!(["1"]));
}

#[test]
fn related_objects_cost_one_call_per_reconcile_and_none_when_unrelated_objects_change() {
    let ns = puppets("one-call");
    apply_input(&ns, config_map("input", "1"), &Value::Null);
    let puppet = ns.puppet("web");
    puppet.play(&json!({ "requirements": [needs("in", "input")], "status": "reflect" }));
    puppet.wait(|puppet| saw(puppet, "in")["values"] == json!(["1"]));
    barrier(&ns, "settled");
    let calls = puppet.calls();
    puppet.kubectl("annotate", &["touched=yes"]);
    wait("a call", TIMEOUT, || (puppet.calls() > calls).then_some(()));
    apply_input(&ns, config_map("unrelated", "1"), &Value::Null);
    barrier(&ns, "after");
    assert_eq!(puppet.calls(), calls + 1, "the call starts with the requirements of the last response");
}

#[test]
fn related_objects_are_required_in_rounds_and_nothing_is_applied_before_the_last_one() {
    let ns = puppets("rounds");
    for (name, value) in [("first", "1"), ("second", "2"), ("third", "3")] {
        apply_input(&ns, config_map(name, value), &Value::Null);
    }
    let puppet = ns.puppet("web");
    let mark = ns.env().mark();
    puppet.play(&json!({
        "children": [config_map("child", "1")],
        "status": "reflect",
        "requirementRounds": [[needs("1", "first")], [needs("2", "second")], [needs("3", "third")]],
    }));
    puppet.wait(|puppet| ["1", "2", "3"].iter().all(|id| saw(puppet, id)["values"] == json!([id])));
    let statuses = ns.env().host_writes(mark).namespace(ns.name()).resource("puppets");
    for sent in statuses.iter().filter_map(|event| event.request_object.as_ref()) {
        let related = sent["status"]["related"].as_object().map_or(0, serde_json::Map::len);
        assert_eq!(related, 3, "no status of an earlier round is written: {sent:#}");
    }
    assert_eq!(write_attempts(&ns, mark, "configmaps").len(), 1);
}

#[test]
fn related_requirements_that_never_settle_fail_after_five_calls_with_nothing_applied() {
    let ns = puppets("never");
    let puppet = ns.puppet("web");
    let mark = ns.env().mark();
    puppet.apply(&json!({ "children": [config_map("child", "1")], "neverSettle": true }));
    let ready = puppet.wait_reason("RequirementsUnsettled");
    assert_eq!(ready.status, "False");
    assert_eq!((write_attempts(&ns, mark, "configmaps").to_vec(), names(&ns, "configmaps")), (vec![], vec![]));
    puppet.play(&json!({ "children": [config_map("child", "1")] }));
}

#[test]
fn related_kind_that_the_component_does_not_declare_is_rejected_and_named() {
    let ns = puppets("undeclared");
    let puppet = ns.puppet("web");
    let requirement = json!({ "id": "in", "apiVersion": "v1", "kind": "Node", "labels": "" });
    puppet.apply(&json!({ "requirements": [requirement], "children": [config_map("child", "1")] }));
    let refused =
        puppet.wait(|puppet| ["ResponseRejected", "ReadForbidden"].contains(&&*condition(puppet, "Ready").reason));
    assert!(condition(&refused, "Ready").message.contains("Node"), "{refused:#}");
    assert_eq!(names(&ns, "configmaps"), [""; 0]);
}

#[test]
fn related_secret_of_another_namespace_is_never_delivered() {
    let ns = puppets("neighbour");
    let other = ns.env().namespace("treasure");
    apply_input(&other, secret("treasure", "gold"), &Value::Null);
    let puppet = ns.puppet("web");
    for select in [json!({ "name": "treasure" }), json!({ "labels": "" })] {
        let mut requirement = json!({ "id": "in", "apiVersion": "v1", "kind": "Secret", "namespace": other.name() });
        requirement.as_object_mut().expect("an object").extend(select.as_object().expect("an object").clone());
        puppet.apply(&json!({ "requirements": [requirement], "status": "reflect" }));
        let generation = puppet.get().expect("there")["metadata"]["generation"].as_i64();
        let refused = puppet.wait(|puppet| {
            let ready = condition(puppet, "Ready");
            ready.is_false("ReadForbidden") && ready.observed_generation == generation
        });
        assert!(!refused["status"].to_string().contains("Z29sZA"), "{refused:#}");
        assert!(condition(&refused, "Ready").message.contains(other.name()), "{refused:#}");
    }
}

#[test]
fn related_object_of_another_namespace_is_delivered_if_the_plugin_grants_kind_and_namespace() {
    let alone = alone();
    let ns = alone.env.namespace("reader");
    let (open, closed) = (alone.env.namespace("open"), alone.env.namespace("closed"));
    for ns in [&open, &closed] {
        apply_input(ns, config_map("input", "gold"), &Value::Null);
    }
    let related = json!([
        { "apiVersion": "v1", "kind": "ConfigMap", "namespaces": [open.name()] },
        { "apiVersion": "v1", "kind": "Namespace" },
    ]);
    alone.env.patch_plugin("puppet", &json!({ "grants": { "related": related } }));
    // Pushing again writes the permissions for the new grants.
    alone.env.push(&guest("puppet"), "puppet", &[]);
    let input = |ns: &Namespace| {
        let mut requirement = needs("in", "input");
        requirement["namespace"] = ns.name().into();
        requirement
    };
    let puppet = ns.puppet("web");
    let namespace = json!({ "id": "ns", "apiVersion": "v1", "kind": "Namespace", "name": ns.name() });
    puppet.apply(&json!({ "requirements": [input(&open), namespace], "status": "reflect" }));
    puppet.wait(|puppet| {
        saw(puppet, "in")["values"] == json!(["gold"]) && saw(puppet, "ns")["names"] == json!([ns.name()])
    });
    puppet.apply(&json!({ "requirements": [input(&closed)] }));
    let ready = puppet.wait_reason("ReadForbidden");
    assert!(ready.message.contains(closed.name()), "{ready:?}");
}

#[test]
fn related_object_that_the_plugins_account_may_not_read_is_a_failure_and_not_an_empty_list() {
    let alone = alone();
    let ns = alone.env.namespace("denied");
    apply_input(&ns, secret("input", "gold"), &Value::Null);
    // A ServiceAccount that may write the plugin's children and may not read Secrets.
    let account = "windlass-plugin-pauper";
    let write = json!([{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "patch", "delete", "get", "list", "watch"] }]);
    for object in permissions(account, &write) {
        alone.env.apply(&object.to_string());
    }
    alone.env.patch_plugin("puppet", &json!({ "serviceAccountName": account }));
    let requirement = json!({ "id": "in", "apiVersion": "v1", "kind": "Secret", "name": "input" });
    let puppet = ns.puppet("web");
    puppet
        .apply(&json!({ "requirements": [requirement], "status": "reflect", "children": [config_map("child", "1")] }));
    let ready = puppet.wait_reason("ReadForbidden");
    assert!(ready.message.contains("Secret") && ready.message.contains(account), "{ready:?}");
    assert!(puppet.get().expect("there")["status"]["related"].is_null());
    assert_eq!(names(&ns, "configmaps"), [""; 0], "no child is applied");

    let all = json!([{ "apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["*"] }]);
    for object in permissions(account, &all) {
        alone.env.apply(&object.to_string());
    }
    puppet.wait(|puppet| saw(puppet, "in")["values"] == json!(["Z29sZA=="]));
    puppet.wait_done();
}

/// A `ServiceAccount` in the host's namespace with these permissions in all namespaces.
fn permissions(account: &str, rules: &Value) -> [Value; 3] {
    let group = "rbac.authorization.k8s.io";
    let subject = json!({ "kind": "ServiceAccount", "name": account, "namespace": windlass_e2e::SYSTEM_NAMESPACE });
    [
        json!({ "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": { "name": account, "namespace": windlass_e2e::SYSTEM_NAMESPACE } }),
        json!({ "apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": { "name": account }, "rules": rules }),
        json!({ "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": { "name": account },
            "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": account }, "subjects": [subject] }),
    ]
}
