//! The rights that the host needs, right by right: generated into manifests/, and for each plugin by
//! `windlass push --create-rbac`.
//!
//! The host's ClusterRole is aggregated: it grows by the roles labelled for it, one for each plugin, so that nobody
//! grants it `*/*/*`.

use serde_json::{Value, json};
use windlass_core::contract::{Descriptor, Parent};

/// Label by which a ClusterRole becomes part of the host's.
pub const AGGREGATE_LABEL: &str = "windlass.dev/aggregate-to-host";
/// The host's ServiceAccount, Role and ClusterRole.
pub const HOST: &str = "windlass";

/// The host's ServiceAccount and roles, as Kubernetes objects in the order in which they are applied.
pub fn host_objects(namespace: &str) -> Vec<Value> {
    let subject = json!([{"kind": "ServiceAccount", "name": HOST, "namespace": namespace}]);
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": HOST, "namespace": namespace}}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": HOST},
            // No `rules`: they are the aggregating controller's, and a second apply would conflict with it.
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {AGGREGATE_LABEL: "true"}}]},
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "windlass-host", "labels": {AGGREGATE_LABEL: "true"}},
            "rules": [
                rule("windlass.dev", &["plugins"], &["get", "list", "watch"]),
                rule("windlass.dev", &["plugins/status"], &["patch"]),
                // The parent kinds' definitions: which versions and status fields they have.
                rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["get", "list", "watch"]),
                // Only for Plugins with installCRD: a server-side apply that creates needs both.
                rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["create", "patch"]),
            ],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": HOST},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": HOST},
            "subjects": subject,
        }),
        // Components are read from the host's own namespace; another one needs such a Role of its own.
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": HOST, "namespace": namespace},
            "rules": [rule("", &["configmaps"], &["get", "list", "watch"])],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": HOST, "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": HOST},
            "subjects": subject,
        }),
    ]
}

/// What the host needs for one plugin: to watch its parents and write their status, and to own its children.
///
/// # Errors
/// If the descriptor names no parent kind that can be granted.
pub fn plugin_role(name: &str, descriptor: &Descriptor, resources: &[(String, String)]) -> anyhow::Result<Value> {
    let Parent::Custom(definition) = &descriptor.parent else {
        anyhow::bail!("only plugins with a kind of their own can be granted rights");
    };
    let definition: Value = serde_json::from_slice(definition)?;
    let at = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (group, plural) = (at("/spec/group"), at("/spec/names/plural"));
    let mut rules = vec![
        rule(group, &[plural], &["get", "list", "watch"]),
        rule(group, &[&format!("{plural}/status")], &["patch"]),
        // An owner reference with blockOwnerDeletion takes this where OwnerReferencesPermissionEnforcement is on.
        rule(group, &[&format!("{plural}/finalizers")], &["update"]),
    ];
    for (group, plural) in resources {
        rules.push(rule(group, &[plural], &["get", "list", "watch", "create", "patch", "delete"]));
    }
    Ok(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": format!("windlass-plugin-{name}"), "labels": {AGGREGATE_LABEL: "true"}},
        "rules": rules,
    }))
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}
