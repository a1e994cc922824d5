//! The permissions of the host, generated into manifests/, and of each plugin, for `windlass push --create-rbac`.
//!
//! The host's ClusterRole is aggregated from the roles with a label, one per plugin, so the host needs no `*/*/*`.

use serde_json::{Value, json};
use windlass_core::contract::Descriptor;
use windlass_core::contract::declared_parent::Resource;
use windlass_core::hosts::shards::SHARDS_MAX;

use crate::cluster::access_review::{
    CHILD_VERBS, FINALIZER_VERB, FINALIZERS, PARENT_VERB, READ_VERBS, STATUS, STATUS_VERB,
};
use crate::cluster::account::HOST;
use crate::cluster::lease;

/// Label of a ClusterRole that is aggregated into the host's.
pub const AGGREGATE_LABEL: &str = "windlass.dev/aggregate-to-host";

/// Secret in the host's namespace with the key of the marks on children of cluster-scoped parents.
pub const MARK_KEY_SECRET: &str = "windlass-mark-key";

/// Secret in the host's namespace with the key of the random seeds of plugins' calls.
pub const RNG_KEY_SECRET: &str = "windlass-rng-key";

/// The API group of roles.
const RBAC: &str = "rbac.authorization.k8s.io";
/// Labels of roles whose rules Kubernetes adds to its own roles `view` and `edit`.
const TO_VIEW: &str = "rbac.authorization.k8s.io/aggregate-to-view";
const TO_EDIT: &str = "rbac.authorization.k8s.io/aggregate-to-edit";

/// The host's ServiceAccount and roles, as Kubernetes objects in the order in which they are applied.
pub fn host_objects(namespace: &str) -> Vec<Value> {
    let shards: Vec<_> = (0..SHARDS_MAX).map(lease::name_of_shard).collect();
    let leases: Vec<_> = std::iter::once(lease::NAME).chain(shards.iter().map(String::as_str)).collect();
    vec![
        json!({
            "apiVersion": "v1", "kind": "Namespace",
            // A Pod in this namespace could act as the host. The host itself meets the strictest of the Pod Security
            // Standards.
            "metadata": {"name": namespace, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
        }),
        json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            // The API server records a field manager only for an object with fields.
            "metadata": {"name": HOST, "namespace": namespace, "labels": {"app.kubernetes.io/name": HOST}},
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": HOST},
            // Without `rules`: the aggregating controller owns them, and a second apply would conflict with it.
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {AGGREGATE_LABEL: "true"}}]},
        }),
        aggregated(
            "windlass-host",
            AGGREGATE_LABEL,
            &[
                rule("windlass.dev", &["plugins"], &["get", "list", "watch"]),
                // The finalizer of Plugins whose deletion the host handles; there is no permission for finalizers
                // alone.
                rule("windlass.dev", &["plugins"], &["patch"]),
                rule("windlass.dev", &["plugins/status"], &["patch"]),
                // Needed with the admission policies, by a host that runs as a user outside the cluster.
                rule("windlass.dev", &["plugins"], &["mark"]),
                // To find the versions and status fields of parent kinds.
                rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["get", "list", "watch"]),
                // Only for Plugins with installCRD: a server-side apply that creates needs both.
                rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["create", "patch"]),
                // Only for Plugins with spec.namespaceSelector, which selects by labels.
                rule("", &["namespaces"], &["list", "watch"]),
                // To review the permissions of the Plugins' ServiceAccounts.
                rule("authorization.k8s.io", &["subjectaccessreviews"], &["create"]),
                // On parents, in any namespace; a patch counts a repetition.
                rule("events.k8s.io", &["events"], &["create", "patch"]),
            ],
        ),
        binding(HOST, None, (HOST, namespace)),
        // The host reads components from its own namespace; another namespace needs its own Role for ConfigMaps.
        role(
            HOST,
            Some(namespace),
            &[
                rule("", &["configmaps"], &["get", "list", "watch"]),
                // To write children as the Plugins' ServiceAccounts, which are in this namespace.
                rule("", &["serviceaccounts"], &["impersonate"]),
                // The keys of the marks on children of cluster-scoped parents, and of random seeds: two Secrets, created
                // once. RBAC cannot restrict a create to a name.
                of_names(rule("", &["secrets"], &["get"]), &[MARK_KEY_SECRET, RNG_KEY_SECRET]),
                rule("", &["secrets"], &["create"]),
                // The Lease that lets one host lead at a time, and those of the shards; the other hosts watch them. RBAC
                // cannot restrict a create to a name, or a list to several names.
                rule("coordination.k8s.io", &["leases"], &["create", "get", "list", "watch"]),
                of_names(rule("coordination.k8s.io", &["leases"], &["update"]), &leases),
            ],
        ),
        binding(HOST, Some(namespace), (HOST, namespace)),
    ]
}

