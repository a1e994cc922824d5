//! Parents of a built-in kind, selected by a label: the host deletes the children of parents that lose the label.

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::path::PathBuf;

use serde_json::{Value, json};
use windlass_e2e::{AuditEvents, Env, Mark, Namespace, TIMEOUT, condition, guest, text, wait};

const PLUGIN: &str = "deco";
const HOLD: &str = "puppets.example/hold";
const POLICY: (&str, &str) = ("networkpolicies", "decoration");

fn puppet(name: &str) -> PathBuf {
    guest(&format!("puppets/{name}"))
}

/// Pushes this component for the Plugin, and waits until it is live.
fn push(env: &Env, component: &str) {
    env.push(&puppet(component), PLUGIN, &["--grant", "Namespace"]);
    env.wait_live(PLUGIN, &puppet(component));
}

fn label(ns: &Namespace, label: &str) {
    ns.env().kubectl(&["label", "namespace", ns.name(), label]);
}

fn namespace(ns: &Namespace) -> Value {
    ns.env().get("namespaces", "", ns.name()).expect("the namespace")
}

/// Whether a namespace has the Plugin's finalizer.
fn has_finalizer(namespace: &Value) -> bool {
    let finalizers = namespace["metadata"]["finalizers"].as_array().into_iter().flatten();
    finalizers.filter_map(Value::as_str).any(|name| name == "windlass.dev/deco")
}

/// The `ConfigMaps` with the Plugin's label.
fn config_maps(ns: &Namespace) -> Vec<String> {
    let objects = ns.env().list("configmaps", ns.name());
    let ours = objects.iter().filter(|object| text(object, "/metadata/labels/windlass.dev~1plugin") == PLUGIN);
    let mut names: Vec<_> = ours.map(|object| text(object, "/metadata/name")).collect();
    names.sort();
    names
}

fn wait_config_maps(ns: &Namespace, names: &[&str]) {
    wait(&format!("exactly {names:?} in {}", ns.name()), TIMEOUT, || (config_maps(ns) == names).then_some(()));
}

const ALL: [&str; 4] = ["a", "b", "c", "d"];

/// The host's reads of a namespace by name.
fn reads(env: &Env, ns: &Namespace, since: Mark) -> AuditEvents {
    env.host_requests(since).resource("namespaces").name(ns.name()).filter(|request| request.verb == "get")
}

/// The hash in the event about blocked deletions.
fn blocked_deletions_hash(ns: &Namespace) -> String {
    wait("an event with the hash that allows the deletions", TIMEOUT, || {
        let events = ns.env().list("events", "");
        let on_namespace = events.iter().filter(|event| text(event, "/involvedObject/name") == ns.name());
        on_namespace.map(|event| text(event, "/message")).find_map(|message| {
            let (_, rest) = message.split_once("windlass.dev/allow-deletion=")?;
            rest.split_once(' ').map(|(hash, _)| hash.to_owned())
        })
    })
}

#[test]
fn parent_that_leaves_the_selector_loses_its_children_also_if_it_left_while_no_host_ran() {
    let env = Env::start();
    let host = env.start_host();
    push(&env, "decorator");
    let [left, later, stays] = ["left", "later", "stays"].map(|name| env.namespace(name));
    let decorate = |ns: &Namespace| {
        label(ns, "puppets.example/decorate=true");
        env.wait_object(POLICY.0, ns.name(), POLICY.1, |_| true);
    };
    let wait_policy_gone = |ns: &Namespace| ns.wait_gone(POLICY.0, POLICY.1);
    for ns in [&left, &later, &stays] {
        decorate(ns);
    }

    let mark = env.mark();
    label(&left, "puppets.example/decorate-");
    wait_policy_gone(&left);
    assert!(namespace(&left)["metadata"]["deletionTimestamp"].is_null());
    assert!(later.get(POLICY.0, POLICY.1).is_some(), "a parent with the label keeps its child");
    assert_eq!(reads(&env, &left, mark).len(), 1, "the host reads once whether the parent still exists");
    // Writes to the Plugin are expected: its status counts the parents.
    let written = env.host_requests(mark).attempted_writes().filter(|write| write.resource != "plugins");
    let written: Vec<_> = written.iter().map(|write| (&*write.verb, &*write.resource, &*write.namespace)).collect();
    assert_eq!(written, [("delete", POLICY.0, left.name())], "the host writes nothing else");

    // The namespace is selected again.
    decorate(&left);
    assert!(host.terminate().success());
    label(&later, "puppets.example/decorate-");
    let mark = env.mark();
    let _host = env.start_host();
    env.wait_live(PLUGIN, &puppet("decorator"));
    wait_policy_gone(&later);
    for ns in [&left, &stays] {
        assert!(ns.get(POLICY.0, POLICY.1).is_some(), "{}", ns.name());
        assert_eq!(reads(&env, ns, mark).to_vec(), []);
    }
}

