//! The rights that the host needs, right by right: generated into manifests/, and for each plugin by
//! `windlass push --create-rbac`.
//!
//! The host's ClusterRole is aggregated: it grows by the roles labelled for it, one for each plugin, so that nobody
//! grants it `*/*/*`.

use serde_json::{Value, json};
use windlass_core::contract::Descriptor;

use super::definition;
use crate::cluster::access_review::{
    CHILD_VERBS, FINALIZER_VERB, FINALIZERS, PARENT_VERB, READ_VERBS, STATUS, STATUS_VERB,
};
use crate::cluster::account::HOST;
use crate::cluster::lease;
pub use crate::plugins::definition::Resource;

/// Label by which a ClusterRole becomes part of the host's.
pub const AGGREGATE_LABEL: &str = "windlass.dev/aggregate-to-host";

/// The Secret in the host's namespace that holds the key of the marks on children of cluster-scoped parents.
pub const MARK_KEY_SECRET: &str = "windlass-mark-key";

/// The host's ServiceAccount and roles, as Kubernetes objects in the order in which they are applied.
pub fn host_objects(namespace: &str) -> Vec<Value> {
    let subject = json!([{"kind": "ServiceAccount", "name": HOST, "namespace": namespace}]);
    vec![
        json!({
            "apiVersion": "v1", "kind": "Namespace",
            // A Pod here can take the host's place. The host's own fits the strictest of the Pod Security Standards.
            "metadata": {"name": namespace, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
        }),
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
                // The finalizer of those whose end has to be heard of; there is no right to that alone.
                rule("windlass.dev", &["plugins"], &["patch"]),
                rule("windlass.dev", &["plugins/status"], &["patch"]),
                // Where the admission policies are installed, for a host that runs as a user outside the cluster.
                rule("windlass.dev", &["plugins"], &["mark"]),
                // The parent kinds' definitions: which versions and status fields they have.
                rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["get", "list", "watch"]),
                // Only for Plugins with installCRD: a server-side apply that creates needs both.
                rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["create", "patch"]),
                // Only for Plugins with spec.namespaceSelector: by their labels.
                rule("", &["namespaces"], &["list", "watch"]),
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
        // Components are read from the host's own namespace; another one needs such a Role of its own for ConfigMaps.
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": HOST, "namespace": namespace},
            "rules": [
                rule("", &["configmaps"], &["get", "list", "watch"]),
                // Children are written as the Plugins' ServiceAccounts, which are here.
                rule("", &["serviceaccounts"], &["impersonate"]),
                // The key of the marks on children of cluster-scoped parents: one Secret, which is made once. A right to
                // create cannot be bound to a name.
                of_name(rule("", &["secrets"], &["get"]), MARK_KEY_SECRET),
                rule("", &["secrets"], &["create"]),
                // The Lease by which one host acts at a time. A create has no name yet.
                rule("coordination.k8s.io", &["leases"], &["create"]),
                of_name(rule("coordination.k8s.io", &["leases"], &["get", "update"]), lease::NAME),
            ],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": HOST, "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": HOST},
            "subjects": subject,
        }),
    ]
}

/// The kind of the parents whose definition a plugin brings along, and whether they live in namespaces.
///
/// # Errors
/// If the definition will not be installed: it could name any resource, or all of them.
pub fn own_parent(carried: &[u8]) -> anyhow::Result<(Resource, bool)> {
    let (carried, resource) = definition::read(carried).map_err(anyhow::Error::msg)?;
    Ok((resource, definition::text(&carried, "/spec/scope") == "Namespaced"))
}

/// Kinds that a plugin is about, as rules name them.
#[derive(Debug, Clone)]
pub struct Kinds {
    /// The kind of its parents.
    pub parent: Resource,
    /// What it may own.
    pub children: Vec<Resource>,
    /// What it may require.
    pub related: Vec<Resource>,
    /// What it owned before, and may no longer own.
    pub former: Vec<Resource>,
    /// Whether what it leaves of that goes with its Plugin.
    pub prunes: bool,
    /// Who writes the status of its parents.
    pub status: StatusWriter,
}

/// Who may write the status of the parents of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusWriter {
    /// The host: the Plugin installs the kind's CustomResourceDefinition, so there are no such objects but for it.
    Host,
    /// The Plugin's ServiceAccount: another Plugin installed the CustomResourceDefinition, whose heir this one may become.
    Account,
    /// Nobody: the kind is built in, or has another owner.
    Nobody,
}

/// What the host needs for one plugin: to watch its parents, its children and what it may require, to write the status
/// of parents that are its own, and the finalizer if it has one, or `set_finalizers` says that its parents may have one from
/// before. It writes no child itself.
pub fn plugin_role(name: &str, descriptor: &Descriptor, kinds: &Kinds, set_finalizers: bool) -> Value {
    let (group, plural) = &kinds.parent;
    let mut verbs = vec!["get", "list", "watch"];
    if descriptor.finalizes || set_finalizers {
        // The finalizer is set and removed by it; there is no right to that alone.
        verbs.push("patch");
    }
    let mut rules = vec![rule(group, &[plural], &verbs)];
    if kinds.status == StatusWriter::Host {
        rules.push(rule(group, &[&format!("{plural}/status")], &["patch"]));
    }
    // The logic before watches what is former until it is live no longer; then what is left of it is looked for.
    for (group, plural) in kinds.children.iter().chain(&kinds.related).chain(&kinds.former) {
        rules.push(rule(group, &[plural], &["list", "watch"]));
    }
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": host_role(name), "labels": {AGGREGATE_LABEL: "true"}},
        "rules": rules,
    })
}

