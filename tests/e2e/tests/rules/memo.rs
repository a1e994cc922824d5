//! Calls that the memo saves (R17).

use serde_json::json;
use windlass_e2e::{Namespace, TIMEOUT, wait};

use crate::scripts::{config_map, pod, secret, service};
use crate::{Alone, alone, write_attempts};

/// Waits for this number of resyncs of a parent, and returns the trace trees of these reconciles.
fn resyncs(alone: &Alone, ns: &Namespace, name: &str, times: usize) -> Vec<String> {
    let resynced = || {
        let mut lines = alone.env.host_log_lines("windlass.trigger=resync");
        lines.retain(|line| {
            line.contains(&format!("k8s.namespace.name={}", ns.name()))
                && line.contains(&format!("windlass.parent.name={name}"))
        });
        lines
    };
    let before = resynced().len();
    wait("resyncs", TIMEOUT, || Some(resynced()).filter(|lines| lines.len() >= before + times)).split_off(before)
}

#[test]
fn r17_resync_with_an_equal_snapshot_does_not_call_the_plugin() {
    let alone = alone();
    let ns = alone.env.namespace("memo");
    let puppet = ns.puppet("web");
    puppet.play(&json!({ "children": [config_map("a", "1")], "status": "reflect" }));
    let impure = ns.puppet("impure");
    impure.play(&json!({ "children": [config_map("b", "1")], "readClock": true }));
    alone.env.patch_plugin("puppet", &json!({ "resync": "1s" }));
    // A new component or config starts with an empty memo: its first reconcile calls the plugin.
    resyncs(&alone, &ns, "web", 2);
    let (calls, impure_calls, mark) = (puppet.calls(), impure.calls(), ns.env().mark());
    resyncs(&alone, &ns, "web", 3);
    resyncs(&alone, &ns, "impure", 1);
    assert_eq!(puppet.calls(), calls);
    assert!(impure.calls() > impure_calls, "the plugin is called again if its call read the clock");
    assert_eq!(write_attempts(&ns, mark, "configmaps").to_vec(), []);

    // A changed snapshot leads to a call, even if the response is the same.
    puppet.kubectl("annotate", &["touched=yes"]);
    wait("a call", TIMEOUT, || (puppet.calls() > calls).then_some(()));
}

#[test]
fn r17_new_component_or_config_is_called_for_every_parent_again() {
    let alone = alone();
    let ns = alone.env.namespace("memo-new");
    let puppet = ns.puppet("web");
    puppet.play(&json!({ "children": [config_map("a", "1")] }));
    let mark = ns.env().mark();
    let calls = puppet.calls();
    let v2 = alone.env.variant(&crate::guest("puppet"), "puppet-v2");
    alone.env.push(&v2, "puppet", &[]);
    alone.env.wait_live("puppet", &v2);
    wait("a call of the new component", TIMEOUT, || (puppet.calls() > calls).then_some(()));
    let calls = puppet.calls();
    alone.env.patch_plugin("puppet", &json!({ "config": { "keepChildren": 5 } }));
    wait("a call with the new config", TIMEOUT, || (puppet.calls() > calls).then_some(()));
    assert_eq!(write_attempts(&ns, mark, "configmaps").to_vec(), [], "equal responses write nothing");
}

#[test]
fn r07_values_that_the_api_server_defaults_or_normalizes_cause_no_write_on_the_next_reconcile() {
    let alone = alone();
    let ns = alone.env.namespace("normal");
    // A Secret's stringData becomes data, a Service gets a protocol and addresses, a Pod gets defaults and `1` for
    // `1000m`. The call reads the clock, so every reconcile calls the plugin and plans.
    let mut normal = pod("normal", "a:1");
    normal["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": "1000m", "memory": "0.5Gi" } });
    let kept = [normal, service("normal", 80), secret("normal", "1"), config_map("normal", "1")];
    let puppet = ns.puppet("web");
    puppet.play(&json!({ "children": kept, "readClock": true }));
    alone.env.patch_plugin("puppet", &json!({ "resync": "1s" }));
    resyncs(&alone, &ns, "web", 1);
    let (calls, mark) = (puppet.calls(), ns.env().mark());
    resyncs(&alone, &ns, "web", 3);
    assert!(puppet.calls() >= calls + 3);
    let written = ns.env().host_requests(mark).attempted_writes().namespace(ns.name());
    assert_eq!(written.to_vec(), []);
}
