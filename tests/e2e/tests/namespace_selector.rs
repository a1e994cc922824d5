//! `spec.namespaceSelector`: a Plugin reconciles parents only in the namespaces that it selects.

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use serde_json::{Value, json};
use windlass_e2e::{Env, Namespace, condition, guest};

fn label(ns: &Namespace, label: &str) {
    ns.env().kubectl(&["label", "namespace", ns.name(), label]);
}

fn wait_reason(ns: &Namespace, reason: &str) -> Value {
    ns.wait_echo("web", |echo| condition(echo, "Ready").reason == reason)
}

#[test]
fn plugin_reconciles_only_selected_namespaces_and_deletes_its_children_in_namespaces_that_are_no_longer_selected() {
    let env = Env::start();
    let _host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    env.patch_plugin("echo", &json!({ "namespaceSelector": { "matchLabels": { "tier": "gold" } } }));
    let (gold, plain) = (env.namespace("gold"), env.namespace("plain"));
    label(&gold, "tier=gold");

    let mark = env.mark();
    plain.echo("web", 2, "nginx:1");
    gold.echo("web", 5, "nginx:1");
    gold.wait_settled("web");
    let in_plain = env.host_requests(mark).attempted_writes().namespace(plain.name());
    assert_eq!(in_plain.to_vec(), [], "the host writes nothing in a namespace that is not selected");

    label(&plain, "tier=gold");
    plain.wait_settled("web");
    assert_eq!(plain.pod_names(), ["web-0", "web-1"]);

    // A few children are deleted at once; more of them only after a user allows it (R9).
    label(&plain, "tier-");
    wait_reason(&plain, "NotSelected");
    plain.wait_pods(&[]);
    label(&gold, "tier-");
    wait_reason(&gold, "DeletionBlocked");
    assert_eq!(gold.pods().len(), 5);
    // Deletions by a change of a namespace's labels are blocked at the Plugin.
    let blocked = env.wait_plugin("echo", |plugin| condition(plugin, "Ready").reason == "DeletionBlocked");
    let message = condition(&blocked, "Ready").message;
    let (_, command) = message.split_once("exactly these deletions: kubectl ").expect("a command");
    let command = command.split_inclusive("--overwrite").next().expect("a command");
    env.kubectl(&command.split_whitespace().collect::<Vec<_>>());
    gold.wait_pods(&[]);
    wait_reason(&gold, "NotSelected");

    // The namespace is selected again.
    label(&gold, "tier=gold");
    gold.wait_settled("web");
    assert_eq!(gold.pods().len(), 5);
}
