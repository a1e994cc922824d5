//! Determines the permissions of a pushed plugin: the kinds that the component requests and the Plugin grants. Kinds
//! that the host would reject get no permission, and a note names them.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::{ApiCapabilities, Scope, pinned_kind};
use kube::{Api, Client};
use windlass_api::{GrantsSpec, PluginStatus};
use windlass_core::contract::Descriptor;
use windlass_core::contract::declared_parent::{DeclaredParent, Resource};
use windlass_core::contract::grant::{Withheld, child_scope_fits};
use windlass_core::object::names::LABEL_PLUGIN;
use windlass_core::value::ids::{Gvk, PluginName};
use windlass_engine::cluster::discovery::is_missing;
use windlass_engine::plugins::rbac::{Kinds, StatusWriter};
use windlass_engine::telemetry::one_line;

use super::super::component::Candidate;
use super::super::connect::plain;
use super::super::offline::is_cluster_scoped;
use super::super::output::list_of_names;
use super::grants::Declared;

/// The permissions of one plugin.
pub struct Permissions {
    /// The kinds with permissions.
    pub kinds: Kinds,
    /// The requests that get no permission: the use, the kind, and the reason.
    withheld: Vec<(&'static str, Gvk, Withheld)>,
    /// Further notes in the order in which they are printed: how to grant what was withheld, which status the plugin may not write, what is
    /// assumed without a cluster, and what the permissions allow beyond the plugin's own objects.
    further: Vec<String>,
    /// Kinds that the plugin may read.
    read: Vec<Gvk>,
}

impl Permissions {
    /// Notes for the reviewer of the permissions.
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<_> = self
            .withheld
            .iter()
            .map(|(purpose, kind, why)| format!("note: no permission to {purpose} {kind}, which {why}"))
            .collect();
        notes.extend(self.further.iter().cloned());
        if !self.read.is_empty() {
            let read: Vec<_> = self.read.iter().map(ToString::to_string).collect();
            notes.push(format!(
                "note: the plugin's ServiceAccount may read {} in all namespaces, since parents may be in any; docs/permissions.md \
                 says how to keep it to some",
                read.join(", ")
            ));
        }
        notes
    }
}

/// A permission that allows more than the name of its kind suggests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum BroadPermission {
    Secrets,
    Pods,
    Rbac,
}

impl BroadPermission {
    /// The additional permission that children of a kind give.
    fn of(kind: &Gvk) -> Option<Self> {
        match (&*kind.group, &*kind.kind) {
            ("", "Secret") => Some(Self::Secrets),
            ("", "Pod" | "PodTemplate" | "ReplicationController")
            | ("apps", "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet")
            | ("batch", "CronJob" | "Job") => Some(Self::Pods),
            ("rbac.authorization.k8s.io", _) => Some(Self::Rbac),
            _ => None,
        }
    }

    fn meaning(self) -> &'static str {
        match self {
            Self::Secrets => {
                "the plugin's ServiceAccount may create Secrets in all namespaces, so whoever acts as it can have a token made \
                 for any ServiceAccount there. Windlass refuses such children unless spec.grants.children says serviceAccountTokens"
            }
            Self::Pods => {
                "the plugin may create Pods, which can run as any ServiceAccount of their namespace and read every Secret in it; \
                 Windlass refuses them in its own namespace, and outside its parents' namespaces for namespaced parents"
            }
            Self::Rbac => {
                "the API server lets the plugin's ServiceAccount write a role only if it has every permission of the role itself, or \
                 the verb escalate on the kind; and a binding only if it has every permission of the bound role, or the verb bind on \
                 that role. A push grants none of these; docs/permissions.md says how to grant them"
            }
        }
    }
}

/// Checks that a Plugin with these grants may have the component's parent kind, if it exists without the component.
///
/// # Errors
/// If it may not, or the API server does not respond.
pub async fn check_parent(client: Option<&Client>, kinds: Declared<'_>, grants: &GrantsSpec) -> anyhow::Result<()> {
    let Some(parent) = kinds.parent else { return Ok(()) };
    let Some(client) = client else { return kinds.check_parent(grants, assumed(parent).1) };
    match served(client, parent).await {
        Ok((_, namespaced)) => kinds.check_parent(grants, namespaced),
        // The host waits until the kind is served.
        Err(error) if is_missing(&error) => Ok(()),
        Err(error) => bail!("{parent} could not be looked up: {}", plain(error)),
    }
}

