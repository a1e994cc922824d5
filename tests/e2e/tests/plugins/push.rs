//! `windlass push` and `remove`: what they wait for, refuse and delete.

use serde_json::json;
use windlass_e2e::{Env, SYSTEM_NAMESPACE, TIMEOUT, condition, guest, text, wait};

#[test]
fn push_waits_for_ready_or_names_the_obstacle_and_remove_deletes_what_push_wrote() {
    let env = Env::start();
    let host = env.start_host();
    let push = |component: &str, more: &[&str]| {
        let component = guest(component).to_string_lossy().into_owned();
        env.try_windlass(&[&["push", &component, "--name", "echo", "--create-rbac"], more].concat())
    };
    assert!(push("echo", &[]).expect("Ready").contains("Plugin echo: Ready with sha256:"));
    let plugin = env.get("plugins.windlass.dev", "", "echo").expect("the Plugin");
    assert!(condition(&plugin, "Ready").is_true(), "{plugin:#}");
    assert_eq!(plugin["status"]["reconciledDigest"], plugin["status"]["activeDigest"], "{plugin:#}");
    let map = env.get("configmaps", SYSTEM_NAMESPACE, "echo").expect("the ConfigMap");
    assert_eq!(
        map["metadata"]["ownerReferences"][0]["uid"], plugin["metadata"]["uid"],
        "the ConfigMap is owned by the Plugin"
    );
    let ns = env.namespace("pushed");
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");

    // A Plugin that the API server rejects leaves no ConfigMap.
    let long = "x".repeat(60);
    let refused = env.try_windlass(&["push", &guest("echo").to_string_lossy(), "--name", &long]).expect_err("too long");
    assert!(refused.starts_with("exit status: 3"), "{refused}");
    assert!(env.get("configmaps", SYSTEM_NAMESPACE, &long).is_none());

    push("echo-v2", &["--timeout", "2m"]).expect("Ready");
    let annotate = |word: &str| env.kubectl(&["annotate", "plugins.windlass.dev", "echo", word]);
    annotate("windlass.dev/rollback=true");
    env.wait_plugin("echo", |plugin| condition(plugin, "Ready").is_false("RolledBack"));
    let not_ready = push("echo-v2", &[]).expect_err("rolled back");
    assert!(not_ready.starts_with("exit status: 5"), "{not_ready}");
    assert!(not_ready.contains("windlass.dev/rollback; remove it to go on: kubectl annotate"), "{not_ready}");
    annotate("windlass.dev/rollback-");
    push("echo-v2", &[]).expect("Ready once more");

    env.apply_as(
        "kubectl",
        &json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "Plugin", "metadata": {"name": "others"},
            "spec": {"source": {"configMap": {"namespace": SYSTEM_NAMESPACE, "name": "none"}}},
        })
        .to_string(),
    );
    let refused = env.try_windlass(&["remove", "others"]).expect_err("the Plugin was not written by push");
    assert!(refused.contains("was not written by `windlass push`"), "{refused}");
    // S7: a push overwrites neither that Plugin nor, without --name, an existing one.
    let before =
        ["others", "echo"].map(|name| env.get("plugins.windlass.dev", "", name).expect("a Plugin")["spec"].take());
    let component = guest("echo").to_string_lossy().into_owned();
    let refused =
        env.try_windlass(&["push", &component, "--name", "others"]).expect_err("the Plugin was not written by push");
    assert!(refused.contains("Plugin others was not written by") && refused.contains("--overwrite"), "{refused}");
    let refused = env.try_windlass(&["push", &component]).expect_err("--name is missing");
    assert!(refused.contains("--name echo"), "{refused}");
    let after =
        ["others", "echo"].map(|name| env.get("plugins.windlass.dev", "", name).expect("a Plugin")["spec"].take());
    assert_eq!(before, after);
    let listed = env.windlass(&["remove", "echo", "--dry-run=client"]);
    for what in ["Plugin echo", "ConfigMap windlass-system/echo", "ClusterRole windlass-plugin-echo:account"] {
        assert!(listed.contains(&format!("would delete {what}")), "{what}: {listed}");
    }
    assert!(env.get("plugins.windlass.dev", "", "echo").is_some(), "a dry run deletes nothing");

    env.windlass(&["remove", "echo", "--delete-children"]);
    assert!(env.get("plugins.windlass.dev", "", "echo").is_none());
    wait("the children to go", TIMEOUT, || ns.pod_names().is_empty().then_some(()));
    assert!(ns.get("echoes", "web").is_some(), "parents stay");
    let left = |resource: &str, namespace: &str| {
        let all = env.list(resource, namespace);
        let names = all.iter().map(|object| text(object, "/metadata/name"));
        names.filter(|name| name.contains("plugin-echo") || name == "echo").collect::<Vec<_>>()
    };
    for resource in ["configmaps", "serviceaccounts", "roles", "rolebindings"] {
        assert_eq!(left(resource, SYSTEM_NAMESPACE), [""; 0], "{resource}");
    }
    for resource in ["clusterroles", "clusterrolebindings"] {
        assert_eq!(left(resource, ""), [""; 0], "{resource}");
    }
    let nothing = env.try_windlass(&["remove", "echo"]).expect_err("the Plugin is already deleted");
    assert!(nothing.contains("there is no Plugin echo"), "{nothing}");

    host.terminate();
    let late = push("echo", &["--timeout", "1s"]).expect_err("no host runs");
    assert!(late.starts_with("exit status: 4") && late.contains("has not acted on this push"), "{late}");
    assert!(late.contains("no host runs: nobody holds Lease") || late.contains("holds the Lease"), "{late}");
}

