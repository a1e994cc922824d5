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
                // Whether a Plugin's ServiceAccount may read what the plugin requires.
                rule("authorization.k8s.io", &["subjectaccessreviews"], &["create"]),
                // On parents, wherever they are; a repetition is counted by a patch.
                rule("events.k8s.io", &["events"], &["create", "patch"]),
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

/// A resource, as rules name it: API group and plural.
pub type Resource = (String, String);

/// The kind of the parents whose definition a plugin brings along.
///
/// # Errors
/// If the definition is no JSON.
pub fn own_parent(definition: &[u8]) -> anyhow::Result<Resource> {
    let definition: Value = serde_json::from_slice(definition)?;
    let at = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok((at("/spec/group"), at("/spec/names/plural")))
}

/// What the host needs for one plugin: to watch its parents, to write the status of those that are its own and the
/// finalizer if it has one, to own its children, and to watch what it may require.
pub fn plugin_role(
    name: &str,
    descriptor: &Descriptor,
    parent: &Resource,
    children: &[Resource],
    related: &[Resource],
) -> Value {
    let (group, plural) = parent;
    let mut verbs = vec!["get", "list", "watch"];
    if descriptor.finalizes {
        // The finalizer is set and removed by it; there is no right to that alone.
        verbs.push("patch");
    }
    let mut rules = vec![rule(group, &[plural], &verbs)];
    if matches!(descriptor.parent, Parent::Custom(_)) {
        rules.push(rule(group, &[&format!("{plural}/status")], &["patch"]));
    }
    // An owner reference with blockOwnerDeletion takes this where OwnerReferencesPermissionEnforcement is on.
    rules.push(rule(group, &[&format!("{plural}/finalizers")], &["update"]));
    for (group, plural) in children {
        rules.push(rule(group, &[plural], &["get", "list", "watch", "create", "patch", "delete"]));
    }
    for (group, plural) in related {
        rules.push(rule(group, &[plural], &["list", "watch"]));
    }
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": format!("windlass-plugin-{name}"), "labels": {AGGREGATE_LABEL: "true"}},
        "rules": rules,
    })
}

/// The ServiceAccount that a plugin has unless its Plugin names another.
pub fn plugin_account(name: &str) -> String {
    format!("windlass-plugin-{name}")
}

/// A plugin's ServiceAccount, and its right to read what the plugin may require. In all namespaces, since parents may be
/// in any of them; who wants it narrower binds the same ClusterRole in some namespaces instead.
pub fn reader_objects(name: &str, account: &str, namespace: &str, related: &[Resource]) -> Vec<Value> {
    let role = format!("windlass-plugin-{name}-reader");
    let rules: Vec<_> = related.iter().map(|(group, plural)| rule(group, &[plural], &["get", "list"])).collect();
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": namespace}}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": role},
            "rules": rules,
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        }),
    ]
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

#[cfg(test)]
mod tests {
    use windlass_core::ids::Gvk;

    use super::*;

    fn secrets() -> Resource {
        (String::new(), "secrets".to_owned())
    }

    fn own() -> Parent {
        Parent::Custom(br#"{"spec":{"group":"my-operator.dev","names":{"plural":"echoes"}}}"#.to_vec())
    }

    fn namespaces() -> Parent {
        Parent::Existing { kind: Gvk::from_api_version("v1", "Namespace"), selector: None }
    }

    fn role(parent: Parent, finalizes: bool) -> Value {
        let resource = match &parent {
            Parent::Custom(definition) => own_parent(definition).expect("JSON"),
            Parent::Existing { .. } => (String::new(), "namespaces".to_owned()),
        };
        let descriptor = Descriptor {
            name: "echo".to_owned(),
            version: "1.0.0".to_owned(),
            description: String::new(),
            parent,
            children: Vec::new(),
            related: Vec::new(),
            finalizes,
            resync: None,
            config_schema: None,
            metrics: Vec::new(),
        };
        plugin_role("echo", &descriptor, &resource, &[(String::new(), "pods".to_owned())], &[secrets()])
    }

    /// Each rule as groups, resources and verbs.
    fn rules(parent: Parent, finalizes: bool) -> Vec<String> {
        let role = role(parent, finalizes);
        let words = |value: &Value| {
            value.as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
        };
        let rules = role["rules"].as_array().expect("rules").iter();
        rules.map(|rule| ["apiGroups", "resources", "verbs"].map(|field| words(&rule[field])).join(" ")).collect()
    }

    const CHILDREN: &str = " pods get,list,watch,create,patch,delete";
    const RELATED: &str = " secrets list,watch";

    #[test]
    fn a_kind_of_its_own_has_its_status_written_and_its_finalizer_only_if_it_finalizes() {
        let rest =
            ["my-operator.dev echoes/status patch", "my-operator.dev echoes/finalizers update", CHILDREN, RELATED]
                .map(str::to_owned);
        for (finalizes, verbs) in [(false, "get,list,watch"), (true, "get,list,watch,patch")] {
            let found = rules(own(), finalizes);
            assert_eq!(found[0], format!("my-operator.dev echoes {verbs}"));
            assert_eq!(found[1..], rest);
        }
    }

    #[test]
    fn the_status_of_somebody_elses_kind_is_not_written() {
        let found = rules(namespaces(), false);
        assert_eq!(found, [" namespaces get,list,watch", " namespaces/finalizers update", CHILDREN, RELATED]);
        assert_eq!(rules(namespaces(), true)[0], " namespaces get,list,watch,patch");
    }

    #[test]
    fn related_kinds_are_watched_by_the_host_and_read_by_the_plugin_and_never_written() {
        let on_secrets = |role: &Value| {
            let rules = role["rules"].as_array().expect("rules").iter();
            let verbs: Vec<_> =
                rules.filter(|rule| rule["resources"][0] == "secrets").map(|rule| &rule["verbs"]).collect();
            json!(verbs)
        };
        assert_eq!(on_secrets(&role(own(), false)), json!([["list", "watch"]]));
        let reader = reader_objects("echo", "reader", "windlass-system", &[secrets()]);
        assert_eq!(on_secrets(&reader[1]), json!([["get", "list"]]));
        assert_eq!(reader[1].pointer("/metadata/labels"), None, "not the host's");
        assert_eq!(reader[0]["metadata"], json!({"name": "reader", "namespace": "windlass-system"}));
        assert_eq!(reader[2]["subjects"][0]["name"], "reader");
        assert_eq!(reader[2]["roleRef"]["name"], reader[1]["metadata"]["name"]);
    }
}