/// Determines the permissions of a plugin, from the kinds that the cluster serves and the grants of the Plugin. `prunes`:
/// the children of former kinds are deleted with the Plugin. Without a client, a note says what is assumed.
///
/// # Errors
/// If a granted kind is not served or of the wrong scope, or the API server does not respond.
pub async fn of(
    client: Option<&Client>,
    Candidate { component, declared, name, .. }: &Candidate,
    (grants, prunes): (&GrantsSpec, bool),
    status: &PluginStatus,
) -> anyhow::Result<Permissions> {
    let (descriptor, spec_grants) = (component.descriptor(), grants.spec_grants());
    let kinds = Declared::of(declared, descriptor);
    let (mut children, mut related) = (Vec::new(), Vec::new());
    let (mut withheld, mut read) = (Vec::new(), Vec::new());
    let (parent, parent_namespaced) = match declared {
        DeclaredParent::Own(crd) => (crd.resource().clone(), crd.is_namespaced()),
        DeclaredParent::Existing(kind) => look_up(client, kind).await?,
    };
    let (absent, mut granted) = (absent_kinds(client, descriptor).await?, Vec::new());
    // The plugin may own and read an absent kind as soon as it is there.
    let asked = |kind| client.filter(|_| !absent.contains(kind));
    for kind in descriptor.children.iter().map(|rule| &rule.kind) {
        let found = match spec_grants.may_own(kind) {
            Ok(()) => {
                let (resource, namespaced) = look_up(asked(kind), kind).await?;
                child_scope_fits(parent_namespaced, namespaced).map(|()| resource)
            }
            Err(why) => Err(why),
        };
        match found {
            Ok(resource) => {
                children.push(resource);
                granted.push(kind);
            }
            Err(why) if spec_grants.owned(kind).is_some() => {
                bail!("spec.grants.children names {kind}, which {why}: leave it out; nothing was written")
            }
            Err(why) => withheld.push(("own", kind.clone(), why)),
        }
    }
    for kind in &descriptor.related {
        let (resource, namespaced) = look_up(asked(kind), kind).await?;
        match spec_grants.may_read(kind, namespaced) {
            Ok(_) => {
                related.push(resource);
                read.push(kind.clone());
            }
            Err(why) => withheld.push(("read", kind.clone(), why)),
        }
    }
    let former = former_kinds(client, status, &granted).await?;
    let can_be_granted: Vec<_> =
        withheld.iter().filter(|(.., why)| *why != Withheld::OutOfScope).map(|(_, kind, _)| kind).collect();
    let how_to_grant = (!can_be_granted.is_empty()).then(|| kinds.how_to_grant(name, grants, &can_be_granted));
    let status = match declared {
        DeclaredParent::Own(_) => status_writer(client, name, &parent).await?,
        DeclaredParent::Existing(_) => StatusWriter::Nobody,
    };
    let is_of_others = declared.crd().is_some() && status == StatusWriter::Nobody;
    let mut further = Vec::from_iter(how_to_grant);
    further.extend(client.is_none().then(|| assumptions(kinds)));
    further.extend((status != StatusWriter::Host).then(|| parents_of_others(declared, descriptor)));
    further.extend(is_of_others.then(|| status_of_others(&parent)));
    further.extend(list_of_names(absent.iter().map(ToString::to_string)).map(assumed_names));
    let broad: BTreeSet<_> = granted.iter().filter_map(|kind| BroadPermission::of(kind)).collect();
    further.extend(broad.into_iter().map(|permission| format!("note: {}", permission.meaning())));
    let kinds = Kinds { parent, children, related, former, prunes, status };
    Ok(Permissions { kinds, withheld, further, read })
}

/// The kinds that the plugin owned before, as far as the cluster serves them.
async fn former_kinds(
    client: Option<&Client>,
    status: &PluginStatus,
    granted: &[&Gvk],
) -> anyhow::Result<Vec<Resource>> {
    let mut former = Vec::new();
    // Without a client, there is no status.
    let Some(client) = client else { return Ok(former) };
    for kind in status.known_child_kinds().not_granted(granted) {
        match served(client, &kind).await {
            Ok((resource, _)) => former.push(resource),
            // The kind is not served, so it has no objects.
            Err(error) if is_missing(&error) => {}
            Err(error) => bail!("{kind} could not be looked up: {}", plain(error)),
        }
    }
    Ok(former)
}

/// The note on the status of parents whose CRD no Plugin installed.
fn status_of_others((group, plural): &Resource) -> String {
    format!(
        "note: no permission to write the status of {plural}.{group}, because no Plugin installed this \
         CustomResourceDefinition. docs/permissions.md says how to grant it"
    )
}

/// The note on parents of a kind that the Plugin did not install.
fn parents_of_others(declared: &DeclaredParent, descriptor: &Descriptor) -> String {
    let kind = declared.kind();
    let selected = descriptor.selector.selected();
    let selected =
        selected.map_or_else(String::new, |those| format!(", of which the component selects {}", one_line(&those)));
    let finalizer =
        if descriptor.sets_finalizer() { "; it sets a finalizer on them, which can block their deletion" } else { "" };
    format!("note: the plugin reads the objects of {kind} in all namespaces as its parents{selected}{finalizer}")
}

/// The account that may write the status of a kind whose CRD the component carries. A CRD that the Plugin did not
/// install may belong to another operator, and a component must not gain access to its status by carrying a copy of the
/// CRD.
async fn status_writer(
    client: Option<&Client>,
    name: &PluginName,
    (group, plural): &Resource,
) -> anyhow::Result<StatusWriter> {
    let Some(client) = client else { return Ok(StatusWriter::Host) };
    let definition = format!("{plural}.{group}");
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let found = definitions.get_metadata_opt(&definition).await.map_err(plain);
    let Some(found) = found.with_context(|| format!("CustomResourceDefinition {definition}"))? else {
        return Ok(StatusWriter::Host);
    };
    let labels = found.metadata.labels.unwrap_or_default();
    Ok(writer_of(name, labels.get(LABEL_PLUGIN).map(String::as_str)))
}

