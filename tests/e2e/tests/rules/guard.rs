//! Deletions that nobody asked for (R9).

use serde_json::{Value, json};
use windlass_e2e::{Condition, Env, HostOptions, Namespace, Puppet, SOON, condition, text, wait};

use crate::scripts::{config_map, config_maps, needs};
use crate::{Alone, alone, asked, barrier, children, guest, names, puppets, wait_event, wait_names};

/// The hash by which a held deletion is released, as the condition names it.
fn hash(ready: &Condition) -> String {
    // What stands before the command may quote a value that does not match.
    let (_, command) = ready.message.split_once("windlass.dev/allow-deletion").unwrap_or_else(|| panic!("{ready:?}"));
    let mut words = command.split(|char: char| !char.is_ascii_alphanumeric());
    let hash = words.find(|word| word.len() >= 12 && word.chars().all(|char| char.is_ascii_hexdigit()));
    hash.unwrap_or_else(|| panic!("no hash in {ready:?}")).to_owned()
}

/// Waits until deletions are held, and shows that none was tried.
#[track_caller]
fn wait_held(ns: &Namespace, puppet: &Puppet, since: windlass_e2e::Mark) -> Condition {
    let ready = puppet.wait_reason("DeletionBlocked");
    assert_eq!(ready.status, "False", "{ready:?}");
    let deletes = asked(ns, since, "configmaps").filter(|event| event.verb == "delete");
    assert_eq!(deletes.to_vec(), []);
    ready
}

fn allow(puppet: &Puppet, hash: &str) {
    puppet.kubectl("annotate", &["--overwrite", &format!("windlass.dev/allow-deletion={hash}")]);
}

#[test]
fn r09_a_scale_down_by_the_user_is_not_held() {
    let ns = puppets("scale-down");
    let puppet = ns.puppet("web");
    puppet.play(&children(config_maps(8, "1")));
    puppet.play(&children(config_maps(1, "1")));
    wait_names(&ns, "configmaps", &["web-0"]);
    puppet.play(&children([]));
    wait_names(&ns, "configmaps", &[]);
}

#[test]
fn r09_input_that_drops_most_children_is_held_until_a_person_allows_that_very_plan() {
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
    let first = hash(&wait_held(&ns, &puppet, mark));

    // Good for that plan only.
    input(&["b"]);
    let ready = puppet.wait(|puppet| {
        let ready = condition(puppet, "Ready");
        ready.reason == "DeletionBlocked" && hash(&ready) != first
    });
    allow(&puppet, &first);
    barrier(&ns, "after");
    let ready = condition(&ready, "Ready");
    wait_held(&ns, &puppet, mark);
    allow(&puppet, &hash(&ready));
    wait_names(&ns, "configmaps", &["after", "input", "web-b"]);
    puppet.wait_done();
}

/// Waits until new logic or config is held for the whole Plugin, and gives back the hash that lets it.
fn wait_plugin_held(env: &Env) -> String {
    let held = env.wait_plugin("puppet", |plugin| condition(plugin, "Ready").is_false("DeletionBlocked"));
    hash(&condition(&held, "Ready"))
}

fn allow_plugin(alone: &Alone, hash: &str) {
    let allow = format!("windlass.dev/allow-deletion={hash}");
    alone.env.kubectl(&["annotate", "--overwrite", "plugins.windlass.dev", "puppet", &allow]);
}

