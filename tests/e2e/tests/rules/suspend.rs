//! Suspended parents and Plugins (R16).

use serde_json::json;
use windlass_e2e::{AuditEvents, TIMEOUT, condition};

use crate::scripts::config_map;
use crate::{alone, barrier, children, names, puppets, value, wait_names, write_attempts};

#[test]
fn r16_no_child_of_a_suspended_parent_is_written_until_it_is_resumed() {
    let ns = puppets("suspend");
    let puppet = ns.puppet("web");
    puppet.play(&children([config_map("a", "1"), config_map("b", "1")]));
    puppet.kubectl("annotate", &["windlass.dev/suspend=true"]);
    let ready = puppet.wait_reason("Suspended");
    assert_eq!(ready.status, "False", "{ready:?}");
    let mark = ns.env().mark();
    let calls = puppet.calls();
    puppet.apply(&children([config_map("a", "2"), config_map("c", "1")]));
    ns.kubectl(&["delete", "configmap", "b", "--wait=true"]);
    barrier(&ns, "after");
    let mut attempts = write_attempts(&ns, mark, "configmaps");
    attempts.0.retain(|event| event.name != "after");
    assert_eq!(attempts.to_vec(), []);
    assert_eq!(puppet.calls(), calls);
    let waiting = puppet.wait(|puppet| condition(puppet, "Ready").observed_generation == Some(2));
    assert_eq!(
        waiting["status"]["observedGeneration"], 1,
        "the suspended generation is not reported as observed: {waiting:#}"
    );

    puppet.kubectl("annotate", &["windlass.dev/suspend-"]);
    puppet.wait_done();
    assert_eq!((names(&ns, "configmaps"), value(&ns, "a")), (vec!["a".into(), "after".into(), "c".into()], "2".into()));
}

#[test]
fn r16_suspended_plugin_writes_nothing_and_catches_up_when_resumed() {
    let alone = alone();
    let ns = alone.env.namespace("suspended");
    let puppet = ns.puppet("web");
    let before = ns.env().mark();
    puppet.play(&children([config_map("a", "1")]));
    // A status is visible a moment before the line of its write is in the audit log.
    let is_reported =
        |events: &AuditEvents| events.iter().any(|event| event.subresource == "status" && event.namespace == ns.name());
    ns.env().audit().wait(before, TIMEOUT, is_reported).expect("the write of the status");
    let mark = ns.env().mark();
    let suspended = alone.env.patch_plugin("puppet", &json!({ "suspend": true }));
    assert!(condition(&suspended, "Available").is_true(), "{suspended:#}");
    assert!(suspended["status"]["activeDigest"].is_string(), "a suspended Plugin stays loaded: {suspended:#}");
    let calls = puppet.calls();
    puppet.apply(&children([config_map("a", "2"), config_map("b", "1")]));
    ns.kubectl(&["delete", "configmap", "a", "--wait=true"]);
    let other = ns.puppet("other");
    other.apply(&children([config_map("other", "1")]));
    // A Plugin of another kind still works. When its parent is Ready, the host has seen all earlier changes.
    alone.env.push(&crate::guest("puppet-cluster"), "puppet-cluster", &[]);
    alone.env.wait_live("puppet-cluster", &crate::guest("puppet-cluster"));
    let neighbour = windlass_e2e::Puppet::new(alone.env, "ClusterPuppet", "", ns.name());
    let mut child = config_map("neighbour", "1");
    child["metadata"]["namespace"] = ns.name().into();
    neighbour.play(&children([child]));
    assert_eq!((puppet.calls(), other.calls()), (calls, 0));
    let mut attempts = write_attempts(&ns, mark, "configmaps");
    attempts.0.retain(|event| event.name != "neighbour");
    assert_eq!(attempts.to_vec(), []);
    let parent_writes = ns.env().host_requests(mark).attempted_writes().resource("puppets");
    assert_eq!(parent_writes.to_vec(), [], "suspending a Plugin writes to no parent");

    alone.env.patch_plugin("puppet", &json!({ "suspend": false }));
    puppet.wait_done();
    other.wait_done();
    wait_names(&ns, "configmaps", &["a", "b", "neighbour", "other"]);
    alone.env.wait_plugin("puppet", |plugin| condition(plugin, "Available").is_true());
    neighbour.kubectl("delete", &["--wait=true"]);
}