/// The ClusterRole by which the users of a cluster may read Plugins: Kubernetes adds its rules to its own role `view`. There is
/// none for writing: whoever may write Plugins chooses what runs with the permissions of the ServiceAccounts in the host's
/// namespace.
pub fn view_of_plugins() -> Value {
    let read = rule("windlass.dev", &["plugins"], &["get", "list", "watch"]);
    aggregated("windlass-plugins-view", TO_VIEW, &[read])
}

/// What `windlass push` needs, for a CI: a ClusterRole, and a Role in the host's namespace. With `creates_rbac`, also what
/// `--create-rbac` needs. A component chooses its child kinds, so a pusher cannot hold all permissions of the roles that it
/// writes: it needs `escalate` and `bind`, by which it can give any account every permission.
pub fn pusher(namespace: &str, creates_rbac: bool) -> Vec<Value> {
    let name = if creates_rbac { "windlass-pusher-with-rbac" } else { "windlass-pusher" };
    let apply = ["get", "create", "patch"];
    let mut cluster = vec![
        rule("windlass.dev", &["plugins"], &["get", "list", "watch", "create", "patch"]),
        // To compare the CRD that the component carries with the installed one.
        rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["get"]),
    ];
    let mut namespaced = vec![
        // The component; the parts of earlier ones are listed and deleted.
        rule("", &["configmaps"], &["get", "list", "create", "patch", "delete"]),
        // To say whether a host runs.
        of_names(rule("coordination.k8s.io", &["leases"], &["get"]), &[lease::NAME]),
    ];
    if creates_rbac {
        cluster.push(rule(RBAC, &["clusterroles", "clusterrolebindings"], &apply));
        cluster.push(rule(RBAC, &["clusterroles"], &["escalate", "bind"]));
        namespaced.push(rule("", &["serviceaccounts"], &apply));
        // The Role with which the host reads a pull secret.
        namespaced.push(rule(RBAC, &["roles", "rolebindings"], &apply));
        namespaced.push(rule(RBAC, &["roles"], &["escalate", "bind"]));
    }
    vec![role(name, None, &cluster), role(name, Some(namespace), &namespaced)]
}

/// The kinds of a plugin, as RBAC rules name them.
#[derive(Debug, Clone)]
pub struct Kinds {
    /// Kind of the parents.
    pub parent: Resource,
    /// Kinds of children.
    pub children: Vec<Resource>,
    /// Kinds of related objects that the plugin may require.
    pub related: Vec<Resource>,
    /// Kinds that the plugin owned before, and may no longer own.
    pub former: Vec<Resource>,
    /// Whether children of former kinds are deleted with the Plugin.
    pub prunes: bool,
    /// Account that writes the status of the parents.
    pub status: StatusWriter,
}

/// Account that may write the status of a plugin's parents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusWriter {
    /// The host: the Plugin installs the kind's CRD, so all objects of the kind belong to it.
    Host,
    /// The Plugin's ServiceAccount: another Plugin installed the CRD, and this one may adopt its parents.
    Account,
    /// None: the kind is built in, or has another owner.
    Nobody,
}