/// The ClusterRole of what the host needs for a plugin. In the names of the other roles there is a colon, which no Plugin's name
/// can have: the role of a Plugin `echo-account` must not be one of `echo`.
pub fn host_role(name: &str) -> String {
    format!("windlass-plugin-{name}")
}

/// The ClusterRole of a plugin's ServiceAccount, and its binding.
pub fn account_role(name: &str) -> String {
    format!("windlass-plugin-{name}:account")
}

/// The Role by which the host reads the credentials for a plugin's registry, and its binding.
pub fn source_role(name: &str) -> String {
    format!("windlass-plugin-{name}:source")
}

/// A plugin's ServiceAccount, and its rights: to write its children, and to read what it may require. In all namespaces,
/// since parents may be in any of them; who wants it narrower binds the same ClusterRole in some namespaces instead.
pub fn account_objects(name: &str, account: &str, namespace: &str, kinds: &Kinds) -> Vec<Value> {
    let role = account_role(name);
    let (group, plural) = &kinds.parent;
    // An owner reference with blockOwnerDeletion takes this where OwnerReferencesPermissionEnforcement is on; and so does the
    // plugin's finalizer, unless the Plugin brought the definition along.
    let owner = rule(group, &[&format!("{plural}/{FINALIZERS}")], &[FINALIZER_VERB]);
    let children = kinds.children.iter().map(|(group, plural)| rule(group, &[plural], &CHILD_VERBS));
    let related = kinds.related.iter().map(|(group, plural)| rule(group, &[plural], &READ_VERBS));
    let former =
        kinds.former.iter().filter(|_| kinds.prunes).map(|(group, plural)| rule(group, &[plural], &["delete"]));
    // Asked about unless the Plugin brought the definition along: somebody else may install it before.
    let parents = rule(group, &[plural], &["get", PARENT_VERB]);
    let status =
        (kinds.status == StatusWriter::Account).then(|| rule(group, &[&format!("{plural}/{STATUS}")], &[STATUS_VERB]));
    let rules: Vec<_> =
        [owner, parents].into_iter().chain(status).chain(children).chain(related).chain(former).collect();
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

/// What the host needs to pull a plugin's component: its pull secret, and no other.
pub fn source_objects(name: &str, namespace: &str, secret: &str) -> Vec<Value> {
    let role = source_role(name);
    let pull = of_name(rule("", &["secrets"], &["get"]), secret);
    vec![
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": role, "namespace": namespace},
            "rules": [pull],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": role, "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": HOST, "namespace": namespace}],
        }),
    ]
}

