//! Who reconciles a kind, and what becomes of it when the kind goes.

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_e2e::{Env, Namespace, SYSTEM_NAMESPACE, condition, guest, text};

const ECHOES: &str = "echoes.my-operator.dev";

/// The definition that a component carries.
fn carried(env: &Env, component: &str) -> Value {
    let printed = env.windlass(&["crd", &guest(component).to_string_lossy()]);
    let as_json = ["create", "--dry-run=client", "-o", "json", "-f", "-"];
    let printed = env.cluster().kubectl_with_input(&as_json, &printed).expect("a definition");
    serde_json::from_str(&printed).expect("JSON")
}

/// Installs echo's definition with one version instead of its own, as the host would.
fn install_as(env: &Env, version: &str) {
    let mut definition = carried(env, "echo");
    definition["metadata"]["labels"] = json!({ "windlass.dev/plugin": "echo" });
    definition["spec"]["versions"][0]["name"] = version.into();
    env.apply_as("windlass", &definition.to_string());
    env.kubectl(&["wait", "--for=condition=Established", "crd", ECHOES, "--timeout=180s"]);
}

/// Name, served and storage of each version that the cluster has.
fn versions(env: &Env) -> Vec<(String, bool, bool)> {
    let definition = env.get("customresourcedefinitions", "", ECHOES).expect("the definition");
    let versions = definition["spec"]["versions"].as_array().expect("versions").iter();
    versions.map(|version| (text(version, "/name"), version["served"] == true, version["storage"] == true)).collect()
}

#[test]
fn a_kind_has_one_plugin_the_older_one_and_the_next_takes_over_when_that_goes() {
    let env = Env::start();
    let host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("one-plugin");
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");

    // Its Pods would carry another label: any doubt about who is in charge would show.
    env.push(&guest("echo-v2"), "younger", &[]);
    let taken = |plugin: &Value| condition(plugin, "Granted").is_false("ParentKindTaken");
    let said = env.wait_plugin("younger", taken);
    assert!(condition(&said, "Ready").message.contains("Plugin echo"), "{said:#}");

    // The same after a start that loads both at once.
    host.kill();
    let mark = env.mark();
    let _host = env.start_host();
    env.wait_live("echo", &guest("echo"));
    env.wait_plugin("younger", taken);
    ns.echo("new", 1, "nginx:1");
    ns.wait_settled("new");
    let pods = ns.pods();
    assert_eq!(pods.len(), 3);
    for pod in &pods {
        assert_eq!(text(pod, "/metadata/labels/windlass.dev~1plugin"), "echo", "{pod:#}");
    }
    let deleted = env.host_writes(mark).filter(|event| event.verb == "delete");
    assert!(deleted.is_empty(), "{deleted:?}");

    env.kubectl(&["delete", "plugins.windlass.dev", "echo"]);
    env.wait_live("younger", &guest("echo-v2"));
    let echo = ns.echo_manifest("web", 3, "nginx:1");
    env.apply(&echo.to_string());
    ns.wait_pods(&["new-0", "web-0", "web-1", "web-2"]);
    ns.wait_settled("web");
    for pod in ns.pods() {
        let owner = text(&pod, "/metadata/labels/windlass.dev~1plugin");
        assert_eq!(owner, "younger", "children pass to the kind's new Plugin: {pod:#}");
    }
}

#[test]
fn a_definition_that_is_deleted_under_a_live_plugin_is_installed_again_and_reconciled() {
    let env = Env::start();
    let host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("kind-gone");
    ns.echo("before", 1, "nginx:1");
    ns.wait_settled("before");

    env.kubectl(&["delete", "crd", "echoes.my-operator.dev"]);
    env.wait("the definition to come back", windlass_e2e::SOON, || {
        env.get("customresourcedefinitions", "", "echoes.my-operator.dev")
    });
    let echo = ns.echo_manifest("after", 2, "nginx:1").to_string();
    env.wait("an Echo to be taken", windlass_e2e::SOON, || env.try_apply(&echo).ok());
    ns.wait_settled("after");
    env.wait_plugin("echo", |plugin| condition(plugin, "Ready").is_true());
    assert!(host.is_running());
}

