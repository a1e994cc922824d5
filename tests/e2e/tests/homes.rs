//! Namespaces that a Plugin serves, by their labels.

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
fn a_plugin_serves_the_namespaces_that_it_selects_and_lets_go_of_those_that_leave() {
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
    let elsewhere = env.host_requests(mark).attempted_writes().namespace(plain.name());
    assert_eq!(elsewhere.to_vec(), [], "what is elsewhere may be another host's");

    label(&plain, "tier=gold");
    plain.wait_settled("web");
    assert_eq!(plain.pod_names(), ["web-0", "web-1"]);

    // A few children go at once; of more, only what a person allows (R9).
    label(&plain, "tier-");
    wait_reason(&plain, "NotSelected");
    plain.wait_pods(&[]);
    label(&gold, "tier-");
    wait_reason(&gold, "DeletionBlocked");
    assert_eq!(gold.pods().len(), 5);
    // The parents of a namespace count together, also where each has few children.
    let held = env.wait_plugin("echo", |plugin| condition(plugin, "Ready").reason == "DeletionBlocked");
    let message = condition(&held, "Ready").message;
    let (_, command) = message.split_once("exactly these deletions: kubectl ").expect("a command");
    let command = command.split_inclusive("--overwrite").next().expect("a command");
    env.kubectl(&command.split_whitespace().collect::<Vec<_>>());
    gold.wait_pods(&[]);
    wait_reason(&gold, "NotSelected");

    // And back.
    label(&gold, "tier=gold");
    gold.wait_settled("web");
    assert_eq!(gold.pods().len(), 5);
}
