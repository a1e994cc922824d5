//! `windlass install` and `windlass uninstall`, also next to objects of other tools.

use serde_json::{Value, json};
use windlass_e2e::{SYSTEM_NAMESPACE, guest};

use super::{chart, comparable, empty, repository};

/// Installs without waiting for Pods. The nodes of the tests pull no image.
const INSTALL: [&str; 4] = ["install", "--no-wait", "--image", "registry.example/windlass:0"];

#[test]
fn windlass_install_prints_the_objects_of_the_kustomizations() {
    let cluster = empty();
    for (folder, replicas) in [("base", "1"), ("overlays/ha", "2")] {
        let folder = repository().join("manifests/kustomize").join(folder);
        let kustomization = comparable(&cluster.env.kubectl(&["kustomize", &folder.to_string_lossy()]));
        let printed = cluster.env.windlass(&["install", "--dry-run=client", "-o", "yaml", "--replicas", replicas]);
        assert_eq!(comparable(&printed), kustomization);
    }
}

#[test]
fn windlass_install_runs_a_host_and_uninstall_leaves_what_is_documented() {
    let cluster = empty();
    let env = &cluster.env;
    let mark = env.mark();
    let refused = env.try_windlass(&["install"]).expect_err("no registry has an image of this build");
    assert!(refused.contains("exit status: 3") && refused.contains("set --image IMAGE"), "{refused}");
    let validated =
        env.windlass(&["install", "--dry-run=server", "-o", "json", "--image", "registry.example/windlass:1"]);
    assert!(validated.contains("\"kind\": \"List\""));
    assert!(env.audit().since(mark).expect("an audit log").by_user("admin").writes().is_empty(), "nothing is written");

    let installed = env.windlass(&["install", "--image", "registry.example/windlass:1"]);
    assert!(installed.ends_with("Windlass 0.1.0 is installed in namespace windlass-system\n"), "{installed}");
    let pods = env.list("pods", SYSTEM_NAMESPACE);
    assert_eq!(pods.len(), 1, "the Pod is admitted and runs");
    assert_eq!(pods[0]["status"]["phase"], "Running");
    let refused = env.try_windlass(&["install", "-n", "elsewhere"]).expect_err("a second installation");
    assert!(
        refused.contains("exit status: 3") && refused.contains("is installed in namespace windlass-system"),
        "{refused}"
    );
    let refused = env.try_windlass(&["install"]).expect_err("the image of another registry");
    assert!(refused.contains("have the image registry.example/windlass:1") && refused.contains("--image"), "{refused}");

    // The Pods of this cluster run nothing: the host runs here, as the ServiceAccount that was installed.
    let host = env.start_host();
    env.push(&guest("puppets/puppet-finalizes"), "puppet-finalizes", &[]);
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("installed");
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");
    env.wait_live("puppet-finalizes", &guest("puppets/puppet-finalizes"));
    let puppet = ns.puppet_of("FinalizingPuppet", "web");
    let finalizers = puppet.play(&json!({}))["metadata"]["finalizers"].clone();
    assert_eq!(finalizers, json!(["windlass.dev/puppet-finalizes"]));

    // An upgrade keeps the number of hosts, and everything goes on.
    env.windlass(&["install", "--image", "registry.example/windlass:2", "--replicas", "2"]);
    env.windlass(&["install", "--image", "registry.example/windlass:3"]);
    assert_eq!(cluster.wait_available("windlass")["spec"]["replicas"], 2);

    let mark = env.mark();
    let refused = env.try_windlass(&["uninstall"]).expect_err("Plugins exist");
    assert!(
        refused.contains("exit status: 8") && refused.contains("there are Plugins (echo, puppet-finalizes)"),
        "{refused}"
    );
    let preview = env.windlass(&["uninstall", "--dry-run", "--delete-plugins"]);
    assert!(preview.contains("would delete Plugin echo\n"), "{preview}");
    assert!(preview.contains("would delete Deployment windlass-system/windlass\n"), "{preview}");
    assert!(env.audit().since(mark).expect("an audit log").by_user("admin").writes().is_empty());

    env.windlass(&["uninstall", "--delete-plugins"]);
    assert!(env.list("plugins.windlass.dev", "").is_empty(), "the CRD stays, without Plugins");
    assert_eq!(cluster.cluster_scoped(), Vec::<&str>::new());
    for resource in
        ["deployments", "services", "networkpolicies", "roles", "rolebindings", "poddisruptionbudgets", "pods"]
    {
        assert_eq!(env.list(resource, SYSTEM_NAMESPACE), Vec::<Value>::new(), "{resource}");
    }
    assert!(env.get("serviceaccounts", SYSTEM_NAMESPACE, "windlass").is_none());
    assert!(ns.get("echoes", "web").is_some(), "parents stay");
    assert_eq!(puppet.get().expect("parents stay")["metadata"]["finalizers"], Value::Null);
    assert_eq!(ns.pods().len(), 2, "children stay");
    assert!(env.get("namespaces", "", SYSTEM_NAMESPACE).is_some());
    drop(host);

    let nothing = env.try_windlass(&["uninstall"]).expect_err("nothing is installed");
    assert!(nothing.contains("wrote nothing that exists in namespace windlass-system"), "{nothing}");
    env.windlass(&INSTALL);
    env.windlass(&["uninstall", "--delete-crd"]);
    assert!(env.get("customresourcedefinitions", "", "plugins.windlass.dev").is_none());
    cluster.delete_namespace(SYSTEM_NAMESPACE);
}

