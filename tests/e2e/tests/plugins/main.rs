//! The Plugin resource: its conditions name what is missing, and changes of its spec take effect.

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::too_many_lines)]

mod push;

use serde_json::{Value, json};
use windlass_e2e::{AuditEvent, Env, HOST_USER, SYSTEM_NAMESPACE, TIMEOUT, condition, guest, text, wait};

/// The page of the docs that prints the Plugin.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/plugin.md");

/// The page with this output after a command. `None` if the page does not print the command.
fn with_output(page: &str, command: &str, output: &str) -> Option<String> {
    let (before, rest) = page.split_once(&format!("$ {command}\n"))?;
    let (_, after) = rest.split_once("```\n")?;
    let lines: Vec<_> = output.trim_end().lines().map(str::trim_end).collect();
    Some(format!("{before}$ {command}\n{}\n```\n{after}", lines.join("\n")))
}

/// The objects that `windlass push --create-rbac` would write.
fn all_pushed(env: &Env) -> Vec<Value> {
    let echo = guest("echo");
    let args = ["push", &echo.to_string_lossy(), "--name", "echo", "--create-rbac", "--dry-run=client", "-o", "json"];
    let mut list: Value = serde_json::from_str(&env.windlass(&args)).expect("JSON");
    serde_json::from_value(list["items"].take()).expect("a list")
}

/// One of these objects.
fn pushed(env: &Env, kind: &str, name: &str) -> Value {
    let found = all_pushed(env).into_iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}"))
}

/// The role of the plugin's ServiceAccount.
const ACCOUNT_ROLE: &str = "windlass-plugin-echo:account";
/// That ServiceAccount, as the API server names it.
const ACCOUNT_USER: &str = "system:serviceaccount:windlass-system:windlass-plugin-echo";

/// Lets the plugin's ServiceAccount write the status of Echoes, which `windlass push` leaves to the administrator.
fn allow_status(env: &Env) {
    let metadata = json!({"name": "echo-status"});
    let rules = json!([{"apiGroups": ["my-operator.dev"], "resources": ["echoes/status"], "verbs": ["patch"]}]);
    let objects = [
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "echo-status"},
            "subjects": [{"kind": "ServiceAccount", "name": "windlass-plugin-echo", "namespace": SYSTEM_NAMESPACE}],
        }),
    ];
    for object in objects {
        env.apply(&object.to_string());
    }
}

/// `UPDATE_EXPECT=1` writes the page.
#[test]
fn docs_print_the_plugin_resource_as_kubectl_does() {
    let env = Env::start();
    let page = std::fs::read_to_string(PAGE).expect("the page");
    let explain = || env.try_kubectl(&["explain", "plugins.spec", "--recursive"]).ok();
    let explained = wait("the API server to publish the schema", TIMEOUT, explain);
    let explained =
        with_output(&page, "kubectl explain plugins.spec --recursive", &explained).expect("the page has the command");
    expect_test::expect_file![PAGE].assert_eq(&explained);

    // The rows depend on the cluster; the columns do not.
    let columns = |text: &str| {
        let header = text.lines().next().expect("a header").split("  ").map(|column| column.trim().to_owned());
        header.filter(|column| !column.is_empty()).collect::<Vec<_>>()
    };
    let printed = page.split_once("$ kubectl get plugins -o wide\n").expect("the page has the command").1;
    env.apply(&pushed(&env, "Plugin", "echo").to_string());
    let found = env.kubectl(&["get", "plugins", "-o", "wide"]);
    assert_eq!(columns(printed), columns(&found), "{found}");
}

