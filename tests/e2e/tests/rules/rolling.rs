//! Rolling updates change one child at a time (R11).

use serde_json::{Value, json};
use windlass_e2e::{Namespace, Puppet, text};

use crate::scripts::toy;
use crate::{barrier_of, children, previewed, stage, verbs};

/// The order of the response, which differs from the order of the names.
const ORDER: [&str; 3] = ["b", "c", "a"];

fn toys(kind: &str, value: &str) -> Value {
    children(ORDER.map(|name| toy(kind, name, value)))
}

/// Sets a child's `Ready`, as its own controller would.
fn set_ready(ns: &Namespace, resource: &str, name: &str, ready: bool) {
    let generation = ns.get(resource, name).expect("the child")["metadata"]["generation"].clone();
    let status = if ready { "True" } else { "False" };
    let patch = json!({ "status": { "observedGeneration": generation, "conditions": [{
        "type": "Ready", "status": status, "reason": "Set", "message": "", "observedGeneration": generation,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }] } });
    ns.kubectl(&["patch", resource, name, "--subresource=status", "--type=merge", "-p", &patch.to_string()]);
}

/// The children's values, in the order of the response.
fn values(ns: &Namespace, resource: &str) -> Vec<String> {
    let value = |name| ns.get(resource, name).map(|child| text(&child, "/spec/value")).unwrap_or_default();
    ORDER.map(value).into()
}

/// Creates all children and makes them Ready.
fn begin(ns: &Namespace, puppet: &Puppet, kind: &str, resource: &str) {
    puppet.apply(&toys(kind, "1"));
    for name in ORDER {
        ns.env().wait_object(resource, ns.name(), name, |_| true);
        set_ready(ns, resource, name, true);
    }
    puppet.wait_done();
}

#[test]
fn r11_rolling_update_changes_one_child_in_place_and_continues_when_it_is_ready() {
    let ns = stage().with("puppet-rolling").namespace("rolling");
    let puppet = ns.puppet_of("RollingPuppet", "web");
    begin(&ns, &puppet, "Doll", "dolls");
    // No child is Ready before the update changes it.
    for name in ORDER {
        set_ready(&ns, "dolls", name, false);
    }
    let uids = ORDER.map(|name| text(&ns.get("dolls", name).expect("a doll"), "/metadata/uid"));
    let mark = ns.env().mark();
    puppet.apply(&toys("Doll", "2"));
    for (at, name) in ORDER.into_iter().enumerate() {
        ns.env().wait_object("dolls", ns.name(), name, |doll| text(doll, "/spec/value") == "2");
        if at + 1 < ORDER.len() {
            puppet.wait_reason("RollingUpdate");
            barrier_of(&ns, "RollingPuppet", &format!("after-{name}"));
            let changed = values(&ns, "dolls").iter().filter(|value| *value == "2").count();
            assert_eq!(changed, at + 1, "one child changes at a time");
            assert_eq!(
                previewed(&ns, "puppet-rolling", "update Doll "),
                ORDER.len() - at - 1,
                "diff shows what the host does later"
            );
        }
        set_ready(&ns, "dolls", name, true);
    }
    puppet.wait_done();
    assert_eq!(
        ORDER.map(|name| text(&ns.get("dolls", name).expect("a doll"), "/metadata/uid")),
        uids,
        "the children are changed in place"
    );
    let attempts = crate::write_attempts(&ns, mark, "dolls");
    assert!(verbs(&attempts).iter().all(|(verb, _)| *verb == "patch"), "{attempts:#?}");
}

#[test]
fn r11_rolling_update_recreates_one_child_and_continues_when_the_new_one_is_ready() {
    let ns = stage().with("puppet-rolling").namespace("rolling-recreate");
    let puppet = ns.puppet_of("RollingPuppet", "web");
    begin(&ns, &puppet, "Mask", "masks");
    let mark = ns.env().mark();
    puppet.apply(&toys("Mask", "2"));
    for (at, name) in ORDER.into_iter().enumerate() {
        // A new child is not Ready until the test sets its condition.
        ns.env().wait_object("masks", ns.name(), name, |mask| text(mask, "/spec/value") == "2");
        barrier_of(&ns, "RollingPuppet", &format!("after-{name}"));
        let changed = values(&ns, "masks").iter().filter(|value| *value == "2").count();
        assert_eq!(changed, at + 1, "one child changes at a time");
        assert_eq!(
            previewed(&ns, "puppet-rolling", "recreate Mask "),
            ORDER.len() - at - 1,
            "diff shows what the host does later"
        );
        set_ready(&ns, "masks", name, true);
    }
    puppet.wait_done();
    let attempts = crate::write_attempts(&ns, mark, "masks");
    let expected: Vec<_> = ORDER.into_iter().flat_map(|name| [("delete", name), ("create", name)]).collect();
    assert_eq!(verbs(&attempts), expected);
}
