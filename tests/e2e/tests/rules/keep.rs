//! A response keeps children as they are, waits with children and status, and replaces one child by another (R8, R13, R10).

use serde_json::{Value, json};
use windlass_e2e::{condition, text};

use crate::scripts::{config_map, service};
use crate::stage;

fn value(child: &Value) -> String {
    text(child, "/data/value")
}

#[test]
fn r08_kept_children_stay_as_users_left_them_and_go_once_they_are_no_longer_kept() {
    let ns = stage().with("puppet-staged").namespace("keep");
    let puppet = ns.puppet_of("StagedPuppet", "web");
    let maps = ["a", "b", "c"].map(|name| config_map(name, "1"));
    puppet.play(&json!({ "children": maps }));
    let edit = json!({ "data": { "value": "edited" } }).to_string();
    ns.kubectl(&["patch", "configmaps", "b", "--type=merge", "-p", &edit]);
    ns.env().wait_object("configmaps", ns.name(), "b", |map| value(map) == "1");
    let kept = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "b" }]);
    puppet.play(&json!({ "children": [maps[0]], "keep": kept }));
    assert_eq!(ns.get("configmaps", "c"), None, "neither returned nor kept");
    ns.kubectl(&["patch", "configmaps", "b", "--type=merge", "-p", &edit]);
    puppet.play(&json!({ "children": [], "keep": "all" }));
    for (name, expected) in [("a", "1"), ("b", "edited")] {
        assert_eq!(value(&ns.get("configmaps", name).expect("it is kept")), expected, "{name}");
    }
    puppet.play(&json!({ "children": [maps[0]] }));
    assert_eq!(ns.get("configmaps", "b"), None);
}

#[test]
fn r13_plugin_waits_with_its_children_and_its_status() {
    let ns = stage().with("puppet-staged").namespace("waiting");
    let puppet = ns.puppet_of("StagedPuppet", "web");
    let spec = |waiting: Option<&str>| json!({ "children": [config_map("a", "1")], "status": { "phase": "Approval" }, "waiting": waiting });
    puppet.apply(&spec(Some("Waiting until a person approves")));
    let waits = puppet.wait_reason("Waiting");
    assert_eq!(waits.message, "Waiting until a person approves");
    let parent = puppet.get().expect("the parent");
    assert_eq!(text(&parent, "/status/phase"), "Approval");
    assert!(condition(&parent, "Reconciling").is_true() && ns.get("configmaps", "a").is_some(), "{parent:#}");
    puppet.play(&spec(None));
}

#[test]
fn r10_service_with_the_node_port_of_another_that_it_replaces_is_created_without_a_hand() {
    let ns = stage().with("puppet-staged").namespace("renamed");
    let puppet = ns.puppet_of("StagedPuppet", "web");
    let named = |name: &str, replaces: Option<&str>| {
        let mut service = service(name, 80);
        service["spec"]["type"] = json!("NodePort");
        service["spec"]["ports"][0]["nodePort"] = json!(30_777);
        service["options"] = json!({ "replaces": replaces });
        json!({ "children": [service] })
    };
    puppet.play(&named("before", None));
    // The API server refuses it in the place of the other one as well, which therefore stays.
    let mut invalid = named("after", Some("before"));
    invalid["children"][0]["spec"]["sessionAffinity"] = json!("Sometimes");
    puppet.apply(&invalid);
    let refused = puppet.wait_reason("ChildRejected");
    assert!(refused.message.contains("sessionAffinity"), "{}", refused.message);
    assert!(ns.get("services", "before").is_some());
    let mark = ns.env().mark();
    puppet.play(&named("after", Some("before")));
    assert_eq!(ns.get("services", "before"), None);
    let writes = ns.env().host_writes(mark).namespace(ns.name()).resource("services");
    let done: Vec<_> = writes.iter().map(|write| format!("{} {} {}", write.verb, write.name, write.code)).collect();
    assert_eq!(done, ["delete before 200", "create after 201"]);
}