#[test]
fn windlass_uninstall_in_another_namespace_or_of_other_tools_objects_deletes_nothing() {
    let cluster = empty();
    let env = &cluster.env;
    env.windlass(&INSTALL);
    let mark = env.mark();
    let refused = env.try_windlass(&["uninstall", "-n", "elsewhere"]).expect_err("another namespace");
    assert!(refused.contains("exit status: 3"), "{refused}");
    assert!(refused.contains("Windlass is installed in namespace windlass-system; nothing was deleted"), "{refused}");
    assert!(env.audit().since(mark).expect("an audit log").by_user("admin").writes().is_empty());

    // Objects that Flux applies as well, and one that Helm has taken over, are kept; the others are deleted.
    let policy = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": { "name": "windlass", "namespace": SYSTEM_NAMESPACE, "labels": { "app.kubernetes.io/name": "windlass" } },
        "spec": { "podSelector": { "matchLabels": { "app.kubernetes.io/name": "windlass" } } },
    });
    env.apply_as("kustomize-controller", &policy.to_string());
    env.kubectl(&["label", "-n", SYSTEM_NAMESPACE, "service/windlass-metrics", "app.kubernetes.io/managed-by=Helm"]);
    let preview = env.windlass(&["uninstall", "--dry-run"]);
    assert!(preview.contains("would delete Deployment windlass-system/windlass\n"), "{preview}");
    assert!(
        preview.contains("would delete ClusterRole windlass\n"),
        "the aggregating controller owns nothing: {preview}"
    );
    assert!(!preview.contains("NetworkPolicy") && !preview.contains("Service "), "{preview}");
    env.windlass(&["uninstall"]);
    assert!(env.get("networkpolicies", SYSTEM_NAMESPACE, "windlass").is_some());
    assert!(env.get("services", SYSTEM_NAMESPACE, "windlass-metrics").is_some());
    assert!(env.get("deployments", SYSTEM_NAMESPACE, "windlass").is_none());
    assert_eq!(cluster.cluster_scoped(), Vec::<&str>::new());

    // Without its host, nothing of an installation that kubectl applies as well is deleted.
    env.windlass(&[&INSTALL[..], &["--force-conflicts"]].concat());
    let base = repository().join("manifests/kustomize/base");
    env.kubectl(&["apply", "--server-side", "--force-conflicts", "-k", &base.to_string_lossy()]);
    let mark = env.mark();
    let refused = env.try_windlass(&["uninstall"]).expect_err("kubectl applied the Deployment");
    assert!(refused.contains("it was also applied by kubectl; nothing was deleted"), "{refused}");
    assert!(env.audit().since(mark).expect("an audit log").by_user("admin").writes().is_empty());
    env.kubectl(&["delete", "--timeout=180s", "-k", &base.to_string_lossy()]);
}

#[test]
fn windlass_install_with_a_conflict_writes_nothing_and_with_one_host_deletes_its_disruption_budget() {
    let cluster = empty();
    let env = &cluster.env;
    env.windlass(&[&INSTALL[..], &["--replicas", "2"]].concat());
    assert_eq!(env.list("poddisruptionbudgets", SYSTEM_NAMESPACE).len(), 1);
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "windlass-metrics", "namespace": SYSTEM_NAMESPACE },
        "spec": { "selector": { "app.kubernetes.io/name": "other" } },
    });
    env.apply_as("somebody", &service.to_string());
    let mark = env.mark();
    let refused = env.try_windlass(&[&INSTALL[..], &["--replicas", "1"]].concat()).expect_err("a conflict");
    assert!(refused.contains("conflict with \"somebody\"") && refused.contains("--force-conflicts"), "{refused}");
    assert!(env.audit().since(mark).expect("an audit log").by_user("admin").writes().is_empty(), "nothing is written");

    let written = env.windlass(&[&INSTALL[..], &["--replicas", "1", "--force-conflicts"]].concat());
    assert!(written.ends_with("deleted PodDisruptionBudget windlass-system/windlass\n"), "{written}");
    assert_eq!(env.list("poddisruptionbudgets", SYSTEM_NAMESPACE), Vec::<Value>::new());
    // One of somebody else stays.
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "windlass", "namespace": SYSTEM_NAMESPACE }, "spec": { "maxUnavailable": 1 },
    });
    env.apply(&budget.to_string());
    env.windlass(&INSTALL);
    assert_eq!(env.list("poddisruptionbudgets", SYSTEM_NAMESPACE).len(), 1);
    cluster.delete_namespace(SYSTEM_NAMESPACE);
    env.windlass(&["uninstall", "--delete-crd"]);
}

