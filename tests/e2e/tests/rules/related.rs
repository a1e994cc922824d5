//! Objects that an answer depends on without owning them.

use serde_json::{Value, json};
use windlass_e2e::{Namespace, SOON, condition, wait};

use crate::scripts::{config_map, needs, secret};
use crate::{alone, asked, barrier, guest, names, puppets};

/// Applies an object of the test's own.
fn give(ns: &Namespace, mut object: Value, labels: &Value) {
    object["metadata"]["namespace"] = ns.name().into();
    object["metadata"]["labels"] = labels.clone();
    ns.env().apply(&object.to_string());
}

/// What the plugin saw of one requirement.
fn saw(puppet: &Value, id: &str) -> Value {
    puppet["status"]["related"][id].clone()
}

#[test]
fn related_by_name_is_followed_from_missing_to_made_changed_and_deleted() {
    let ns = puppets("by-name");
    let puppet = ns.puppet("web");
    puppet.play(&json!({ "requirements": [needs("in", "input")], "status": "reflect" }));
    puppet.wait(|puppet| saw(puppet, "in") == json!({ "names": [], "values": [] }));
    let name = format!("{}/input", ns.name());
    for value in ["one", "two"] {
        give(&ns, config_map("input", value), &Value::Null);
        puppet.wait(|puppet| saw(puppet, "in") == json!({ "names": [name], "values": [value] }));
    }
    ns.kubectl(&["delete", "configmap", "input"]);
    puppet.wait(|puppet| saw(puppet, "in") == json!({ "names": [], "values": [] }));
}

#[test]
fn related_by_labels_are_all_that_match_and_no_longer_when_they_do_not() {
    let ns = puppets("by-labels");
    let puppet = ns.puppet("web");
    let wanted = json!({ "id": "in", "apiVersion": "v1", "kind": "ConfigMap", "labels": "role=input,!old" });
    puppet.play(&json!({ "requirements": [wanted], "status": "reflect" }));
    let wait_saw = |values: &[&str]| {
        puppet.wait(|puppet| saw(puppet, "in")["values"] == json!(values));
    };
    for (name, value) in [("b", "2"), ("a", "1")] {
        give(&ns, config_map(name, value), &json!({ "role": "input" }));
    }
    give(&ns, config_map("other", "3"), &json!({ "role": "output" }));
    wait_saw(&["1", "2"]);
    ns.kubectl(&["label", "configmap", "a", "old=yes"]);
    wait_saw(&["2"]);
    ns.kubectl(&["label", "configmap", "other", "role=input", "--overwrite"]);
    wait_saw(&["2", "3"]);
    ns.kubectl(&["delete", "configmap", "b"]);
    wait_saw(&["3"]);
}

#[test]
fn related_objects_cost_one_call_at_rest_and_none_when_others_change() {
    let ns = puppets("one-call");
    give(&ns, config_map("input", "1"), &Value::Null);
    let puppet = ns.puppet("web");
    puppet.play(&json!({ "requirements": [needs("in", "input")], "status": "reflect" }));
    puppet.wait(|puppet| saw(puppet, "in")["values"] == json!(["1"]));
    barrier(&ns, "settled");
    let calls = puppet.calls();
    puppet.kubectl("annotate", &["touched=yes"]);
    wait("a call", SOON, || (puppet.calls() > calls).then_some(()));
    give(&ns, config_map("unrelated", "1"), &Value::Null);
    barrier(&ns, "after");
    assert_eq!(puppet.calls(), calls + 1, "the last final list is where it starts");
}

#[test]
fn related_is_asked_for_in_rounds_and_nothing_is_applied_before_the_last() {
    let ns = puppets("rounds");
    for (name, value) in [("first", "1"), ("second", "2"), ("third", "3")] {
        give(&ns, config_map(name, value), &Value::Null);
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
        assert_eq!(related, 3, "no half-asked answer is ever written: {sent:#}");
    }
    assert_eq!(asked(&ns, mark, "configmaps").len(), 1);
}

