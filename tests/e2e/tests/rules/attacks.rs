//! Attacks by a plugin's response, on a real API server: each attempt is rejected with its reason, and the audit log shows
//! that nothing was written for it. Attempts to read Secrets of other namespaces are in `escape.rs`.

use serde_json::{Value, json};
use windlass_e2e::{AuditEvent, Puppet, SYSTEM_NAMESPACE, condition, text};

use crate::scripts::config_map;
use crate::{children, names, puppets, stage, wait_names};

/// An object of any kind, with further metadata.
fn child(api_version: &str, kind: &str, metadata: &Value) -> Value {
    let mut child = json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": "loot" } });
    let metadata = metadata.as_object().expect("metadata").clone();
    child["metadata"].as_object_mut().expect("an object").extend(metadata);
    child
}

#[test]
fn s01_response_that_reaches_beyond_the_plugins_own_children_is_rejected_and_writes_nothing() {
    let ns = puppets("attacks");
    let none = json!({});
    let annotated = |key: &str, value: &str| json!({ "annotations": { key: value } });
    let labelled = |key: &str, value: &str| json!({ "labels": { key: value } });
    let token = {
        let mut token = child("v1", "Secret", &annotated("kubernetes.io/service-account.name", "default"));
        token["type"] = "kubernetes.io/service-account-token".into();
        token
    };
    let named = |name: &str| child("v1", "ConfigMap", &json!({ "name": name }));
    let owner =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "kube-root-ca.crt", "uid": "u", "controller": true });
    let attempts = [
        // Tokens of ServiceAccounts.
        ("token-secret", token, "serviceAccountTokens"),
        ("token-request", child("authentication.k8s.io/v1", "TokenRequest", &none), "TokenRequest"),
        // Kinds of other plugins and of the host.
        ("others-kind", child("my-operator.dev/v1", "Echo", &none), "Echo"),
        ("own-kind", child("puppets.example/v1", "Puppet", &none), "Puppet"),
        ("plugin", child("windlass.dev/v1alpha1", "Plugin", &none), "Plugin"),
        // A role that would be aggregated to the host's role.
        (
            "aggregated-role",
            child("rbac.authorization.k8s.io/v1", "ClusterRole", &labelled("windlass.dev/aggregate-to-host", "true")),
            "ClusterRole",
        ),
        ("definition", child("apiextensions.k8s.io/v1", "CustomResourceDefinition", &none), "CustomResourceDefinition"),
        // Deletions by the garbage collector and finalizers.
        ("owner", child("v1", "ConfigMap", &json!({ "ownerReferences": [owner] })), "ownerReferences"),
        ("finalizer", child("v1", "ConfigMap", &json!({ "finalizers": ["windlass.dev/puppet"] })), "finalizers"),
        ("foreground", child("v1", "ConfigMap", &json!({ "finalizers": ["foregroundDeletion"] })), "finalizers"),
        // The marks of other plugins' children, and annotations for users.
        ("mark", child("v1", "ConfigMap", &annotated("windlass.dev/mark", "1:00")), "windlass.dev/mark"),
        (
            "retained",
            child("v1", "ConfigMap", &annotated("windlass.dev/retained-for", "x")),
            "windlass.dev/retained-for",
        ),
        ("others-label", child("v1", "ConfigMap", &labelled("windlass.dev/plugin", "echo")), "windlass.dev/plugin"),
        ("permission", child("v1", "ConfigMap", &annotated("windlass.dev/allow-deletion", "x")), "allow-deletion"),
        ("part-of-push", child("v1", "ConfigMap", &labelled("windlass.dev/part-of", "echo")), "windlass.dev/part-of"),
        // Names that would change the path of the request.
        ("percent", named("..%2f..%2fsecrets%2fcrown"), "%2f"),
        ("slash", named("loot/status"), "loot/status"),
        ("dots", named(".."), "name"),
        // Other namespaces.
        ("system", child("v1", "ConfigMap", &json!({ "namespace": SYSTEM_NAMESPACE })), SYSTEM_NAMESPACE),
        ("kube-system", child("v1", "ConfigMap", &json!({ "namespace": "kube-system" })), "kube-system"),
    ];
    let mark = ns.env().mark();
    // Each response also has a valid child: one invalid child prevents all writes.
    for (name, attempt, _) in &attempts {
        ns.puppet(name).apply(&children([config_map("${name}-good", "1"), attempt.clone()]));
    }
    for (name, _, words) in &attempts {
        let is_malformed = ["percent", "slash", "dots"].contains(name);
        let ready = ns.puppet(name).wait_reason(if is_malformed { "MalformedResponse" } else { "ResponseRejected" });
        assert!(ready.message.contains(words), "{name}: {words:?} is not in {ready:?}");
    }
    assert_eq!(names(&ns, "configmaps"), [""; 0]);
    // No parent has such a name, so a child of the parents' own kind is counted, too.
    let is_loot = |write: &AuditEvent| ["loot", "good", "crown"].iter().any(|word| write.name.contains(word));
    let written = ns.env().host_requests(mark).attempted_writes().filter(is_loot);
    assert_eq!(written.to_vec(), []);
}

#[test]
fn s01_cluster_scoped_parent_has_no_child_in_namespaces_of_the_host_or_the_control_plane() {
    let env = stage().with("puppet-cluster");
    let ns = env.namespace("attacks-cluster");
    let puppet = Puppet::new(env, "ClusterPuppet", "", ns.name());
    let mark = env.mark();
    for namespace in [SYSTEM_NAMESPACE, "kube-system", "kube-public", "kube-node-lease"] {
        puppet.apply(&children([child("v1", "ConfigMap", &json!({ "namespace": namespace }))]));
        let refused = puppet.wait(|parent| {
            let ready = condition(parent, "Ready");
            ready.is_false("ResponseRejected") && ready.observed_generation == parent["metadata"]["generation"].as_i64()
        });
        let message = condition(&refused, "Ready").message;
        assert!(message.contains(namespace), "{message}");
    }
    let written = env.host_requests(mark).attempted_writes().filter(|write| write.name == "loot");
    assert_eq!(written.to_vec(), []);
    // In another namespace the child is created.
    let mut fine = config_map("fine", "1");
    fine["metadata"]["namespace"] = ns.name().into();
    puppet.play(&children([fine]));
    wait_names(&ns, "configmaps", &["fine"]);
    let mark = text(&ns.get("configmaps", "fine").expect("the child"), "/metadata/annotations/windlass.dev~1mark");
    assert!(mark.starts_with("1:"), "{mark:?}");
}