#[test]
fn r09_children_of_a_parent_that_leaves_the_selector_pass_the_deletion_guard() {
    let env = Env::start();
    let _host = env.start_host();
    push(&env, "decorator-lets-go");
    let (ns, other) = (env.namespace("guarded"), env.namespace("other"));
    for ns in [&ns, &other] {
        label(ns, &format!("{HOLD}=true"));
        wait_config_maps(ns, &ALL);
    }
    label(&ns, &format!("{HOLD}-"));
    let hash = blocked_deletions_hash(&ns);
    assert_eq!(config_maps(&ns), ALL);
    env.wait_plugin(PLUGIN, |plugin| plugin["status"]["failing"] == 1);
    env.kubectl(&["annotate", "namespace", ns.name(), &format!("windlass.dev/allow-deletion={hash}")]);
    wait_config_maps(&ns, &[]);
    assert_eq!(config_maps(&other), ALL);
    env.wait_plugin(PLUGIN, |plugin| plugin["status"]["failing"] == 0);
}

#[test]
fn r09_component_that_selects_other_parents_deletes_nothing_until_a_user_allows_it() {
    let env = Env::start();
    let _host = env.start_host();
    push(&env, "decorator-lets-go");
    let all = ["one", "two", "three"].map(|name| env.namespace(name));
    for ns in &all {
        label(ns, &format!("{HOLD}=true"));
        wait_config_maps(ns, &ALL);
    }
    env.push(&puppet("decorator-moves"), PLUGIN, &[]);
    let blocked = env.wait_plugin(PLUGIN, |plugin| condition(plugin, "Ready").is_false("DeletionBlocked"));
    let message = condition(&blocked, "Ready").message;
    assert!(message.contains("12 of 12 children"), "{message}");
    for ns in &all {
        assert_eq!(config_maps(ns), ALL);
    }
    let hash = text(&blocked, "/status/blockedDeletionsHash");
    // Suspending and resuming the Plugin deletes nothing.
    env.patch_plugin(PLUGIN, &json!({"suspend": true}));
    env.kubectl(&["annotate", "plugins.windlass.dev", PLUGIN, "windlass.dev/pushed-at=suspended", "--overwrite"]);
    env.wait_plugin(PLUGIN, |plugin| text(plugin, "/status/lastHandledPush") == "suspended");
    let suspended = env.patch_plugin(PLUGIN, &json!({"suspend": false}));
    assert_eq!(text(&suspended, "/status/blockedDeletionsHash"), hash);
    env.kubectl(&["annotate", "plugins.windlass.dev", PLUGIN, "windlass.dev/pushed-at=resumed", "--overwrite"]);
    let resumed = env.wait_plugin(PLUGIN, |plugin| text(plugin, "/status/lastHandledPush") == "resumed");
    assert_eq!(text(&resumed, "/status/blockedDeletionsHash"), hash);
    for ns in &all {
        assert_eq!(config_maps(ns), ALL);
    }
    env.kubectl(&["annotate", "plugins.windlass.dev", PLUGIN, &format!("windlass.dev/allow-deletion={hash}")]);
    // One annotation on the Plugin also allows the deletions of each parent.
    for ns in &all {
        wait_config_maps(ns, &[]);
    }
}

#[test]
fn r14_finalizers_of_a_component_that_no_longer_finalizes_are_removed_from_all_its_parents() {
    let env = Env::start();
    let host = env.start_host();
    push(&env, "decorator-finalizes");
    let [stays, leaves, ends] = ["stays", "leaves", "ends"].map(|name| env.namespace(name));
    for ns in [&stays, &leaves, &ends] {
        label(ns, &format!("{HOLD}=true"));
        wait_config_maps(ns, &ALL);
        assert!(has_finalizer(&namespace(ns)));
    }
    assert!(host.terminate().success());
    for ns in [&leaves, &ends] {
        label(ns, &format!("{HOLD}-"));
    }
    env.kubectl(&["delete", "namespace", ends.name(), "--wait=false"]);
    env.push(&puppet("decorator-lets-go"), PLUGIN, &[]);

    let _host = env.start_host();
    env.wait_live(PLUGIN, &puppet("decorator-lets-go"));
    for ns in [&stays, &leaves] {
        env.wait_object("namespaces", "", ns.name(), |namespace| !has_finalizer(namespace));
    }
    wait("the finalizer to be removed from the terminating namespace", TIMEOUT, || {
        env.get("namespaces", "", ends.name()).is_none_or(|namespace| !has_finalizer(&namespace)).then_some(())
    });
    assert_eq!(config_maps(&stays), ALL);
    let hash = blocked_deletions_hash(&leaves);
    env.kubectl(&["annotate", "namespace", leaves.name(), &format!("windlass.dev/allow-deletion={hash}")]);
    wait_config_maps(&leaves, &[]);
}
