//! Deletions that no user asked for are blocked (R9).

use serde_json::{Value, json};
use windlass_e2e::{Condition, Env, HostOptions, Namespace, Puppet, TIMEOUT, condition, text, wait};

use crate::scripts::{config_map, config_maps, needs};
use crate::{Alone, alone, barrier, children, guest, names, puppets, wait_event, wait_names, write_attempts};

/// The hash that allows blocked deletions, as the condition names it.
fn hash(ready: &Condition) -> String {
    // The text before the command may quote a value that does not match.
    let (_, command) = ready.message.split_once("windlass.dev/allow-deletion").unwrap_or_else(|| panic!("{ready:?}"));
    let mut words = command.split(|char: char| !char.is_ascii_alphanumeric());
    let hash = words.find(|word| word.len() >= 12 && word.chars().all(|char| char.is_ascii_hexdigit()));
    hash.unwrap_or_else(|| panic!("no hash in {ready:?}")).to_owned()
}

/// Waits until deletions are blocked, and checks that the host tried none.
#[track_caller]
fn wait_blocked(ns: &Namespace, puppet: &Puppet, since: windlass_e2e::Mark) -> Condition {
    let ready = puppet.wait_reason("DeletionBlocked");
    assert_eq!(ready.status, "False", "{ready:?}");
    let deletes = write_attempts(ns, since, "configmaps").filter(|event| event.verb == "delete");
    assert_eq!(deletes.to_vec(), []);
    ready
}

fn allow(puppet: &Puppet, hash: &str) {
    puppet.kubectl("annotate", &["--overwrite", &format!("windlass.dev/allow-deletion={hash}")]);
}

#[test]
fn r09_scale_down_by_the_user_is_not_blocked() {
    let ns = puppets("scale-down");
    let puppet = ns.puppet("web");
    puppet.play(&children(config_maps(8, "1")));
    puppet.play(&children(config_maps(1, "1")));
    wait_names(&ns, "configmaps", &["web-0"]);
    puppet.play(&children([]));
    wait_names(&ns, "configmaps", &[]);
}

#[test]
fn r09_deletions_after_a_change_of_a_related_object_are_blocked_until_a_user_allows_exactly_these() {
    let ns = puppets("held-input");
    let input = |keys: &[&str]| {
        let data: Value =
            keys.iter().map(|key| ((*key).to_owned(), json!("1"))).collect::<serde_json::Map<_, _>>().into();
        let mut map = config_map("input", "");
        map["metadata"]["namespace"] = ns.name().into();
        map["data"] = data;
        ns.env().apply(&map.to_string());
    };
    input(&["a", "b", "c", "d", "e", "f"]);
    let puppet = ns.puppet("web");
    puppet.play(&json!({ "requirements": [needs("in", "input")], "childrenFrom": "in" }));
    wait_names(&ns, "configmaps", &["input", "web-a", "web-b", "web-c", "web-d", "web-e", "web-f"]);
    // A half is not more than a half, and a new child is no deletion.
    input(&["a", "b", "c", "g"]);
    wait_names(&ns, "configmaps", &["input", "web-a", "web-b", "web-c", "web-g"]);
    puppet.wait_done();
    let mark = ns.env().mark();
    input(&["a"]);
    let first = hash(&wait_blocked(&ns, &puppet, mark));

    // Another outcome does not hide the block, which the next process of the host must know.
    puppet.kubectl("annotate", &["windlass.dev/suspend=true"]);
    let suspended = puppet.wait_reason("Suspended");
    assert_eq!(suspended.status, "False");
    puppet.wait(|puppet| condition(puppet, "DeletionsBlocked").reason == "SpecUnchanged");
    puppet.kubectl("annotate", &["windlass.dev/suspend-"]);
    puppet.wait(|puppet| {
        let types = puppet["status"]["conditions"].as_array().expect("conditions").iter().map(|one| &one["type"]);
        condition(puppet, "Ready").reason == "DeletionBlocked" && types.eq(["Ready", "Stalled"])
    });

    // The annotation allows exactly that plan.
    input(&["b"]);
    let ready = puppet.wait(|puppet| {
        let ready = condition(puppet, "Ready");
        ready.reason == "DeletionBlocked" && hash(&ready) != first
    });
    allow(&puppet, &first);
    barrier(&ns, "after");
    let ready = condition(&ready, "Ready");
    wait_blocked(&ns, &puppet, mark);
    allow(&puppet, &hash(&ready));
    wait_names(&ns, "configmaps", &["after", "input", "web-b"]);
    puppet.wait_done();
}

