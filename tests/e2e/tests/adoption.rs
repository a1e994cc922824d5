//! Children of several Plugins: separation, adoption by the next Plugin of a kind, and adoption of existing objects.

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use serde_json::{Value, json};
use windlass_e2e::{Env, Mark, Namespace, TIMEOUT, condition, guest, text, wait};

const POLICY: (&str, &str) = ("networkpolicies", "decoration");

fn policy(ns: &Namespace) -> Value {
    ns.get(POLICY.0, POLICY.1).expect("the policy")
}

fn writes(env: &Env, ns: &Namespace, resource: &str, since: Mark) -> Vec<(String, String)> {
    let writes = env.host_requests(since).attempted_writes().namespace(ns.name()).resource(resource);
    writes.iter().map(|write| (write.verb.clone(), write.name.clone())).collect()
}

#[test]
fn r05_two_plugins_on_one_built_in_kind_leave_each_others_children_alone() {
    let env = Env::start();
    let _host = env.start_host();
    let decorator = guest("puppets/decorator");
    env.push(&decorator, "first", &["--grant", "Namespace"]);
    env.wait_live("first", &decorator);
    let ns = env.namespace("shared");
    env.kubectl(&["label", "namespace", ns.name(), "puppets.example/decorate=true"]);
    let created = env.wait_object(POLICY.0, ns.name(), POLICY.1, |_| true);
    assert_eq!(created["metadata"]["labels"]["windlass.dev/plugin"], "first");

    // The second Plugin returns a child of the same name for the same parent.
    let mark = env.mark();
    env.push(&decorator, "second", &["--grant", "Namespace"]);
    env.wait_live("second", &decorator);
    let second = env.wait_plugin("second", |plugin| plugin["status"]["failing"] == 1);
    assert_eq!(text(&second, "/status/lastFailure/reason"), "Conflict", "{second:#}");
    // The first Plugin still reconciles the child.
    env.kubectl(&["annotate", "namespace", ns.name(), "puppets.example/deny=Egress"]);
    let changed =
        env.wait_object(POLICY.0, ns.name(), POLICY.1, |policy| policy["spec"]["policyTypes"] == json!(["Egress"]));
    assert_eq!(changed["metadata"]["labels"]["windlass.dev/plugin"], "first");
    assert_eq!(changed["metadata"]["uid"], created["metadata"]["uid"]);
    let done = writes(&env, &ns, POLICY.0, mark);
    assert!(done.iter().all(|(verb, _)| verb != "delete"), "{done:?}");

    // After the first Plugin is deleted, its child stays: Plugins do not adopt each other's children of built-in parents.
    let mark = env.mark();
    env.kubectl(&["delete", "plugins.windlass.dev", "first", "--wait=true"]);
    env.kubectl(&["annotate", "namespace", ns.name(), "puppets.example/deny=Ingress", "--overwrite"]);
    let second = env.wait_plugin("second", |plugin| plugin["status"]["failing"] == 1);
    assert_eq!(text(&second, "/status/lastFailure/reason"), "Conflict", "{second:#}");
    assert_eq!(policy(&ns)["spec"]["policyTypes"], json!(["Egress"]));
    assert!(
        writes(&env, &ns, POLICY.0, mark).iter().all(|(verb, _)| verb == "create"),
        "the host only tries to create the child"
    );
}

#[test]
fn children_of_a_deleted_plugin_are_adopted_by_the_next_plugin_of_the_parent_kind() {
    let env = Env::start();
    let _host = env.start_host();
    env.push(&guest("echo"), "old", &[]);
    env.wait_live("old", &guest("echo"));
    let ns = env.namespace("renamed");
    ns.echo("web", 3, "nginx:1");
    ns.wait_settled("web");
    let before = ns.pods();

    // The younger Plugin waits, and its condition names the older one.
    env.push(&guest("echo"), "new", &[]);
    let waiting = env.wait_plugin("new", |plugin| condition(plugin, "Granted").is_false("ParentKindTaken"));
    assert!(condition(&waiting, "Granted").message.contains("old"), "{waiting:#}");
    let mark = env.mark();
    env.kubectl(&["delete", "plugins.windlass.dev", "old", "--wait=true"]);
    env.wait_live("new", &guest("echo"));
    wait("the Pods to have the label of the new Plugin", TIMEOUT, || {
        let labels: Vec<_> = ns.pods().iter().map(|pod| text(pod, "/metadata/labels/windlass.dev~1plugin")).collect();
        labels.iter().all(|label| label == "new").then_some(())
    });
    for (pod, was) in ns.pods().iter().zip(&before) {
        assert_eq!(pod["metadata"]["uid"], was["metadata"]["uid"], "the Pod is adopted unchanged");
    }
    // The new Plugin also adopts and prunes a Pod of the old one that it does not return.
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");
    assert_eq!(ns.pod_names(), ["web-0", "web-1"]);
    let done = writes(&env, &ns, "pods", mark);
    assert_eq!(
        done.iter().filter(|(verb, _)| verb == "delete").collect::<Vec<_>>(),
        [&("delete".to_owned(), "web-2".to_owned())]
    );
}