#[test]
fn plugin_conditions_name_each_missing_requirement_until_the_plugin_is_ready() {
    let env = Env::start();
    let _host = env.start_host();
    let mut plugin = pushed(&env, "Plugin", "echo");
    plugin["spec"]["installCRD"] = false.into();
    env.apply(&plugin.to_string());
    let wait_missing = |kind: &'static str, reason: &'static str| {
        env.wait_plugin("echo", move |plugin| {
            condition(plugin, kind).is_false(reason) && condition(plugin, "Ready").is_false(reason)
        })
    };

    let plugin = wait_missing("Fetched", "SourceNotFound");
    assert!(condition(&plugin, "Fetched").message.contains("windlass-system/echo"), "{plugin:#}");
    assert_eq!(condition(&plugin, "Compiled").status, "Unknown");

    // The ConfigMap is created without `windlass push`.
    let file = format!("--from-file=plugin.wasm={}", guest("echo").display());
    env.kubectl(&["-n", SYSTEM_NAMESPACE, "create", "configmap", "echo", &file]);
    let plugin = wait_missing("Granted", "ParentKindMissing");
    assert!(condition(&plugin, "Fetched").is_true() && condition(&plugin, "Compiled").is_true(), "{plugin:#}");
    assert!(condition(&plugin, "Granted").message.contains("echoes.my-operator.dev"), "{plugin:#}");

    env.apply(&env.windlass(&["crd", &guest("echo").to_string_lossy()]));
    let plugin = wait_missing("Granted", "Forbidden");
    assert!(condition(&plugin, "Granted").message.contains("Echo"), "{plugin:#}");
    assert!(plugin["status"]["activeDigest"].is_null(), "{plugin:#}");

    // The CRD was not installed for this Plugin, so its ServiceAccount needs the permission to list the parents.
    env.apply(&pushed(&env, "ClusterRole", "windlass-plugin-echo").to_string());
    let denied = format!("{ACCOUNT_USER} may not list Echo.v1.my-operator.dev");
    let plugin = env.wait_plugin("echo", |plugin| {
        let granted = condition(plugin, "Granted");
        granted.is_false("Forbidden") && granted.message.contains(&denied)
    });
    assert!(plugin["status"]["activeDigest"].is_null(), "{plugin:#}");

    for object in all_pushed(&env).iter().filter(|object| object["kind"] != "Plugin" && object["kind"] != "ConfigMap") {
        env.apply(&object.to_string());
    }
    // The ServiceAccount also needs the permission to write their status.
    let denied = format!("{ACCOUNT_USER} may not patch Echo.v1.my-operator.dev/status cluster-wide");
    env.wait_plugin("echo", |plugin| {
        let granted = condition(plugin, "Granted");
        granted.is_false("Forbidden") && granted.message.contains(&denied)
    });
    let ns = env.namespace("comes-up");
    ns.echo("early", 1, "nginx:1");
    env.wait("the Pod of early", TIMEOUT, || ns.get("pods", "early-0"));
    let mark = env.mark();
    allow_status(&env);
    env.wait_plugin("echo", |plugin| condition(plugin, "Granted").is_true());
    ns.wait_settled("early");
    let statuses = env.audit().since(mark).expect("a readable audit log").resource("echoes").attempted_writes();
    let statuses: Vec<_> = statuses.iter().filter(|write| write.subresource == "status").cloned().collect();
    assert!(!statuses.is_empty() && statuses.iter().all(|write| write.impersonated.as_deref() == Some(ACCOUNT_USER)));
    assert!(statuses.iter().all(|write| write.query("force") != Some("true")), "{statuses:#?}");
    let before = env.audit().entries().expect("a readable audit log").resource("echoes").attempted_writes();
    let by_host = |write: &&AuditEvent| write.subresource == "status" && write.impersonated.is_none();
    assert_eq!(before.iter().filter(by_host).count(), 0, "{before:#?}");
    // Columns are separated by at least two blanks; a column name may contain one.
    let table = env.kubectl(&["get", "plugins.windlass.dev", "-o", "wide"]);
    let rows: Vec<Vec<_>> =
        table.lines().map(|row| row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()).collect();
    let columns = [
        "NAME",
        "READY",
        "STATUS",
        "VERSION",
        "PARENT KIND",
        "PARENTS",
        "FAILING",
        "DIGEST",
        "SOURCE",
        "MESSAGE",
        "AGE",
    ];
    assert_eq!(rows[0], columns, "{table}");
    assert_eq!(rows[1][..3], ["echo", "True", "Succeeded"], "{table}");
    assert_eq!(rows[1][8], "echo", "column SOURCE has the name of the source: {table}");
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");
}

#[test]
fn pinned_digest_without_a_matching_component_is_rejected_and_the_live_component_stays() {
    let env = Env::start();
    let _host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    let live = env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("pinned");
    ns.echo("web", 1, "nginx:1");
    ns.wait_settled("web");

    let pin = |digest: &str| {
        let patch = json!({"spec": {"digest": digest}}).to_string();
        env.kubectl(&["patch", "plugins.windlass.dev", "echo", "--type=merge", "-p", &patch]);
    };
    let other = format!("sha256:{}", "0".repeat(64));
    pin(&other);
    let refused = env.wait_plugin("echo", |plugin| condition(plugin, "Fetched").is_false("DigestMismatch"));
    assert!(
        condition(&refused, "Available").is_true() && condition(&refused, "Ready").is_false("DigestMismatch"),
        "{refused:#}"
    );
    assert_eq!(text(&refused, "/status/activeDigest"), live);
    for digest in [&other, &live] {
        assert!(condition(&refused, "Fetched").message.contains(digest.as_str()), "{refused:#}");
    }
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");

    pin(&live);
    env.wait_plugin("echo", |plugin| condition(plugin, "Fetched").is_true() && condition(plugin, "Ready").is_true());
}