/// The rule for the one object of this name.
fn of_name(mut rule: Value, name: &str) -> Value {
    if let Some(rule) = rule.as_object_mut() {
        rule.insert("resourceNames".to_owned(), json!([name]));
    }
    rule
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

#[cfg(test)]
mod tests {
    use windlass_core::contract::Parent;
    use windlass_core::ids::{Gvk, PluginName};

    use super::*;

    fn secrets() -> Resource {
        (String::new(), "secrets".to_owned())
    }

    fn kinds(parent: Resource) -> Kinds {
        let [pods, services] = ["pods", "services"].map(|plural| (String::new(), plural.to_owned()));
        Kinds {
            parent,
            children: vec![pods],
            related: vec![secrets()],
            former: vec![services],
            prunes: false,
            status: StatusWriter::Host,
        }
    }

    fn own() -> Parent {
        Parent::Custom(definition("my-operator.dev", "echoes"))
    }

    fn definition(group: &str, plural: &str) -> Vec<u8> {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {"group": group, "names": {"plural": plural}},
        });
        definition.to_string().into_bytes()
    }

    fn namespaces() -> Parent {
        Parent::Existing { kind: Gvk::from_api_version("v1", "Namespace"), selector: None }
    }

    fn role(parent: Parent, finalizes: bool, did: bool) -> Value {
        let resource = match &parent {
            Parent::Custom(definition) => own_parent(definition).expect("JSON").0,
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
        let status = match &descriptor.parent {
            Parent::Custom(_) => StatusWriter::Host,
            Parent::Existing { .. } => StatusWriter::Nobody,
        };
        plugin_role("echo", &descriptor, &Kinds { status, ..kinds(resource) }, did)
    }

    /// Each rule as groups, resources and verbs.
    fn rules(role: &Value) -> Vec<String> {
        let words = |value: &Value| {
            value.as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
        };
        let rules = role["rules"].as_array().expect("rules").iter();
        rules.map(|rule| ["apiGroups", "resources", "verbs"].map(|field| words(&rule[field])).join(" ")).collect()
    }

    /// Whether the logic finalizes, whether logic before it did, and what the host may do with the parents then.
    const ROLES: [(bool, bool, &str); 3] = [
        (false, false, "get,list,watch"),
        (true, false, "get,list,watch,patch"),
        (false, true, "get,list,watch,patch"),
    ];
    const WATCHED: [&str; 3] = [" pods list,watch", " secrets list,watch", " services list,watch"];

    #[test]
    fn s07_no_role_of_a_plugin_has_the_name_of_another_ones() {
        let names = ["echo", "echo-account", "echo-source", "echo-account-source"];
        let roles: Vec<_> =
            names.iter().flat_map(|name| [host_role(name), account_role(name), source_role(name)]).collect();
        let distinct: std::collections::BTreeSet<_> = roles.iter().collect();
        assert_eq!(distinct.len(), roles.len(), "{roles:?}");
        assert!("echo:account".parse::<PluginName>().is_err(), "no Plugin's name has a colon");
    }

    #[test]
    fn a_kind_of_its_own_has_its_status_written_and_its_finalizer_only_if_it_finalizes() {
        for (finalizes, did, verbs) in ROLES {
            let found = rules(&role(own(), finalizes, did));
            assert_eq!(found[..2], [&format!("my-operator.dev echoes {verbs}"), "my-operator.dev echoes/status patch"]);
            assert_eq!(found[2..], WATCHED);
        }
    }

    #[test]
    fn a_definition_that_will_not_be_installed_gets_nobody_any_rights() {
        for (group, plural) in [("*", "*"), ("", "secrets"), ("apps.k8s.io", "x"), ("my-operator.dev", "*")] {
            assert!(own_parent(&definition(group, plural)).is_err(), "{plural}.{group}");
        }
    }

    #[test]
    fn the_status_of_somebody_elses_kind_is_not_written() {
        for (finalizes, did, verbs) in ROLES {
            let found = rules(&role(namespaces(), finalizes, did));
            assert_eq!(
                (found[0].as_str(), &found[1..]),
                (&*format!(" namespaces {verbs}"), &WATCHED.map(str::to_owned)[..])
            );
        }
    }

    #[test]
    fn children_are_written_and_related_kinds_read_by_the_plugins_account_and_not_by_the_host() {
        let echoes = ("my-operator.dev".to_owned(), "echoes".to_owned());
        let objects = account_objects("echo", "writer", "windlass-system", &kinds(echoes));
        let [account, role, binding] = &objects[..] else { panic!("{objects:?}") };
        assert_eq!(account["metadata"], json!({"name": "writer", "namespace": "windlass-system"}));
        let wanted = [
            "my-operator.dev echoes/finalizers update",
            "my-operator.dev echoes get,list",
            " pods get,create,patch,delete",
            " secrets get,list",
        ];
        assert_eq!(rules(role), wanted, "nothing of what it may no longer own");
        assert_eq!(role.pointer("/metadata/labels"), None, "not the host's");
        assert_eq!(binding["subjects"][0]["name"], "writer");
        assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
    }

    #[test]
    fn status_of_a_kind_that_another_plugin_installed_is_written_by_the_account_and_of_others_by_nobody() {
        let echoes = || kinds(("my-operator.dev".to_owned(), "echoes".to_owned()));
        let of_account = |status| {
            let objects = account_objects("echo", "writer", "windlass-system", &Kinds { status, ..echoes() });
            rules(&objects[1]).contains(&"my-operator.dev echoes/status patch".to_owned())
        };
        assert!(of_account(StatusWriter::Account));
        assert!(!of_account(StatusWriter::Host) && !of_account(StatusWriter::Nobody));
    }

    #[test]
    fn what_a_plugin_left_behind_may_be_deleted_only_if_it_goes_with_its_plugin() {
        let kinds = Kinds { prunes: true, ..kinds(("my-operator.dev".to_owned(), "echoes".to_owned())) };
        let objects = account_objects("echo", "writer", "windlass-system", &kinds);
        let services: Vec<_> = rules(&objects[1]).into_iter().filter(|rule| rule.contains("services")).collect();
        assert_eq!(services, [" services delete"]);
    }

    #[test]
    fn the_host_is_granted_no_wildcard_and_no_write_of_what_plugins_own() {
        let objects = host_objects("windlass-system");
        let all: Vec<_> = objects.iter().filter(|object| object["rules"].is_array()).flat_map(rules).collect();
        assert!(!all.is_empty() && all.iter().all(|rule| !rule.contains('*')), "{all:?}");
        let writes = ["create", "update", "patch", "delete", "impersonate"];
        let written: Vec<_> = all.iter().filter(|rule| writes.iter().any(|verb| rule.contains(verb))).collect();
        assert_eq!(
            written,
            [
                "windlass.dev plugins patch",
                "windlass.dev plugins/status patch",
                "apiextensions.k8s.io customresourcedefinitions create,patch",
                "authorization.k8s.io subjectaccessreviews create",
                "events.k8s.io events create,patch",
                " serviceaccounts impersonate",
                " secrets create",
                "coordination.k8s.io leases create",
                "coordination.k8s.io leases get,update",
            ]
        );
    }
}