#[test]
fn windlass_needs_a_namespace_of_its_own() {
    let cluster = empty();
    let env = &cluster.env;
    let shared = env.namespace("shared");
    shared.kubectl(&["create", "serviceaccount", "windlass-plugin-echo"]);
    shared.kubectl(&["create", "serviceaccount", "shop"]);
    let mark = env.mark();
    for namespace in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        for more in ["--no-wait", "--dry-run=client", "--allow-shared-namespace"] {
            let refused = env.try_windlass(&["install", more, "-n", namespace]).expect_err(namespace);
            assert!(refused.contains("needs a namespace of its own"), "{refused}");
        }
        let refused = cluster.helm.run(&["template", "windlass", &chart(), "--namespace", namespace]);
        let refused = format!("{:#}", refused.expect_err(namespace));
        assert!(
            refused.contains(&format!("Windlass needs a namespace of its own, and {namespace} is shared")),
            "{refused}"
        );
    }
    let refused = env.try_windlass(&[&INSTALL[..], &["-n", shared.name()]].concat()).expect_err("a ServiceAccount");
    assert!(refused.contains("has other ServiceAccounts (shop)"), "{refused}");
    assert!(env.audit().since(mark).expect("an audit log").by_user("admin").writes().is_empty());
    env.windlass(&[&INSTALL[..], &["-n", shared.name(), "--allow-shared-namespace"]].concat());
    // The same command again upgrades, without the flag.
    env.windlass(&[&INSTALL[..], &["-n", shared.name()]].concat());
    env.windlass(&["uninstall", "--delete-crd", "-n", shared.name()]);
    cluster.delete_namespace(shared.name());
}

#[test]
fn helm_takes_over_an_installation_by_windlass_install_and_its_plugins_stay() {
    let cluster = empty();
    let env = &cluster.env;
    env.windlass(&[&INSTALL[..], &["--replicas", "2"]].concat());
    let plugin = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "Plugin", "metadata": { "name": "kept" },
        "spec": { "source": { "configMap": { "namespace": SYSTEM_NAMESPACE, "name": "kept" } } },
    });
    env.apply(&plugin.to_string());
    env.kubectl(&["-n", SYSTEM_NAMESPACE, "delete", "deployment/windlass", "poddisruptionbudget/windlass"]);
    let release = ["install", "windlass", &chart(), "--namespace", SYSTEM_NAMESPACE, "--take-ownership"];
    cluster.helm(&[&release[..], &["--force-conflicts", "--wait"]].concat());
    cluster.wait_available("windlass");
    assert!(env.get("plugins.windlass.dev", "", "kept").is_some());
    let refused = env.try_windlass(&["uninstall", "--delete-plugins"]).expect_err("Helm owns it");
    assert!(refused.contains("Deployment windlass-system/windlass is kept"), "{refused}");
    cluster.helm(&["uninstall", "windlass", "--namespace", SYSTEM_NAMESPACE, "--wait"]);
    assert_eq!(cluster.cluster_scoped(), Vec::<&str>::new());
    assert!(env.get("plugins.windlass.dev", "", "kept").is_some());
    env.kubectl(&["delete", "crd", "plugins.windlass.dev"]);
    cluster.delete_namespace(SYSTEM_NAMESPACE);
}

#[test]
fn windlass_uninstall_leaves_an_installation_by_helm_alone() {
    let cluster = empty();
    let env = &cluster.env;
    let release = ["install", "windlass", &chart(), "--namespace", SYSTEM_NAMESPACE, "--create-namespace"];
    cluster.helm(&release);
    for (args, hint) in [(["uninstall", "--dry-run"], "helm uninstall"), (["install", "--no-wait"], "helm upgrade")] {
        let mark = env.mark();
        let refused = env.try_windlass(&args).expect_err("Helm installed it");
        assert!(refused.contains("exit status: 3") && refused.contains(hint), "{refused}");
        assert!(env.audit().since(mark).expect("an audit log").by_user("admin").writes().is_empty());
    }
    cluster.helm(&["uninstall", "windlass", "--namespace", SYSTEM_NAMESPACE, "--wait"]);
    // The CRD that Helm left does not block another installation.
    env.windlass(&INSTALL);
    env.windlass(&["uninstall", "--delete-crd"]);
    assert!(env.get("customresourcedefinitions", "", "plugins.windlass.dev").is_none());
    cluster.delete_namespace(SYSTEM_NAMESPACE);
}
