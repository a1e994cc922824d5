//! Which Plugin reconciles a parent kind, and how Plugins handle changes of its CRD.

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_e2e::{Env, Namespace, SYSTEM_NAMESPACE, condition, guest, text};

const ECHOES: &str = "echoes.my-operator.dev";

/// The CRD that a component carries.
fn carried(env: &Env, component: &str) -> Value {
    let printed = env.windlass(&["crd", &guest(component).to_string_lossy()]);
    let as_json = ["create", "--dry-run=client", "-o", "json", "-f", "-"];
    let printed = env.cluster().kubectl_with_input(&as_json, &printed).expect("a CRD");
    serde_json::from_str(&printed).expect("JSON")
}

/// Installs echo's CRD with another version than its own, as the host would.
fn install_as(env: &Env, version: &str) {
    let mut crd = carried(env, "echo");
    crd["metadata"]["labels"] = json!({ "windlass.dev/plugin": "echo" });
    crd["spec"]["versions"][0]["name"] = version.into();
    env.apply_as("windlass", &crd.to_string());
    env.kubectl(&["wait", "--for=condition=Established", "crd", ECHOES, "--timeout=180s"]);
}

/// Name, served and storage of each version that the cluster has.
fn versions(env: &Env) -> Vec<(String, bool, bool)> {
    let crd = env.get("customresourcedefinitions", "", ECHOES).expect("the CRD");
    let versions = crd["spec"]["versions"].as_array().expect("versions").iter();
    versions.map(|version| (text(version, "/name"), version["served"] == true, version["storage"] == true)).collect()
}

#[test]
fn older_plugin_owns_a_parent_kind_and_the_younger_one_adopts_children_after_its_deletion() {
    let env = Env::start();
    let host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("one-plugin");
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");

    // Pods of the younger Plugin would have another label.
    env.push(&guest("echo-v2"), "younger", &[]);
    let is_taken = |plugin: &Value| condition(plugin, "Granted").is_false("ParentKindTaken");
    let younger = env.wait_plugin("younger", is_taken);
    assert!(condition(&younger, "Ready").message.contains("Plugin echo"), "{younger:#}");

    // The older Plugin also wins after a restart of the host, which loads both at once.
    host.kill();
    let mark = env.mark();
    let _host = env.start_host();
    env.wait_live("echo", &guest("echo"));
    env.wait_plugin("younger", is_taken);
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
        assert_eq!(owner, "younger", "the parent kind's new Plugin adopts the children: {pod:#}");
    }
}

#[test]
fn crd_deleted_under_a_live_plugin_is_installed_again_and_its_objects_are_reconciled() {
    let env = Env::start();
    let host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("kind-gone");
    ns.echo("before", 1, "nginx:1");
    ns.wait_settled("before");

    env.kubectl(&["delete", "crd", "echoes.my-operator.dev"]);
    env.wait("the CRD to be installed again", windlass_e2e::TIMEOUT, || {
        env.get("customresourcedefinitions", "", "echoes.my-operator.dev")
    });
    let echo = ns.echo_manifest("after", 2, "nginx:1").to_string();
    env.wait("an Echo to be accepted", windlass_e2e::TIMEOUT, || env.try_apply(&echo).ok());
    ns.wait_settled("after");
    env.wait_plugin("echo", |plugin| condition(plugin, "Ready").is_true());
    assert!(host.is_running());
}

/// A plugin to which the metadata of Targets is enough is called when that changes, and only then.
fn metadata_alone_leads_to_a_call_when_it_changes(ns: &Namespace) {
    let env = ns.env();
    let other = ns.puppet_of("StagedPuppet", "other");
    other.play(&json!({"requirements": ["metadata"]}));
    let calls = |name: &str| env.host_log_lines(&format!("puppet called: sync {}/{name} ", ns.name()));
    let before_changes = calls("other").len();
    let patch = |patch: &Value| {
        let patch = patch.to_string();
        ns.kubectl(&["patch", "targets.optional.example", "one", "--type=merge", "-p", &patch]);
    };
    for change in 0..5 {
        let so_far = calls("web").len();
        patch(&json!({"spec": {"change": change}}));
        env.wait("a call of the parent that requires all of it", windlass_e2e::TIMEOUT, || {
            (calls("web").len() > so_far).then_some(())
        });
    }
    patch(&json!({"metadata": {"labels": {"tier": "web"}}}));
    let served = r#"[metadata: 1 (apiVersion kind metadata unknown {"tier":"web"})]"#;
    env.wait("a call with the label", windlass_e2e::TIMEOUT, || {
        calls("other").last().is_some_and(|line| line.contains(served)).then_some(())
    });
    // Beside that of the label there may be the one after its first status was written.
    assert!(calls("other").len() <= before_changes + 2, "{:#?}", calls("other"));
    other.kubectl("delete", &[]);
}