/// Waits until deletions of the whole Plugin are blocked, and returns the hash that allows them.
fn wait_plugin_blocked(env: &Env) -> String {
    let blocked = env.wait_plugin("puppet", |plugin| condition(plugin, "Ready").is_false("DeletionBlocked"));
    hash(&condition(&blocked, "Ready"))
}

fn allow_plugin(alone: &Alone, hash: &str) {
    let allow = format!("windlass.dev/allow-deletion={hash}");
    alone.env.kubectl(&["annotate", "--overwrite", "plugins.windlass.dev", "puppet", &allow]);
}

#[test]
fn r09_new_component_that_returns_no_children_deletes_nothing_until_a_user_allows_it() {
    let alone = alone();
    let ns = alone.env.namespace("held-logic");
    let puppet = ns.puppet("web");
    puppet.play(&children(config_maps(6, "1")));
    let mark = ns.env().mark();
    alone.env.push(&guest("puppet-empty"), "puppet", &[]);
    let ready = wait_blocked(&ns, &puppet, mark);
    assert!(ready.message.contains("Plugin puppet"), "{ready:?}");
    wait_plugin_blocked(alone.env);
    assert_eq!(names(&ns, "configmaps").len(), 6);
    let event = wait_event(&ns, &puppet, |event| event["reason"] == "DeletionBlocked");
    assert!(text(&event, "/message").contains("Plugin puppet"), "{event:#}");

    // A changed spec does not allow them: the component would delete them for any spec.
    puppet.apply(&children(config_maps(7, "2")));
    allow_plugin(&alone, "0123456789ab");
    let blocked = alone.env.wait_plugin("puppet", |plugin| {
        let message = condition(plugin, "Ready").message;
        message.contains(r#"value "0123456789ab" does not match"#) && message.contains("windlass.dev/rollback=true")
    });
    assert_eq!(names(&ns, "configmaps").len(), 6);
    // The message contains a command.
    let message = condition(&blocked, "Ready").message;
    let (_, command) = message.split_once("exactly these deletions: kubectl ").expect("a command");
    let command = command.split_inclusive("--overwrite").next().expect("a command");
    alone.env.kubectl(&command.split_whitespace().collect::<Vec<_>>());
    // It also allows the deletions of this parent, which has a guard of its own.
    wait_names(&ns, "configmaps", &[]);
    puppet.wait_done();
    alone.env.wait_plugin("puppet", |plugin| condition(plugin, "Ready").reason != "DeletionBlocked");
}

#[test]
fn r09_deletions_by_a_new_component_for_many_small_parents_are_blocked_together_until_allowed() {
    let alone = alone();
    let ns = alone.env.namespace("held-many");
    // Each parent has fewer children than minChildren; together they have many.
    let puppets: Vec<_> = (0..6).map(|at| ns.puppet(&format!("web-{at}"))).collect();
    for puppet in &puppets {
        puppet.play(&children(config_maps(2, "1")));
    }
    let mark = ns.env().mark();
    alone.env.push(&guest("puppet-empty"), "puppet", &[]);
    let hash = wait_plugin_blocked(alone.env);
    for puppet in &puppets {
        wait_blocked(&ns, puppet, mark);
    }
    allow_plugin(&alone, "0123456789ab");
    assert_eq!(wait_plugin_blocked(alone.env), hash, "another hash allows nothing");
    assert_eq!(names(&ns, "configmaps").len(), 12);
    // Without four of the parents, less than half of the children are to be deleted. Nobody has asked for these.
    ns.kubectl(&["delete", "puppets", "web-2", "web-3", "web-4", "web-5"]);
    let rest = "Blocked: 4 of 12 children";
    alone.env.wait_plugin("puppet", |plugin| condition(plugin, "Ready").message.contains(rest));
    wait_names(&ns, "configmaps", &["web-0-0", "web-0-1", "web-1-0", "web-1-1"]);
    allow_plugin(&alone, &hash);
    wait_names(&ns, "configmaps", &[]);
    for puppet in &puppets[..2] {
        puppet.wait_done();
    }
    alone.env.wait_plugin("puppet", |plugin| condition(plugin, "Ready").reason != "DeletionBlocked");
}

#[test]
fn r09_config_that_drops_most_children_is_blocked_until_it_is_replaced_by_one_that_drops_none() {
    let alone = alone();
    let ns = alone.env.namespace("held-config");
    let puppet = ns.puppet("web");
    puppet.play(&children(config_maps(6, "1")));
    let mark = ns.env().mark();
    alone.env.patch_plugin("puppet", &json!({ "config": { "keepChildren": 2 } }));
    wait_blocked(&ns, &puppet, mark);
    alone.env.patch_plugin("puppet", &json!({ "config": { "keepChildren": 6 } }));
    puppet.wait_done();
    alone.env.wait_plugin("puppet", |plugin| condition(plugin, "Ready").reason != "DeletionBlocked");
    assert_eq!(names(&ns, "configmaps").len(), 6);
    // A half is not more than a half.
    alone.env.patch_plugin("puppet", &json!({ "config": { "keepChildren": 3 } }));
    wait_names(&ns, "configmaps", &["web-0", "web-1", "web-2"]);
    puppet.wait_done();
}

#[test]
fn r09_guard_with_100_percent_allows_all_deletions() {
    let alone = alone();
    let ns = alone.env.namespace("unguarded");
    let puppet = ns.puppet("web");
    puppet.play(&children(config_maps(6, "1")));
    let guard = json!({ "maxPercent": 100, "minChildren": 4 });
    alone.env.patch_plugin("puppet", &json!({ "deletionGuard": guard, "config": { "dropChildren": true } }));
    wait_names(&ns, "configmaps", &[]);
    puppet.wait_done();
}

#[test]
fn r09_blocked_deletions_proceed_when_the_guard_is_set_to_100_percent() {
    let alone = alone();
    let ns = alone.env.namespace("loosened");
    let puppet = ns.puppet("web");
    puppet.play(&children(config_maps(6, "1")));
    let mark = ns.env().mark();
    alone.env.patch_plugin("puppet", &json!({ "config": { "keepChildren": 2 } }));
    wait_blocked(&ns, &puppet, mark);
    wait_plugin_blocked(alone.env);
    alone.env.patch_plugin("puppet", &json!({ "deletionGuard": { "maxPercent": 100 } }));
    wait_names(&ns, "configmaps", &["web-0", "web-1"]);
    puppet.wait_done();
    alone.env.wait_plugin("puppet", |plugin| condition(plugin, "Ready").reason != "DeletionBlocked");
}

#[test]
fn r09_deletions_of_a_plugin_stay_blocked_after_a_restart_that_does_not_find_the_source() {
    let env = Env::start();
    let host = env.start_host();
    env.push(&guest("puppet"), "puppet", &[]);
    env.wait_live("puppet", &guest("puppet"));
    let ns = env.namespace("held-restart");
    // Each parent has too few children for a guard of its own.
    for at in 0..4 {
        ns.puppet(&format!("web-{at}")).play(&children(config_maps(3, "1")));
    }
    env.patch_plugin("puppet", &json!({ "config": { "keepChildren": 1 } }));
    let hash = wait_plugin_blocked(&env);
    // With more children in total, the same deletions are less than half of them.
    for at in 4..10 {
        ns.puppet(&format!("web-{at}")).play(&children(config_maps(1, "1")));
    }
    let children_before = names(&ns, "configmaps");
    assert_eq!(children_before.len(), 18);
    assert!(host.terminate().success());

    let from = |name: &str| json!({ "spec": { "source": { "configMap": { "name": name } } } }).to_string();
    env.kubectl(&["patch", "plugins.windlass.dev", "puppet", "--type=merge", "-p", &from("absent")]);
    // Without the cache of compiled components, no component can be live.
    let cache_dir = Some(env.cluster().dir().join("another-cache"));
    let _host = env.start_host_with(HostOptions { cache_dir, ..HostOptions::default() });
    let failed = env.wait_plugin("puppet", |plugin| condition(plugin, "Ready").reason == "SourceNotFound");
    assert_eq!(text(&failed, "/status/blockedDeletionsHash"), hash);
    env.kubectl(&["patch", "plugins.windlass.dev", "puppet", "--type=merge", "-p", &from("puppet")]);
    assert_eq!(wait_plugin_blocked(&env), hash);
    assert_eq!(names(&ns, "configmaps"), children_before);
    let allow = format!("windlass.dev/allow-deletion={hash}");
    env.kubectl(&["annotate", "--overwrite", "plugins.windlass.dev", "puppet", &allow]);
    let left: Vec<_> = (0..10).map(|at| format!("web-{at}-0")).collect();
    wait_names(&ns, "configmaps", &left.iter().map(String::as_str).collect::<Vec<_>>());
    env.wait_plugin("puppet", |plugin| plugin["status"]["blockedDeletionsHash"].is_null());
}

#[test]
fn r09_parent_whose_finalizer_is_forbidden_does_not_delay_deletions_of_other_parents() {
    let alone = alone();
    let ns = alone.env.namespace("no-finalizer");
    alone.env.push(&guest("puppet-finalizes"), "puppet-finalizes", &[]);
    alone.env.wait_live("puppet-finalizes", &guest("puppet-finalizes"));
    let allowed =
        "object.metadata.name != 'stuck' || object.kind == 'FinalizingPuppet' && !has(object.metadata.finalizers)";
    for (kind, spec) in [
        (
            "ValidatingAdmissionPolicy",
            json!({
                "matchConstraints": {
                    "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": ns.name() } },
                    "resourceRules": [{
                        "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
                        "resources": ["finalizingpuppets", "configmaps"],
                    }],
                },
                "validations": [{ "expression": allowed, "reason": "Forbidden" }],
            }),
        ),
        ("ValidatingAdmissionPolicyBinding", json!({ "policyName": ns.name(), "validationActions": ["Deny"] })),
    ] {
        let api = "admissionregistration.k8s.io/v1";
        let object = json!({ "apiVersion": api, "kind": kind, "metadata": { "name": ns.name() }, "spec": spec });
        alone.env.apply(&object.to_string());
    }
    let probe = ["-n", ns.name(), "create", "configmap", "stuck", "--dry-run=server"];
    wait("the policy to be in force", TIMEOUT, || alone.env.try_kubectl(&probe).is_err().then_some(()));

    let web = ns.puppet_of("FinalizingPuppet", "web");
    web.play(&children(config_maps(6, "1")));
    let stuck = ns.puppet_of("FinalizingPuppet", "stuck");
    stuck.apply(&children([]));
    stuck.wait_reason("ChildRejected");
    // The new config deletes half of all children, which the guard allows once all parents were called.
    alone.env.patch_plugin("puppet-finalizes", &json!({ "config": { "keepChildren": 3 } }));
    wait_names(&ns, "configmaps", &["web-0", "web-1", "web-2"]);
    stuck.wait_reason("ChildRejected");
    web.kubectl("delete", &["--wait=true"]);
    stuck.kubectl("delete", &["--wait=true"]);
}