#[test]
fn r05_existing_object_becomes_a_child_only_if_the_plugin_adopts_and_it_has_no_controller() {
    let env = Env::start();
    let _host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("adopted");
    let foreign = |name: &str, owner: &Value| {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": ns.name(), "labels": {"team": "blue"}, "ownerReferences": owner},
            "spec": {"containers": [{"name": "nginx", "image": "nginx:1"}]},
        });
        env.apply_as("somebody", &pod.to_string());
    };
    foreign("web-0", &json!([]));
    ns.kubectl(&["create", "configmap", "another-owner"]);
    let owner = ns.get("configmaps", "another-owner").expect("there");
    let owner = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "another-owner", "controller": true,
        "uid": owner["metadata"]["uid"] }]);
    foreign("owned-0", &owner);

    ns.echo("web", 1, "nginx:1");
    ns.echo("owned", 1, "nginx:1");
    for name in ["web", "owned"] {
        ns.wait_not_ready(name, "Conflict");
    }
    let uid = text(&ns.pod("web-0"), "/metadata/uid");

    env.patch_plugin("echo", &json!({ "adopt": true }));
    ns.wait_settled("web");
    let pod = ns.pod("web-0");
    assert_eq!((text(&pod, "/metadata/uid"), text(&pod, "/metadata/labels/team")), (uid, "blue".to_owned()));
    assert_eq!(text(&pod, "/metadata/ownerReferences/0/kind"), "Echo");
    ns.wait_not_ready("owned", "Conflict");
    assert!(
        ns.pod("owned-0")["metadata"]["labels"]["windlass.dev/plugin"].is_null(),
        "a Pod with another controller is not adopted"
    );
    wait("the event", TIMEOUT, || {
        let events = env.list("events", ns.name());
        events.iter().any(|event| text(event, "/message").to_lowercase().contains("adopted pod")).then_some(())
    });
}

/// A plugin sees its children, and so the token of each Secret that it adopts.
#[test]
fn s01_secret_is_adopted_unless_it_has_the_token_of_a_service_account() {
    let env = Env::start();
    let _host = env.start_host();
    let puppet = guest("puppets/puppet");
    env.push(&puppet, "puppet", &[]);
    env.patch_plugin("puppet", &json!({ "adopt": true }));
    env.wait_live("puppet", &puppet);
    let ns = env.namespace("tokens");
    ns.kubectl(&["create", "serviceaccount", "deployer"]);
    let secret = |name: &str, of: &str| {
        let annotations = json!({ "kubernetes.io/service-account.name": "deployer" });
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "type": of,
            "metadata": { "name": name, "namespace": ns.name(), "annotations": annotations } });
        env.apply_as("somebody", &secret.to_string());
    };
    secret("plain", "Opaque");
    secret("token", "kubernetes.io/service-account-token");
    for name in ["plain", "token"] {
        let child = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name } });
        let parent = json!({ "apiVersion": "puppets.example/v1", "kind": "Puppet", "spec": { "children": [child] },
            "metadata": { "name": name, "namespace": ns.name() } });
        env.apply(&parent.to_string());
    }
    let owner = |secret: &Value| text(secret, "/metadata/ownerReferences/0/kind");
    env.wait_object("secrets", ns.name(), "plain", |secret| owner(secret) == "Puppet");
    let parent = env.wait_object("puppets.puppets.example", ns.name(), "token", |parent| {
        condition(parent, "Ready").is_false("Conflict")
    });
    let token = ns.get("secrets", "token").expect("the Secret");
    assert!(token["metadata"]["labels"].is_null() && owner(&token).is_empty(), "{token:#}\n{parent:#}");
}