#[test]
fn deleted_plugin_leaves_its_children_and_readopts_them_when_recreated() {
    let env = Env::start();
    let host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("unplugged");
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");
    let before = ns.pods();

    env.kubectl(&["delete", "plugins.windlass.dev", "echo", "--wait=true"]);
    let mark = env.mark();
    wait("the host to unload the component", TIMEOUT, || host.log().contains("no longer live").then_some(()));
    ns.echo("web", 3, "nginx:2");
    ns.kubectl(&["label", "pod", "web-0", "app-"]);
    assert_eq!(ns.pod_names(), ["web-0", "web-1"]);

    // While there was no Plugin, the host wrote nothing. The new Plugin applies the changes.
    assert_eq!(env.host_requests(mark).attempted_writes().to_vec(), []);
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    ns.wait_settled("web");
    assert_eq!(ns.pod_names(), ["web-0", "web-1", "web-2"]);
    for (pod, was) in ns.pods().iter().zip(before) {
        assert_eq!(pod["metadata"]["uid"], was["metadata"]["uid"], "the Pods were not recreated");
    }
}

#[test]
fn parent_whose_spec_the_plugin_calls_invalid_is_stalled_until_it_changes() {
    let env = Env::start();
    let _host = env.start_host();
    // A user's CRD allows more replicas than echo's own. The host uses it unchanged.
    let carried = env.windlass(&["crd", &guest("echo").to_string_lossy()]);
    let as_json = ["create", "--dry-run=client", "-o", "json", "-f", "-"];
    let printed = env.cluster().kubectl_with_input(&as_json, &carried).expect("a CRD");
    let mut crd: Value = serde_json::from_str(&printed).expect("JSON");
    let properties = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    assert_eq!(properties["replicas"]["maximum"], 1000, "{properties:#}");
    properties["replicas"]["maximum"] = 5000.into();
    env.apply(&crd.to_string());
    let mark = env.mark();
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    assert_eq!(env.host_requests(mark).attempted_writes().resource("customresourcedefinitions").to_vec(), []);

    allow_status(&env);
    env.wait_plugin("echo", |plugin| condition(plugin, "Granted").is_true());
    let ns = env.namespace("invalid");
    ns.echo("web", 1, "nginx:1");
    ns.wait_settled("web");
    ns.echo("web", 2000, "nginx:1");
    let echo = ns.wait_not_ready("web", "InvalidSpec");
    let stalled = condition(&echo, "Stalled");
    assert!(stalled.is_true() && stalled.message.contains("spec.replicas"), "{echo:#}");
    assert_eq!(echo["status"]["observedGeneration"], echo["metadata"]["generation"]);
    assert_eq!(echo["status"]["currentReplicas"], 1, "the plugin's part of the status stays");
    assert_eq!(ns.pod_names(), ["web-0"]);

    ns.echo("web", 2, "nginx:1");
    let echo = ns.wait_settled("web");
    assert_ne!(condition(&echo, "Stalled").status, "True");
}

#[test]
fn r06_label_that_a_new_component_drops_is_removed_from_every_pod() {
    let env = Env::start();
    let _host = env.start_host();
    env.push(&guest("echo-v2"), "echo", &[]);
    env.wait_live("echo", &guest("echo-v2"));
    let ns = env.namespace("dropped");
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");
    let before = ns.pods();
    let wait_all = |label: &'static str| {
        wait("all Pods with the label of that component", TIMEOUT, || {
            ns.pods().iter().all(|pod| text(pod, "/metadata/labels/logic") == label).then_some(())
        });
    };
    wait_all("v2");
    // The label is first owned by the POST's entry in managedFields, then by an apply's.
    for (component, label) in [("echo", ""), ("echo-v2", "v2"), ("echo", "")] {
        env.push(&guest(component), "echo", &[]);
        env.wait_live("echo", &guest(component));
        wait_all(label);
    }
    for (pod, was) in ns.pods().iter().zip(before) {
        assert_eq!(pod["metadata"]["uid"], was["metadata"]["uid"], "the Pod is changed in place");
        assert_eq!(text(pod, "/metadata/labels/app"), "web", "a label that is still desired stays");
    }
}