/// The account that may write the status, by the `installer`: the Plugin that installed the CRD, if any. While the
/// installing Plugin exists, no other Plugin gets its kind; once it is gone, the other Plugin adopts its parents.
fn writer_of(name: &PluginName, installer: Option<&str>) -> StatusWriter {
    match installer {
        Some(installer) if installer == name.as_str() => StatusWriter::Host,
        Some(_) => StatusWriter::Account,
        None => StatusWriter::Nobody,
    }
}

/// The API resource of a kind, and whether it is namespaced.
async fn look_up(client: Option<&Client>, kind: &Gvk) -> anyhow::Result<(Resource, bool)> {
    let Some(client) = client else { return Ok(assumed(kind)) };
    served(client, kind).await.map_err(plain).with_context(|| format!("the cluster does not serve {kind}"))
}

/// The optional kinds that the cluster does not serve.
async fn absent_kinds(client: Option<&Client>, descriptor: &Descriptor) -> anyhow::Result<Vec<Gvk>> {
    let mut absent = Vec::new();
    let Some(client) = client else { return Ok(absent) };
    for kind in &descriptor.optional {
        match served(client, kind).await {
            Ok(_) => {}
            Err(error) if is_missing(&error) => absent.push(kind.clone()),
            Err(error) => bail!("{kind} could not be looked up: {}", plain(error)),
        }
    }
    Ok(absent)
}

/// The note on optional kinds that the cluster does not serve.
fn assumed_names(absent: impl std::fmt::Display) -> String {
    format!(
        "note: the cluster does not serve {absent}, which is optional: plural and scope are assumed. If they are others, push again \
         once it does"
    )
}

/// The API resource of a kind, and whether it is namespaced, as far as its name tells it.
fn assumed(kind: &Gvk) -> (Resource, bool) {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind));
    ((resource.group, resource.plural), !is_cluster_scoped(kind))
}

/// The note on permissions that were determined without a cluster.
fn assumptions(kinds: Declared<'_>) -> String {
    let custom = list_of_names(kinds.all().filter(|kind| kind.group.contains('.')).map(ToString::to_string));
    let of_kinds = custom.map(|custom| format!(", and assumes plural and scope of {custom}")).unwrap_or_default();
    format!(
        "note: --dry-run=client reads no cluster: it prints the permissions of a new Plugin, which installs the CRD that it \
         carries{of_kinds}. --dry-run=server asks the API server"
    )
}

async fn served(client: &Client, kind: &Gvk) -> kube::Result<(Resource, bool)> {
    let wanted = GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
    let (resource, ApiCapabilities { scope, .. }) = pinned_kind(client, &wanted).await?;
    Ok(((resource.group, resource.plural), scope == Scope::Namespaced))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s05_host_does_not_write_the_status_of_a_kind_that_the_plugin_did_not_install() {
        let echo = "echo".parse().expect("a name");
        for (installer, writer) in
            [(Some("echo"), StatusWriter::Host), (Some("renamed"), StatusWriter::Account), (None, StatusWriter::Nobody)]
        {
            assert_eq!(writer_of(&echo, installer), writer, "{installer:?}");
        }
    }

    #[test]
    fn withheld_permission_is_named_with_the_reason_and_how_to_grant_it() {
        let kind = |text: &str| text.parse::<Gvk>().expect("a kind");
        let notes = |withheld, read, further| {
            let parent = (String::new(), "pods".to_owned());
            let (children, related, former) = (Vec::new(), Vec::new(), Vec::new());
            let status = StatusWriter::Nobody;
            let kinds = Kinds { parent, children, related, former, prunes: false, status };
            Permissions { kinds, withheld, further, read }.notes()
        };
        assert_eq!(notes(Vec::new(), Vec::new(), Vec::new()), [""; 0]);
        let withheld = vec![("own", kind("Namespace.v1"), Withheld::MustBeNamed)];
        let lines = notes(withheld, vec![kind("Secret.v1")], vec!["note: to grant".to_owned()]);
        let [left_out, how, read] = &lines[..] else { panic!("{lines:?}") };
        assert!(
            left_out.contains("own Namespace.v1, which is granted only if")
                && left_out.contains("spec.grants.children names it")
        );
        assert_eq!(how, "note: to grant");
        assert!(read.contains("may read Secret.v1 in all namespaces"), "{read}");
    }

    #[test]
    fn rbac_children_are_noted_as_a_broad_permission() {
        for text in ["Role.v1.rbac.authorization.k8s.io", "ClusterRoleBinding.v1.rbac.authorization.k8s.io"] {
            let broad = BroadPermission::of(&text.parse().expect("a kind")).expect("a note");
            assert!(broad.meaning().contains("escalate") && broad.meaning().contains("bind"), "{text}");
        }
        assert_eq!(BroadPermission::of(&Gvk::from_api_version("v1", "ConfigMap")), None);
    }
}