#[test]
fn optional_kinds_come_and_go_without_an_error_or_a_rollout() {
    let env = Env::start();
    let host = env.start_host();
    env.serve_kind("Doll", "dolls.puppets.example");
    env.push(&guest("puppets/puppet-staged"), "puppet-staged", &[]);
    env.wait_live("puppet-staged", &guest("puppets/puppet-staged"));
    let ns = env.namespace("optional");
    let puppet = ns.puppet_of("StagedPuppet", "web");
    let metadata = |name: &str| json!({"name": name, "namespace": ns.name()});
    let monitor = json!({"apiVersion": "optional.example/v1", "kind": "Monitor", "metadata": {"name": "web"}, "options": {"ready": true}});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}});
    puppet.play(&json!({"children": [map, monitor], "requirements": ["targets"]}));
    let ready = || condition(&puppet.get().expect("the parent"), "Ready");
    assert!(
        ready().message.contains("Left out") && ready().message.contains("Monitor.v1.optional.example"),
        "{ready:?}",
        ready = ready()
    );
    let called = |beside: &str| host.log().contains(&format!("puppet called: sync {}/web {beside} ", ns.name()));
    assert!(called("[] [targets: 0]"), "the requirement selects nothing");
    let rollout =
        || env.get("plugins.windlass.dev", "", "puppet-staged").expect("the Plugin")["status"]["rollout"].clone();
    let (before, mark) = (rollout(), env.mark());

    env.serve_kind("Monitor", "monitors.optional.example");
    env.wait_object("monitors.optional.example", ns.name(), "web", |_| true);
    env.wait("the message without the kind", windlass_e2e::TIMEOUT, || {
        (!ready().message.contains("Left out")).then_some(())
    });
    env.serve_kind("Target", "targets.optional.example");
    let target =
        json!({"apiVersion": "optional.example/v1", "kind": "Target", "metadata": metadata("one")}).to_string();
    env.wait("a Target to be accepted", windlass_e2e::TIMEOUT, || env.try_apply(&target).ok());
    env.wait("a call with the Target", windlass_e2e::TIMEOUT, || called("[Monitor Target] [targets: 1]").then_some(()));

    metadata_alone_leads_to_a_call_when_it_changes(&ns);

    for plural in ["monitors", "targets"] {
        env.kubectl(&["delete", "crd", &format!("{plural}.optional.example")]);
    }
    env.wait("a call without the kinds", windlass_e2e::TIMEOUT, || ready().message.contains("Left out").then_some(()));
    let plugin = env.wait_plugin("puppet-staged", |plugin| condition(plugin, "Ready").is_true());
    assert!(ready().is_true(), "{plugin:#}");
    assert_eq!(rollout(), before, "no rollout");
    let writes = env.host_writes(mark).namespace(ns.name());
    let done: Vec<_> = writes.iter().filter(|write| write.resource != "stagedpuppets").collect();
    let done: Vec<_> = done.iter().map(|write| format!("{} {} {}", write.verb, write.resource, write.code)).collect();
    assert_eq!(done, ["create monitors 201"], "nothing else was written, and nothing was refused");
}

/// An Echo in the older version.
fn old_echo(ns: &Namespace, replicas: u32) -> Value {
    let mut old = ns.echo_manifest("old", replicas, "nginx:1");
    old["apiVersion"] = "my-operator.dev/v1beta1".into();
    old
}