#[test]
fn r09_new_logic_that_wants_nothing_deletes_nothing_and_says_so() {
    let alone = alone();
    let ns = alone.env.namespace("held-logic");
    let puppet = ns.puppet("web");
    puppet.play(&children(config_maps(6, "1")));
    let mark = ns.env().mark();
    alone.env.push(&guest("puppet-empty"), "puppet", &[]);
    let ready = wait_held(&ns, &puppet, mark);
    assert!(ready.message.contains("Plugin puppet"), "{ready:?}");
    wait_plugin_held(alone.env);
    assert_eq!(names(&ns, "configmaps").len(), 6);
    let event = wait_event(&ns, &puppet, |event| event["reason"] == "DeletionBlocked");
    assert!(text(&event, "/message").contains("Plugin puppet"), "{event:#}");

    // A changed spec is no release: the component would delete them for any spec.
    puppet.apply(&children(config_maps(7, "2")));
    allow_plugin(&alone, "0123456789ab");
    let held = alone.env.wait_plugin("puppet", |plugin| {
        let message = condition(plugin, "Ready").message;
        message.contains(r#"value "0123456789ab" does not match"#) && message.contains("windlass.dev/rollback=true")
    });
    assert_eq!(names(&ns, "configmaps").len(), 6);
    // The message is a command.
    let message = condition(&held, "Ready").message;
    let (_, command) = message.split_once("exactly these deletions: kubectl ").expect("a command");
    let command = command.split_inclusive("--overwrite").next().expect("a command");
    alone.env.kubectl(&command.split_whitespace().collect::<Vec<_>>());
    // Also of this parent, which has a guard of its own.
    wait_names(&ns, "configmaps", &[]);
    puppet.wait_done();
    alone.env.wait_plugin("puppet", |plugin| condition(plugin, "Ready").reason != "DeletionBlocked");
}

#[test]
fn r09_new_logic_that_drops_most_of_many_small_parents_is_held_as_a_whole_until_its_hash_is_allowed() {
    let alone = alone();
    let ns = alone.env.namespace("held-many");
    // Each has fewer children than the guard asks for; together they have many.
    let puppets: Vec<_> = (0..6).map(|at| ns.puppet(&format!("web-{at}"))).collect();
    for puppet in &puppets {
        puppet.play(&children(config_maps(2, "1")));
    }
    let mark = ns.env().mark();
    alone.env.push(&guest("puppet-empty"), "puppet", &[]);
    let hash = wait_plugin_held(alone.env);
    for puppet in &puppets {
        wait_held(&ns, puppet, mark);
    }
    allow_plugin(&alone, "0123456789ab");
    assert_eq!(wait_plugin_held(alone.env), hash, "good for that plan only");
    assert_eq!(names(&ns, "configmaps").len(), 12);
    allow_plugin(&alone, &hash);
    wait_names(&ns, "configmaps", &[]);
    for puppet in &puppets {
        puppet.wait_done();
    }
    alone.env.wait_plugin("puppet", |plugin| condition(plugin, "Ready").reason != "DeletionBlocked");
}

#[test]
fn r09_a_config_that_drops_most_children_is_held_until_one_comes_that_drops_none() {
    let alone = alone();
    let ns = alone.env.namespace("held-config");
    let puppet = ns.puppet("web");
    puppet.play(&children(config_maps(6, "1")));
    let mark = ns.env().mark();
    alone.env.patch_plugin("puppet", &json!({ "config": { "keepChildren": 2 } }));
    wait_held(&ns, &puppet, mark);
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
fn r09_a_plugin_may_be_trusted_with_everything() {
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
fn r09_what_is_held_goes_on_when_the_guard_is_set_to_hold_nothing() {
    let alone = alone();
    let ns = alone.env.namespace("loosened");
    let puppet = ns.puppet("web");
    puppet.play(&children(config_maps(6, "1")));
    let mark = ns.env().mark();
    alone.env.patch_plugin("puppet", &json!({ "config": { "keepChildren": 2 } }));
    wait_held(&ns, &puppet, mark);
    wait_plugin_held(alone.env);
    alone.env.patch_plugin("puppet", &json!({ "deletionGuard": { "maxPercent": 100 } }));
    wait_names(&ns, "configmaps", &["web-0", "web-1"]);
    puppet.wait_done();
    alone.env.wait_plugin("puppet", |plugin| condition(plugin, "Ready").reason != "DeletionBlocked");
}

#[test]
fn r09_what_is_held_for_the_whole_plugin_stays_so_over_a_restart_whose_first_look_fails() {
    let env = Env::start();
    let host = env.start_host();
    env.push(&guest("puppet"), "puppet", &[]);
    env.wait_live("puppet", &guest("puppet"));
    let ns = env.namespace("held-restart");
    // Too few children each for a guard of their own.
    for at in 0..4 {
        ns.puppet(&format!("web-{at}")).play(&children(config_maps(3, "1")));
    }
    env.patch_plugin("puppet", &json!({ "config": { "keepChildren": 1 } }));
    let hash = wait_plugin_held(&env);
    // Of more children in all, the same deletions are less than a half.
    for at in 4..10 {
        ns.puppet(&format!("web-{at}")).play(&children(config_maps(1, "1")));
    }
    let held = names(&ns, "configmaps");
    assert_eq!(held.len(), 18);
    assert!(host.terminate().success());

    let from = |name: &str| json!({ "spec": { "source": { "configMap": { "name": name } } } }).to_string();
    env.kubectl(&["patch", "plugins.windlass.dev", "puppet", "--type=merge", "-p", &from("absent")]);
    // Without what was compiled, nothing can be live.
    let cache_dir = Some(env.cluster().dir().join("another-cache"));
    let _host = env.start_host_with(HostOptions { cache_dir, ..HostOptions::default() });
    let failed = env.wait_plugin("puppet", |plugin| condition(plugin, "Ready").reason == "SourceNotFound");
    assert_eq!(text(&failed, "/status/blockedDeletionsHash"), hash);
    env.kubectl(&["patch", "plugins.windlass.dev", "puppet", "--type=merge", "-p", &from("puppet")]);
    assert_eq!(wait_plugin_held(&env), hash);
    assert_eq!(names(&ns, "configmaps"), held);
    let allow = format!("windlass.dev/allow-deletion={hash}");
    env.kubectl(&["annotate", "--overwrite", "plugins.windlass.dev", "puppet", &allow]);
    let left: Vec<_> = (0..10).map(|at| format!("web-{at}-0")).collect();
    wait_names(&ns, "configmaps", &left.iter().map(String::as_str).collect::<Vec<_>>());
    env.wait_plugin("puppet", |plugin| plugin["status"]["blockedDeletionsHash"].is_null());
}

#[test]
fn r09_a_parent_that_may_have_no_finalizer_keeps_nobodys_deletions_waiting() {
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
    wait("the policy to be in force", SOON, || alone.env.try_kubectl(&probe).is_err().then_some(()));

    let web = ns.puppet_of("FinalizingPuppet", "web");
    web.play(&children(config_maps(6, "1")));
    let stuck = ns.puppet_of("FinalizingPuppet", "stuck");
    stuck.apply(&children([]));
    stuck.wait_reason("ChildRejected");
    // New config: a half of all children, so they may go once everybody was asked.
    alone.env.patch_plugin("puppet-finalizes", &json!({ "config": { "keepChildren": 3 } }));
    wait_names(&ns, "configmaps", &["web-0", "web-1", "web-2"]);
    stuck.wait_reason("ChildRejected");
    web.kubectl("delete", &["--wait=true"]);
    stuck.kubectl("delete", &["--wait=true"]);
}