/// An Echo in the older version.
fn old_echo(ns: &Namespace, replicas: u32) -> Value {
    let mut old = ns.echo_manifest("old", replicas, "nginx:1");
    old["apiVersion"] = "my-operator.dev/v1beta1".into();
    old
}

#[test]
fn a_version_in_use_stays_served_when_a_newer_component_brings_another_and_the_kind_outlives_its_plugin() {
    let env = Env::start();
    let _host = env.start_host();
    env.push(&guest("echo-v1beta1"), "echo", &[]);
    env.wait_live("echo", &guest("echo-v1beta1"));
    assert_eq!(versions(&env), [("v1beta1".to_owned(), true, true)]);
    let ns = env.namespace("versions");
    env.apply(&old_echo(&ns, 1).to_string());
    ns.wait_settled("old");
    let before = ns.pod("old-0");

    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    let both = [("v1".to_owned(), true, true), ("v1beta1".to_owned(), true, false)];
    assert_eq!(versions(&env), both);
    // Who still speaks the old version is heard.
    env.apply(&old_echo(&ns, 2).to_string());
    ns.wait_settled("old");
    assert_eq!(ns.pod_names(), ["old-0", "old-1"]);
    assert_eq!(ns.pod("old-0")["metadata"]["uid"], before["metadata"]["uid"]);

    // A look that finds this writes nothing.
    let mark = env.mark();
    env.patch_plugin("echo", &json!({ "resync": "9m" }));
    assert_eq!(env.host_writes(mark).resource("customresourcedefinitions").to_vec(), []);
    env.kubectl(&["delete", "plugins.windlass.dev", "echo", "--wait=true"]);
    assert_eq!(versions(&env), both, "nobody's objects go with a Plugin");
    assert_eq!(text(&ns.get(ECHOES, "old").expect("there"), "/spec/image"), "nginx:1");
}

#[test]
fn logic_that_could_not_write_for_any_parent_leaves_older_logic_and_its_definition_as_they_are() {
    let env = Env::start();
    let _host = env.start_host();
    env.push(&guest("echo-v1beta1"), "echo", &[]);
    let older = env.wait_live("echo", &guest("echo-v1beta1"));
    let ns = env.namespace("outgrown");
    env.apply(&old_echo(&ns, 1).to_string());
    ns.wait_settled("old");

    // Without the right to write Pods, newer logic is not made live.
    let account = "clusterrolebinding/windlass-plugin-echo:account";
    let printed = env.kubectl(&["get", account, "-o", "json"]);
    env.kubectl(&["delete", account]);
    env.wait("the right to be gone", windlass_e2e::SOON, || {
        let user = "--as=system:serviceaccount:windlass-system:windlass-plugin-echo";
        env.try_kubectl(&["auth", "can-i", "create", "pods", "-n", ns.name(), user]).is_err().then_some(())
    });
    let mark = env.mark();
    env.windlass(&["push", &guest("echo").to_string_lossy(), "--name", "echo", "--no-wait"]);
    let plugin = env.wait_plugin("echo", |plugin| {
        condition(plugin, "Granted").is_false("Forbidden") && plugin["status"]["candidateDigest"].is_string()
    });
    assert!(condition(&plugin, "Available").is_true(), "the older one is live: {plugin:#}");
    assert_eq!(plugin["status"]["activeDigest"], older, "{plugin:#}");
    assert_eq!(env.host_requests(mark).attempted_writes().resource("customresourcedefinitions").to_vec(), []);
    assert!(ns.get("pods", "old-0").is_some(), "what exists is left as it is");

    let mut binding: Value = serde_json::from_str(&printed).expect("JSON");
    let metadata = json!({ "name": "windlass-plugin-echo:account" });
    binding["metadata"] = metadata;
    env.apply(&binding.to_string());
    env.wait_live("echo", &guest("echo"));
    env.apply(&old_echo(&ns, 2).to_string());
    ns.wait_settled("old");
}