#[test]
fn crd_version_in_use_stays_served_after_an_update_and_the_crd_outlives_its_plugin() {
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
    // A client can still use the old version.
    env.apply(&old_echo(&ns, 2).to_string());
    ns.wait_settled("old");
    assert_eq!(ns.pod_names(), ["old-0", "old-1"]);
    assert_eq!(ns.pod("old-0")["metadata"]["uid"], before["metadata"]["uid"]);

    // Another reconcile of the Plugin does not write the CRD.
    let mark = env.mark();
    env.patch_plugin("echo", &json!({ "resync": "9m" }));
    assert_eq!(env.host_writes(mark).resource("customresourcedefinitions").to_vec(), []);
    env.kubectl(&["delete", "plugins.windlass.dev", "echo", "--wait=true"]);
    assert_eq!(versions(&env), both, "the CRD outlives the Plugin");
    assert_eq!(text(&ns.get(ECHOES, "old").expect("there"), "/spec/image"), "nginx:1");
}

#[test]
fn component_without_permission_to_write_children_replaces_neither_live_component_nor_crd() {
    let env = Env::start();
    let _host = env.start_host();
    env.push(&guest("echo-v1beta1"), "echo", &[]);
    let older = env.wait_live("echo", &guest("echo-v1beta1"));
    let ns = env.namespace("outgrown");
    env.apply(&old_echo(&ns, 1).to_string());
    ns.wait_settled("old");

    // Without the permission to write Pods, the newer component does not become live.
    let account = "clusterrolebinding/windlass-plugin-echo:account";
    let printed = env.kubectl(&["get", account, "-o", "json"]);
    env.kubectl(&["delete", account]);
    env.wait("the permission to be revoked", windlass_e2e::TIMEOUT, || {
        let user = "--as=system:serviceaccount:windlass-system:windlass-plugin-echo";
        env.try_kubectl(&["auth", "can-i", "create", "pods", "-n", ns.name(), user]).is_err().then_some(())
    });
    let mark = env.mark();
    env.windlass(&["push", &guest("echo").to_string_lossy(), "--name", "echo", "--no-wait"]);
    let plugin = env.wait_plugin("echo", |plugin| {
        condition(plugin, "Granted").is_false("Forbidden") && plugin["status"]["candidateDigest"].is_string()
    });
    assert!(condition(&plugin, "Available").is_true(), "the older component is live: {plugin:#}");
    assert_eq!(plugin["status"]["activeDigest"], older, "{plugin:#}");
    assert_eq!(env.host_requests(mark).attempted_writes().resource("customresourcedefinitions").to_vec(), []);
    assert!(ns.get("pods", "old-0").is_some(), "the existing Pod is left alone");

    let mut binding: Value = serde_json::from_str(&printed).expect("JSON");
    let metadata = json!({ "name": "windlass-plugin-echo:account" });
    binding["metadata"] = metadata;
    env.apply(&binding.to_string());
    env.wait_live("echo", &guest("echo"));
    env.apply(&old_echo(&ns, 2).to_string());
    ns.wait_settled("old");
}

#[test]
fn component_is_unloaded_when_a_user_stores_its_parents_in_an_unknown_crd_version() {
    let env = Env::start();
    let _host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("outgrown-by-hand");
    ns.echo("web", 1, "nginx:1");
    ns.wait_settled("web");

    let crd = env.get("customresourcedefinitions", "", ECHOES).expect("the CRD");
    let mut newer = crd["spec"]["versions"][0].clone();
    newer["name"] = "v2".into();
    let patch = json!([
        { "op": "replace", "path": "/spec/versions/0/storage", "value": false },
        { "op": "add", "path": "/spec/versions/-", "value": newer },
    ]);
    env.kubectl(&["patch", "crd", ECHOES, "--type=json", "-p", &patch.to_string()]);
    let plugin = env.wait_plugin("echo", |plugin| condition(plugin, "Ready").is_false("ParentKindMissing"));
    let message = condition(&plugin, "Ready").message;
    assert!(message.contains("stored as v2"), "the message names the storage version: {message}");
    assert!(ns.get("pods", "web-0").is_some(), "the existing Pod is left alone");
}

#[test]
fn crd_with_a_newer_storage_version_is_left_alone_and_the_plugins_condition_gives_the_reason() {
    let env = Env::start();
    let _host = env.start_host();
    install_as(&env, "v2");
    let mark = env.mark();
    env.push(&guest("echo"), "echo", &[]);
    let plugin = env.wait_plugin("echo", |plugin| condition(plugin, "Granted").is_false("CRDRejected"));
    let message = condition(&plugin, "Granted").message;
    for words in ["stored as v2", "Push a component that is written for v2"] {
        assert!(message.contains(words), "{message}");
    }
    assert_eq!(env.host_requests(mark).attempted_writes().resource("customresourcedefinitions").to_vec(), []);
    assert_eq!(versions(&env), [("v2".to_owned(), true, true)]);
}