#[test]
fn missing_permission_of_the_plugins_account_is_reported_on_the_parent_until_it_is_granted() {
    let env = Env::start();
    let _host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    let mut role = pushed(&env, "ClusterRole", ACCOUNT_ROLE);
    for rule in role["rules"].as_array_mut().expect("rules") {
        if rule["resources"] == json!(["pods"]) {
            rule["verbs"] = json!(["get"]);
        }
    }
    env.apply_as("windlass-push", &role.to_string());
    let ns = env.namespace("rights");
    // The authorizer observes the change by a watch of its own.
    let wait_access = |user: &str, expected: &str| {
        let can_i = ["auth", "can-i", "create", "pods", "-n", ns.name(), "--as", user];
        wait("the change of the permission", TIMEOUT, || {
            // For a "no", kubectl exits with an error status, too.
            let output = env.try_kubectl(&can_i).unwrap_or_else(|error| error);
            output.trim().ends_with(expected).then_some(())
        });
    };
    wait_access(ACCOUNT_USER, "no");
    wait_access(HOST_USER, "no");

    let mark = env.mark();
    ns.echo("web", 2, "nginx:1");
    let echo = ns.wait_not_ready("web", "ChildRejected");
    let message = condition(&echo, "Ready").message;
    for word in ["403", "pods", ACCOUNT_USER, "--create-rbac"] {
        assert!(message.contains(word), "{word} is missing: {message}");
    }
    assert_eq!(env.host_writes(mark).resource("pods").to_vec(), []);
    // The next reconcile of the Plugin reports it.
    env.patch_plugin("echo", &json!({"resync": "9m"}));
    let plugin = env.wait_plugin("echo", |plugin| condition(plugin, "Granted").is_false("Forbidden"));
    let message = condition(&plugin, "Granted").message;
    assert!(message.contains("create, patch, delete Pod.v1 in any namespace of its parents"), "{message}");
    assert!(condition(&plugin, "Available").is_true(), "the component is live: {plugin:#}");
    assert!(condition(&plugin, "Ready").is_false("Forbidden"), "a Plugin without permissions is not Ready: {plugin:#}");

    env.apply_as("windlass-push", &pushed(&env, "ClusterRole", ACCOUNT_ROLE).to_string());
    wait_access(ACCOUNT_USER, "yes");
    ns.wait_settled("web");
    env.wait_plugin("echo", |plugin| condition(plugin, "Granted").is_true());
    wait_access(HOST_USER, "no");
}

#[test]
fn children_are_written_as_the_plugins_service_account_and_the_hosts_own_is_rejected() {
    let env = Env::start();
    let _host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    let live = env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("signed");
    let mark = env.mark();
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");
    ns.echo("web", 1, "nginx:2");
    ns.wait_settled("web");
    let writes = env.host_writes(mark).resource("pods");
    let verbs: std::collections::BTreeSet<_> = writes.iter().map(|write| write.verb.as_str()).collect();
    assert_eq!(verbs.into_iter().collect::<Vec<_>>(), ["create", "delete", "patch"]);
    assert!(writes.iter().all(|write| write.impersonated.as_deref() == Some(ACCOUNT_USER)), "{writes:#?}");

    // The host's own ServiceAccount has the permissions of all plugins.
    env.patch_plugin("echo", &json!({"serviceAccountName": "windlass"}));
    let refused = env.wait_plugin("echo", |plugin| condition(plugin, "Granted").is_false("InvalidSpec"));
    assert!(condition(&refused, "Granted").message.contains("the host's own"), "{refused:#}");
    assert_eq!(text(&refused, "/status/activeDigest"), live, "the live component stays");
    let mark = env.mark();
    ns.echo("web", 2, "nginx:2");
    ns.wait_settled("web");
    let writes = env.host_writes(mark).resource("pods");
    assert!(writes.iter().all(|write| write.impersonated.as_deref() == Some(ACCOUNT_USER)), "{writes:#?}");
}

#[test]
fn config_with_a_typo_is_refused_with_its_path_and_the_live_component_keeps_the_last_config() {
    let env = Env::start();
    let _host = env.start_host();
    let puppet = guest("puppets/puppet");
    env.push(&puppet, "puppet", &["--grant", "Namespace"]);
    env.wait_live("puppet", &puppet);
    env.patch_plugin("puppet", &json!({ "config": { "keepChildren": 1 } }));
    let plugin = env.patch_plugin("puppet", &json!({ "config": { "keepChildren": null, "keepChildern": 2 } }));
    let granted = condition(&plugin, "Granted");
    let words = "spec.config.keepChildern: unknown field; known are dropChildren, keepChildren,";
    assert!(granted.is_false("InvalidSpec") && granted.message.contains(words), "{plugin:#}");
    assert!(condition(&plugin, "Available").is_true(), "{plugin:#}");

    let ns = env.namespace("typo");
    let child = |name: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
    ns.puppet("web").play(&json!({ "children": [child("a"), child("b")] }));
    assert!(ns.get("configmaps", "a").is_some() && ns.get("configmaps", "b").is_none());
}