/// The host's permissions for one plugin: to watch its parents, children and related kinds, to write the status of
/// parents whose kind is the plugin's own, and to patch parents, if the plugin finalizes, or `patches_parents` says that they may have a
/// finalizer from before, or notes about children that are created once. The host writes no child as itself.
pub fn plugin_role(name: &str, descriptor: &Descriptor, kinds: &Kinds, patches_parents: bool) -> Value {
    let (group, plural) = &kinds.parent;
    let mut verbs = vec!["get", "list", "watch"];
    if descriptor.sets_finalizer() || patches_parents {
        // There is no permission for finalizers or annotations alone.
        verbs.push("patch");
    }
    let mut rules = vec![rule(group, &[plural], &verbs)];
    if kinds.status == StatusWriter::Host {
        rules.push(rule(group, &[&format!("{plural}/status")], &["patch"]));
    }
    // The previous component watches former kinds until it is no longer live; then they are listed for children that
    // are left.
    for (group, plural) in kinds.children.iter().chain(&kinds.related).chain(&kinds.former) {
        rules.push(rule(group, &[plural], &["list", "watch"]));
    }
    aggregated(&host_role(name), AGGREGATE_LABEL, &rules)
}

/// The ClusterRole with the host's permissions for a plugin. The names of the other roles contain a colon, which no
/// Plugin's name can: the role of a Plugin `echo-account` must not be a role of `echo`.
pub fn host_role(name: &str) -> String {
    format!("windlass-plugin-{name}")
}

/// The ClusterRole of a plugin's ServiceAccount, and its binding.
pub fn account_role(name: &str) -> String {
    format!("windlass-plugin-{name}:account")
}

/// The Role that lets the host read the registry credentials of a plugin, and its binding.
pub fn source_role(name: &str) -> String {
    format!("windlass-plugin-{name}:source")
}

/// A plugin's ServiceAccount with its permissions: to write its children, and to read the objects that it may require.
/// The permissions apply in all namespaces, because parents may be in any; to narrow them, a cluster admin binds the
/// same ClusterRole in some namespaces instead.
pub fn account_objects(name: &str, account: &str, namespace: &str, kinds: &Kinds) -> Vec<Value> {
    let role_name = account_role(name);
    let (group, plural) = &kinds.parent;
    // Needed for owner references with blockOwnerDeletion, if OwnerReferencesPermissionEnforcement is on, and for the
    // plugin's finalizer, unless the Plugin installed the CRD.
    let owner = rule(group, &[&format!("{plural}/{FINALIZERS}")], &[FINALIZER_VERB]);
    let children = kinds.children.iter().map(|(group, plural)| rule(group, &[plural], &CHILD_VERBS));
    let related = kinds.related.iter().map(|(group, plural)| rule(group, &[plural], &READ_VERBS));
    let former =
        kinds.former.iter().filter(|_| kinds.prunes).map(|(group, plural)| rule(group, &[plural], &["delete"]));
    // Reviewed unless the Plugin installed the CRD: another user may install it first.
    let parents = rule(group, &[plural], &["get", PARENT_VERB]);
    let status =
        (kinds.status == StatusWriter::Account).then(|| rule(group, &[&format!("{plural}/{STATUS}")], &[STATUS_VERB]));
    let rules: Vec<_> =
        [owner, parents].into_iter().chain(status).chain(children).chain(related).chain(former).collect();
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": namespace}}),
        role(&role_name, None, &rules),
        binding(&role_name, None, (account, namespace)),
    ]
}

/// The host's permission to pull a plugin's component: to read its pull secret, and no other.
pub fn source_objects(name: &str, namespace: &str, secret: &str) -> Vec<Value> {
    let name = source_role(name);
    let pull = of_names(rule("", &["secrets"], &["get"]), &[secret]);
    vec![role(&name, Some(namespace), &[pull]), binding(&name, Some(namespace), (HOST, namespace))]
}