#[test]
fn component_for_another_parent_kind_is_rejected_while_parents_of_the_live_one_exist() {
    let env = Env::start();
    let _host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    let live = env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("another-kind");
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");
    let pods = ns.pod_names();

    // The plugin gets all permissions for either kind.
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
    let refused =
        env.try_windlass(&["push", &file, "--name", "echo"]).expect_err("a component for another parent kind");
    assert!(refused.contains("Plugin echo has parents of Echo.v1.my-operator.dev"), "{refused}");
    // A client that does not use `windlass push` writes the component.
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "echo", "namespace": SYSTEM_NAMESPACE},
        "binaryData": {"plugin.wasm": STANDARD.encode(fs::read(&puppet).expect("a component"))},
    });
    env.apply_as("windlass-push", &map.to_string());
    let plugin = env.wait_plugin("echo", |plugin| condition(plugin, "Granted").is_false("ParentKindChanged"));
    assert!(condition(&plugin, "Granted").message.contains("Echo.v1.my-operator.dev"), "{plugin:#}");
    assert_eq!(plugin["status"]["activeDigest"], live, "the live component did not change");
    ns.echo("web", 3, "nginx:1");
    ns.wait_settled("web");
    assert!(pods.iter().all(|pod| ns.pod_names().contains(pod)), "every Pod still exists");

    // Once there are no more parents of the old kind, the component becomes live.
    ns.kubectl(&["delete", ECHOES, "web", "--wait=true"]);
    env.wait_live("echo", &puppet);
}

/// An expression that calls a function, for a field of type string.
fn expression(function: &str) -> String {
    match function {
        "ip" | "cidr" | "semver" => format!("{function}(self) == {function}(self)"),
        "isIP" | "isCIDR" | "isSemver" | "ip.isCanonical" => format!("{function}(self)"),
        "format.named" => "!format.named('uuid').value().validate(self).hasValue()".to_owned(),
        name if name.starts_with("format.") => format!("!{name}().validate(self).hasValue()"),
        "transformList" => "[self].transformList(at, item, item).size() == 1".to_owned(),
        "transformMap" => "{'a': self}.transformMap(key, value, value).size() == 1".to_owned(),
        "transformMapEntry" => "{'a': self}.transformMapEntry(key, value, {value: key}).size() == 1".to_owned(),
        "lists.range" => "lists.range(3).size() == 3".to_owned(),
        "slice" => "[self].slice(0, 1).size() == 1".to_owned(),
        "flatten" => "[[self]].flatten().size() == 1".to_owned(),
        "sortBy" => "[self].sortBy(item, item).size() == 1".to_owned(),
        "first" | "last" => format!("[self].{function}().hasValue()"),
        method => format!("[self].{method}().size() == 1"),
    }
}

#[test]
fn api_server_accepts_a_function_in_a_rule_from_the_version_on_that_inspect_names() {
    let env = Env::empty();
    let version: Value = serde_json::from_str(&env.kubectl(&["get", "--raw", "/version"])).expect("JSON");
    let minor: u32 = text(&version, "/minor").parse().expect("a minor version");
    let mut wrong = Vec::new();
    for (needed, functions) in windlass_core::plugin::schema::functions::FUNCTIONS {
        for function in functions {
            let rule = expression(function);
            let field = json!({ "type": "string", "maxLength": 10, "x-kubernetes-validations": [{ "rule": rule }] });
            let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": { "field": field } } } });
            let version =
                json!({ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } });
            let names = json!({ "plural": "calls", "singular": "call", "kind": "Call", "listKind": "CallList" });
            let definition = json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": { "name": "calls.functions.example" },
                "spec": { "group": "functions.example", "scope": "Namespaced", "names": names, "versions": [version] },
            });
            let args = ["create", "--dry-run=server", "-f", "-"];
            let created = env.cluster().kubectl_with_input(&args, &definition.to_string());
            if created.is_ok() != (minor >= needed) {
                wrong.push(format!(
                    "{function} ({needed}) on {minor}: {:?}",
                    created.err().map(|error| format!("{error:#}"))
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