#[test]
fn logic_goes_when_a_person_has_its_parents_stored_in_a_version_that_it_does_not_know() {
    let env = Env::start();
    let _host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("outgrown-by-hand");
    ns.echo("web", 1, "nginx:1");
    ns.wait_settled("web");

    let definition = env.get("customresourcedefinitions", "", ECHOES).expect("the definition");
    let mut newer = definition["spec"]["versions"][0].clone();
    newer["name"] = "v2".into();
    let patch = json!([
        { "op": "replace", "path": "/spec/versions/0/storage", "value": false },
        { "op": "add", "path": "/spec/versions/-", "value": newer },
    ]);
    env.kubectl(&["patch", "crd", ECHOES, "--type=json", "-p", &patch.to_string()]);
    let plugin = env.wait_plugin("echo", |plugin| condition(plugin, "Ready").is_false("ParentKindMissing"));
    let message = condition(&plugin, "Ready").message;
    assert!(message.contains("stored as v2"), "it would drop fields: {message}");
    assert!(ns.get("pods", "web-0").is_some(), "what exists is left as it is");
}

#[test]
fn a_definition_whose_objects_are_stored_as_something_newer_is_left_as_it_is_and_the_plugin_says_why() {
    let env = Env::start();
    let _host = env.start_host();
    install_as(&env, "v2");
    let mark = env.mark();
    env.push(&guest("echo"), "echo", &[]);
    let plugin = env.wait_plugin("echo", |plugin| condition(plugin, "Granted").is_false("CRDRejected"));
    let message = condition(&plugin, "Granted").message;
    for words in ["stored as v2", "Push logic that is written for v2"] {
        assert!(message.contains(words), "{message}");
    }
    assert_eq!(env.host_requests(mark).attempted_writes().resource("customresourcedefinitions").to_vec(), []);
    assert_eq!(versions(&env), [("v2".to_owned(), true, true)]);
}

#[test]
fn logic_for_another_kind_does_not_take_the_place_of_logic_that_has_parents() {
    let env = Env::start();
    let _host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    let live = env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("another-kind");
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");
    let pods = ns.pod_names();

    // With all rights for either kind.
    let puppet = guest("puppets/puppet");
    let file = puppet.to_string_lossy();
    let args = ["push", &file, "--name", "other", "--create-rbac", "--dry-run=client", "-o", "json"];
    let printed: Value = serde_json::from_str(&env.windlass(&args)).expect("JSON");
    for object in printed["items"].as_array().expect("a list") {
        let mut object = object.clone();
        if object["kind"] == "ClusterRoleBinding" {
            object["subjects"][0]["name"] = json!("windlass-plugin-echo");
        }
        if text(&object, "/kind").starts_with("ClusterRole") {
            env.apply(&object.to_string());
        }
    }
    env.wait_plugin("echo", |plugin| plugin["status"]["parents"] == 1);
    let refused = env.try_windlass(&["push", &file, "--name", "echo"]).expect_err("of another kind");
    assert!(refused.contains("Plugin echo has parents of Echo.v1.my-operator.dev"), "{refused}");
    // As somebody who does not ask.
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "echo", "namespace": SYSTEM_NAMESPACE},
        "binaryData": {"plugin.wasm": STANDARD.encode(fs::read(&puppet).expect("a component"))},
    });
    env.apply_as("windlass-push", &map.to_string());
    let said = env.wait_plugin("echo", |plugin| condition(plugin, "Granted").is_false("ParentKindChanged"));
    assert!(condition(&said, "Granted").message.contains("Echo.v1.my-operator.dev"), "{said:#}");
    assert_eq!(said["status"]["activeDigest"], live, "as before");
    ns.echo("web", 3, "nginx:1");
    ns.wait_settled("web");
    assert!(pods.iter().all(|pod| ns.pod_names().contains(pod)), "none was left or deleted");

    // Once there is nothing to leave behind, it may.
    ns.kubectl(&["delete", ECHOES, "web", "--wait=true"]);
    env.wait_live("echo", &puppet);
}