#[test]
fn u01_component_whose_crd_drops_a_field_is_rejected_until_a_user_allows_it() {
    let env = Env::start();
    let _host = env.start_host();
    env.push(&guest("echo-wide"), "echo", &[]);
    env.wait_live("echo", &guest("echo-wide"));
    let ns = env.namespace("narrower");
    let mut echo = ns.echo_manifest("web", 1, "nginx:1");
    echo["spec"]["note"] = json!("kept");
    env.apply(&echo.to_string());
    ns.wait_settled("web");
    let note = || ns.get("echoes", "web").expect("the parent")["spec"]["note"].take();

    let component = guest("echo").to_string_lossy().into_owned();
    let push = ["push", &component, "--name", "echo", "--create-rbac"];
    let before = env.get("plugins.windlass.dev", "", "echo").expect("the Plugin")["spec"].take();
    let refused = env.try_windlass(&push).expect_err("the CRD drops a field");
    assert!(refused.contains("spec.note") && refused.contains("--allow-schema-narrowing"), "{refused}");
    assert_eq!(env.get("plugins.windlass.dev", "", "echo").expect("the Plugin")["spec"], before);

    // The host rejects it, too, if the objects are applied without `windlass push`, as with GitOps.
    let manifests = env.windlass(&["push", &component, "--name", "echo", "--dry-run=client", "-o", "json"]);
    env.apply_as("windlass-push", &manifests);
    let plugin = env.wait_plugin("echo", |plugin| condition(plugin, "Ready").is_false("CRDRejected"));
    assert!(condition(&plugin, "Ready").message.contains("spec.note"), "{plugin:#}");
    assert!(condition(&plugin, "Available").is_true(), "the previous component keeps running: {plugin:#}");
    // With the new CRD, the API server would drop the field at this write.
    ns.echo("other", 1, "nginx:1");
    ns.wait_settled("other");
    ns.kubectl(&["annotate", "echo", "web", "touched=true"]);
    assert_eq!(note(), "kept");

    env.windlass(&[&push[..], &["--allow-schema-narrowing"]].concat());
    env.wait_live("echo", &guest("echo"));
    ns.kubectl(&["annotate", "echo", "web", "touched=again", "--overwrite"]);
    wait("the field to be dropped", TIMEOUT, || note().is_null().then_some(()));
    ns.wait_settled("web");
}

#[test]
fn push_writes_nothing_for_a_user_who_may_not_grant_the_permissions() {
    let env = Env::start();
    env.kubectl(&["-n", "default", "create", "serviceaccount", "dev"]);
    // The account may write roles, but it lacks the permissions in them (escalation check).
    for (role, verbs, resources) in [
        ("objects", "get,list,create,patch", "plugins.windlass.dev,configmaps,serviceaccounts"),
        (
            "roles",
            "get,create,patch",
            "clusterroles.rbac.authorization.k8s.io,clusterrolebindings.rbac.authorization.k8s.io",
        ),
        ("definitions", "get", "customresourcedefinitions.apiextensions.k8s.io"),
    ] {
        let (verbs, resources) = (format!("--verb={verbs}"), format!("--resource={resources}"));
        env.kubectl(&["create", "clusterrole", role, &verbs, &resources]);
        env.kubectl(&[
            "create",
            "clusterrolebinding",
            role,
            &format!("--clusterrole={role}"),
            "--serviceaccount=default:dev",
        ]);
    }
    let kubeconfig = env.cluster().service_account_kubeconfig("default", "dev").expect("a kubeconfig");
    let component = guest("echo").to_string_lossy().into_owned();
    let push = ["push", &component, "--name", "echo", "--create-rbac", "--kubeconfig", &kubeconfig.to_string_lossy()];
    let dry_run = [&push[..], &["--dry-run=server"]].concat();
    let refused = env.try_windlass(&dry_run).expect_err("the API server rejects the role");
    assert!(refused.contains("ClusterRole windlass-plugin-echo") && refused.contains("forbidden"), "{refused}");
    let refused = env.try_windlass(&push).expect_err("the role has permissions that dev does not have");
    assert!(refused.contains("ClusterRole windlass-plugin-echo") && refused.contains("forbidden"), "{refused}");
    assert_eq!(env.get("plugins.windlass.dev", "", "echo"), None);
    assert_eq!(env.get("configmaps", SYSTEM_NAMESPACE, "echo"), None);
    assert_eq!(env.get("clusterroles", "", "windlass-plugin-echo"), None);
    // Now the account may write any role, but no binding.
    env.kubectl(&["delete", "clusterrolebinding", "roles"]);
    for (role, verbs, resources) in [
        ("any-role", "get,create,patch,escalate", "clusterroles.rbac.authorization.k8s.io"),
        ("see-bindings", "get", "clusterrolebindings.rbac.authorization.k8s.io"),
    ] {
        let (verbs, resources) = (format!("--verb={verbs}"), format!("--resource={resources}"));
        env.kubectl(&["create", "clusterrole", role, &verbs, &resources]);
        let role_of = format!("--clusterrole={role}");
        env.kubectl(&["create", "clusterrolebinding", role, &role_of, "--serviceaccount=default:dev"]);
    }
    let refused = env.try_windlass(&push).expect_err("dev may not bind the role");
    assert!(refused.contains("ClusterRoleBinding windlass-plugin-echo:account is forbidden"), "{refused}");
    assert_eq!(env.get("clusterroles", "", "windlass-plugin-echo"), None);
    assert_eq!(env.get("serviceaccounts", SYSTEM_NAMESPACE, "windlass-plugin-echo"), None);
}