/// The roles by which the users of a cluster may read and write the parents of a plugin: Kubernetes adds their rules to
/// its own roles `view`, `edit` and `admin`, which cluster admins bind to users. None if no Plugin installed the kind: it may
/// belong to another operator, and a component must not open it to users by carrying a copy of its CRD.
pub fn user_roles(name: &str, kinds: &Kinds) -> Vec<Value> {
    if kinds.status == StatusWriter::Nobody {
        return Vec::new();
    }
    let (group, plural) = &kinds.parent;
    let read = rule(group, &[plural], &["get", "list", "watch"]);
    let write = rule(group, &[plural], &["create", "update", "patch", "delete", "deletecollection"]);
    vec![aggregated(&view_role(name), TO_VIEW, &[read]), aggregated(&edit_role(name), TO_EDIT, &[write])]
}

/// The ClusterRole with the permission to read the parents of a plugin.
pub fn view_role(name: &str) -> String {
    format!("windlass-plugin-{name}:view")
}

/// The ClusterRole with the permission to write the parents of a plugin.
pub fn edit_role(name: &str) -> String {
    format!("windlass-plugin-{name}:edit")
}

/// A Role in a namespace; without one, a ClusterRole.
fn role(name: &str, namespace: Option<&str>, rules: &[Value]) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": kind_of_role(namespace),
        "metadata": metadata(name, namespace),
        "rules": rules,
    })
}

/// A ClusterRole whose rules are added to those of another role, which selects it by this label.
fn aggregated(name: &str, label: &str, rules: &[Value]) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {label: "true"}},
        "rules": rules,
    })
}

/// Gives a ServiceAccount the permissions of the role of this name.
fn binding(name: &str, namespace: Option<&str>, (account, namespace_of_account): (&str, &str)) -> Value {
    let kind = kind_of_role(namespace);
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": format!("{kind}Binding"),
        "metadata": metadata(name, namespace),
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace_of_account}],
    })
}

fn kind_of_role(namespace: Option<&str>) -> &'static str {
    if namespace.is_some() { "Role" } else { "ClusterRole" }
}

fn metadata(name: &str, namespace: Option<&str>) -> Value {
    match namespace {
        Some(namespace) => json!({"name": name, "namespace": namespace}),
        None => json!({"name": name}),
    }
}