#[test]
fn related_that_is_never_settled_ends_after_five_rounds_with_nothing_applied() {
    let ns = puppets("never");
    let puppet = ns.puppet("web");
    let mark = ns.env().mark();
    puppet.apply(&json!({ "children": [config_map("child", "1")], "neverSettle": true }));
    let ready = puppet.wait_reason("RequirementsUnsettled");
    assert_eq!(ready.status, "False");
    assert_eq!((asked(&ns, mark, "configmaps").to_vec(), names(&ns, "configmaps")), (vec![], vec![]));
    puppet.play(&json!({ "children": [config_map("child", "1")] }));
}

#[test]
fn related_without_an_apiversion_that_was_declared_is_refused_by_name() {
    let ns = puppets("undeclared");
    let puppet = ns.puppet("web");
    let wanted = json!({ "id": "in", "apiVersion": "v1", "kind": "Node", "labels": "" });
    puppet.apply(&json!({ "requirements": [wanted], "children": [config_map("child", "1")] }));
    let refused =
        puppet.wait(|puppet| ["ResponseRejected", "ReadForbidden"].contains(&&*condition(puppet, "Ready").reason));
    assert!(condition(&refused, "Ready").message.contains("Node"), "{refused:#}");
    assert_eq!(names(&ns, "configmaps"), [""; 0]);
}

#[test]
fn related_secret_of_another_namespace_is_never_delivered() {
    let ns = puppets("neighbour");
    let other = ns.env().namespace("treasure");
    give(&other, secret("treasure", "gold"), &Value::Null);
    let puppet = ns.puppet("web");
    for select in [json!({ "name": "treasure" }), json!({ "labels": "" })] {
        let mut wanted = json!({ "id": "in", "apiVersion": "v1", "kind": "Secret", "namespace": other.name() });
        wanted.as_object_mut().expect("an object").extend(select.as_object().expect("an object").clone());
        puppet.apply(&json!({ "requirements": [wanted], "status": "reflect" }));
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
fn related_of_another_namespace_is_delivered_where_the_plugin_names_kind_and_namespace() {
    let alone = alone();
    let ns = alone.env.namespace("reader");
    let (open, closed) = (alone.env.namespace("open"), alone.env.namespace("closed"));
    for ns in [&open, &closed] {
        give(ns, config_map("input", "gold"), &Value::Null);
    }
    let related = json!([
        { "apiVersion": "v1", "kind": "ConfigMap", "namespaces": [open.name()] },
        { "apiVersion": "v1", "kind": "Namespace" },
    ]);
    alone.env.patch_plugin("puppet", &json!({ "grants": { "related": related } }));
    // The rights to what it grants now.
    alone.env.push(&guest("puppet"), "puppet", &[]);
    let input = |ns: &Namespace| {
        let mut wanted = needs("in", "input");
        wanted["namespace"] = ns.name().into();
        wanted
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
fn related_that_the_plugins_account_may_not_read_is_a_failure_and_never_none() {
    let alone = alone();
    let ns = alone.env.namespace("denied");
    give(&ns, secret("input", "gold"), &Value::Null);
    // An account of the test's, which may write what the plugin owns and read nothing.
    let account = "windlass-plugin-pauper";
    let write = json!([{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "patch", "delete", "get", "list", "watch"] }]);
    for object in rights(account, &write) {
        alone.env.apply(&object.to_string());
    }
    alone.env.patch_plugin("puppet", &json!({ "serviceAccountName": account }));
    let wanted = json!({ "id": "in", "apiVersion": "v1", "kind": "Secret", "name": "input" });
    let puppet = ns.puppet("web");
    puppet.apply(&json!({ "requirements": [wanted], "status": "reflect", "children": [config_map("child", "1")] }));
    let ready = puppet.wait_reason("ReadForbidden");
    assert!(ready.message.contains("Secret") && ready.message.contains(account), "{ready:?}");
    assert!(puppet.get().expect("there")["status"]["related"].is_null());
    assert_eq!(names(&ns, "configmaps"), [""; 0], "nothing is applied");

    let all = json!([{ "apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["*"] }]);
    for object in rights(account, &all) {
        alone.env.apply(&object.to_string());
    }
    puppet.wait(|puppet| saw(puppet, "in")["values"] == json!(["Z29sZA=="]));
    puppet.wait_done();
}

/// A `ServiceAccount` of the host's namespace with these rights everywhere.
fn rights(account: &str, rules: &Value) -> [Value; 3] {
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