/// Restricts a rule to the objects of these names.
fn of_names(mut rule: Value, names: &[&str]) -> Value {
    if let Some(rule) = rule.as_object_mut() {
        rule.insert("resourceNames".to_owned(), json!(names));
    }
    rule
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

#[cfg(test)]
mod tests {
    use windlass_core::contract::Parent;
    use windlass_core::contract::declared_parent::DeclaredParent;
    use windlass_core::value::ids::{Gvk, PluginName};

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
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "echoes.my-operator.dev"},
            "spec": {
                "group": "my-operator.dev", "names": {"plural": "echoes", "kind": "Echo"},
                "versions": [{"name": "v1", "storage": true}],
            },
        });
        Parent::Custom(definition.to_string().into_bytes())
    }

    fn namespaces() -> Parent {
        Parent::Existing(Gvk::from_api_version("v1", "Namespace"))
    }

    fn role_of(parent: Parent, finalizes: bool, did: bool) -> Value {
        let descriptor = Descriptor { finalizes, ..Descriptor::about("echo", "1.0.0", parent) };
        let (resource, status) = match DeclaredParent::of(&descriptor).expect("valid") {
            DeclaredParent::Own(crd) => (crd.resource().clone(), StatusWriter::Host),
            DeclaredParent::Existing(_) => ((String::new(), "namespaces".to_owned()), StatusWriter::Nobody),
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

    /// Whether the component finalizes, whether an earlier one did, and the host's resulting verbs on parents.
    const ROLES: [(bool, bool, &str); 3] = [
        (false, false, "get,list,watch"),
        (true, false, "get,list,watch,patch"),
        (false, true, "get,list,watch,patch"),
    ];
    const WATCHED: [&str; 3] = [" pods list,watch", " secrets list,watch", " services list,watch"];

    #[test]
    fn s07_roles_of_different_plugins_never_have_the_same_name() {
        let names = ["echo", "echo-account", "echo-source", "echo-account-source"];
        let of = [host_role, account_role, source_role, view_role, edit_role];
        let roles: Vec<_> = names.iter().flat_map(|name| of.map(|role| role(name))).collect();
        let distinct: std::collections::BTreeSet<_> = roles.iter().collect();
        assert_eq!(distinct.len(), roles.len(), "{roles:?}");
        assert!("echo:account".parse::<PluginName>().is_err(), "no Plugin's name has a colon");
    }

    #[test]
    fn s05_users_get_no_permissions_for_a_kind_that_no_plugin_installed() {
        let echoes = || ("my-operator.dev".to_owned(), "echoes".to_owned());
        for (status, expected) in [(StatusWriter::Host, 2), (StatusWriter::Account, 2), (StatusWriter::Nobody, 0)] {
            let written = user_roles("echo", &Kinds { status, ..kinds(echoes()) });
            assert_eq!(written.len(), expected, "{status:?}");
            assert!(written.iter().all(|role| rules(role)[0].starts_with("my-operator.dev echoes ")), "{written:?}");
        }
    }

    #[test]
    fn host_may_write_status_of_a_plugins_own_kind_and_finalizers_only_if_it_finalizes() {
        for (finalizes, did, verbs) in ROLES {
            let found = rules(&role_of(own(), finalizes, did));
            assert_eq!(found[..2], [&format!("my-operator.dev echoes {verbs}"), "my-operator.dev echoes/status patch"]);
            assert_eq!(found[2..], WATCHED);
        }
    }

    #[test]
    fn host_may_not_write_the_status_of_an_existing_kind() {
        for (finalizes, did, verbs) in ROLES {
            let found = rules(&role_of(namespaces(), finalizes, did));
            assert_eq!(
                (found[0].as_str(), &found[1..]),
                (&*format!(" namespaces {verbs}"), &WATCHED.map(str::to_owned)[..])
            );
        }
    }

    #[test]
    fn plugins_account_may_write_children_and_read_related_kinds() {
        let echoes = ("my-operator.dev".to_owned(), "echoes".to_owned());
        let objects = account_objects("echo", "writer", "windlass-system", &kinds(echoes));
        let [account, role, binding] = &objects[..] else { panic!("{objects:?}") };
        assert_eq!(account["metadata"], json!({"name": "writer", "namespace": "windlass-system"}));
        let expected = [
            "my-operator.dev echoes/finalizers update",
            "my-operator.dev echoes get,list",
            " pods get,create,patch,delete",
            " secrets get,list",
        ];
        assert_eq!(rules(role), expected, "no permission for former kinds");
        assert_eq!(role.pointer("/metadata/labels"), None, "the role is not aggregated into the host's role");
        assert_eq!(binding["subjects"][0]["name"], "writer");
        assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
    }

    #[test]
    fn plugins_account_may_write_status_only_of_a_kind_that_another_plugin_installed() {
        let echoes = || kinds(("my-operator.dev".to_owned(), "echoes".to_owned()));
        let of_account = |status| {
            let objects = account_objects("echo", "writer", "windlass-system", &Kinds { status, ..echoes() });
            rules(&objects[1]).contains(&"my-operator.dev echoes/status patch".to_owned())
        };
        assert!(of_account(StatusWriter::Account));
        assert!(!of_account(StatusWriter::Host) && !of_account(StatusWriter::Nobody));
    }

    #[test]
    fn plugins_account_may_delete_former_children_if_they_are_deleted_with_the_plugin() {
        let kinds = Kinds { prunes: true, ..kinds(("my-operator.dev".to_owned(), "echoes".to_owned())) };
        let objects = account_objects("echo", "writer", "windlass-system", &kinds);
        let services: Vec<_> = rules(&objects[1]).into_iter().filter(|rule| rule.contains("services")).collect();
        assert_eq!(services, [" services delete"]);
    }

    #[test]
    fn host_is_granted_no_wildcard_and_no_write_of_plugins_children() {
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
                "coordination.k8s.io leases create,get,list,watch",
                "coordination.k8s.io leases update",
            ]
        );
    }
}
