//! Determines the permissions of a pushed plugin: the kinds that the component requests and the Plugin grants. Kinds
//! that the host would reject get no permission, and a note names them.

use anyhow::{Context as _, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::GroupVersionKind;
use kube::discovery::{ApiCapabilities, Scope, pinned_kind};
use kube::{Api, Client, Error};
use windlass_api::{DeletionPolicy, PluginSpec, PluginStatus};
use windlass_core::contract::Descriptor;
use windlass_core::declared_parent::{DeclaredParent, Resource};
use windlass_core::grant::{Withheld, child_scope_fits};
use windlass_core::ids::{Gvk, PluginName};
use windlass_core::names::LABEL_PLUGIN;

use super::super::connect::plain;
use crate::plugins::rbac::{Kinds, StatusWriter};

/// The permissions of one plugin.
pub struct Permissions {
    /// The kinds with permissions.
    pub kinds: Kinds,
    /// The requests that get no permission: the use, the kind, and the reason.
    withheld: Vec<(&'static str, Gvk, Withheld)>,
    /// Kinds that the plugin may read.
    read: Vec<Gvk>,
    /// Kinds that let the plugin act as other accounts.
    broad: Vec<BroadPermission>,
    /// The CRD of the parents, if their status has another owner.
    status_of_others: Option<String>,
}

impl Permissions {
    /// Notes for the reviewer of the permissions.
    pub fn notes(&self, name: &PluginName) -> Vec<String> {
        let mut notes: Vec<_> = self
            .withheld
            .iter()
            .map(|(purpose, kind, why)| format!("note: no permission to {purpose} {kind}, which {why}"))
            .collect();
        if self.withheld.iter().any(|(.., why)| *why != Withheld::OutOfScope) {
            notes.push(format!("note: to grant it, list the kind in Plugin {name} and push again"));
        }
        notes.extend(self.status_of_others.iter().map(|definition| {
            format!(
                "note: no permission to write the status of {definition}, because no Plugin installed this \
                 CustomResourceDefinition. docs/permissions.md says how to grant it"
            )
        }));
        notes.extend(self.broad.iter().map(|permission| format!("note: {}", permission.meaning())));
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BroadPermission {
    Secrets,
    Pods,
}

impl BroadPermission {
    /// The additional permission that children of a kind give.
    fn of(kind: &Gvk) -> Option<Self> {
        match (&*kind.group, &*kind.kind) {
            ("", "Secret") => Some(Self::Secrets),
            ("", "Pod" | "PodTemplate" | "ReplicationController")
            | ("apps", "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet")
            | ("batch", "CronJob" | "Job") => Some(Self::Pods),
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
        }
    }
}

/// Determines the permissions of a plugin, from the kinds that the cluster serves and the grants of the existing
/// Plugin.
///
/// # Errors
/// If a granted kind is not served, or the API server does not respond.
pub async fn of(
    client: &Client,
    name: &PluginName,
    (declared, descriptor): (&DeclaredParent, &Descriptor),
    spec: Option<&PluginSpec>,
    status: &PluginStatus,
) -> anyhow::Result<Permissions> {
    let spec_grants = spec.map(PluginSpec::spec_grants).unwrap_or_default();
    let (mut children, mut related) = (Vec::new(), Vec::new());
    let (mut withheld, mut read) = (Vec::new(), Vec::new());
    let (parent, parent_namespaced) = match declared {
        DeclaredParent::Own(crd) => (crd.resource().clone(), crd.is_namespaced()),
        DeclaredParent::Existing { kind, .. } => look_up(client, kind).await?,
    };
    let mut granted = Vec::new();
    for kind in descriptor.children.iter().map(|rule| &rule.kind) {
        let found = match spec_grants.may_own(kind) {
            Ok(()) => {
                let (resource, namespaced) = look_up(client, kind).await?;
                child_scope_fits(parent_namespaced, namespaced).map(|()| resource)
            }
            Err(why) => Err(why),
        };
        match found {
            Ok(resource) => {
                children.push(resource);
                granted.push(kind);
            }
            Err(why) => withheld.push(("own", kind.clone(), why)),
        }
    }
    for kind in &descriptor.related {
        let (resource, namespaced) = look_up(client, kind).await?;
        match spec_grants.may_read(kind, namespaced) {
            Ok(_) => {
                related.push(resource);
                read.push(kind.clone());
            }
            Err(why) => withheld.push(("read", kind.clone(), why)),
        }
    }
    let mut former = Vec::new();
    for kind in status.known_child_kinds().not_granted(&granted) {
        match served(client, &kind).await {
            Ok((resource, _)) => former.push(resource),
            // The kind is not served, so it has no objects.
            Err(Error::Discovery(_)) => {}
            Err(Error::Api(status)) if status.code == 404 => {}
            Err(error) => bail!("{kind} could not be looked up: {}", plain(error)),
        }
    }
    let mut broad: Vec<_> = granted.iter().filter_map(|kind| BroadPermission::of(kind)).collect();
    broad.sort_by_key(|permission| *permission as u8);
    broad.dedup();
    let prunes = spec.is_some_and(|spec| spec.deletion_policy == DeletionPolicy::Delete);
    let status = match declared {
        DeclaredParent::Own(_) => status_writer(client, name, &parent).await?,
        DeclaredParent::Existing { .. } => StatusWriter::Nobody,
    };
    let is_of_others = declared.crd().is_some() && status == StatusWriter::Nobody;
    let status_of_others = is_of_others.then(|| format!("{}.{}", parent.1, parent.0));
    let kinds = Kinds { parent, children, related, former, prunes, status };
    Ok(Permissions { kinds, withheld, read, broad, status_of_others })
}

/// The account that may write the status of a kind whose CRD the component carries. A CRD that the Plugin did not
/// install may belong to another operator, and a component must not gain access to its status by carrying a copy of the
/// CRD.
async fn status_writer(client: &Client, name: &PluginName, (group, plural): &Resource) -> anyhow::Result<StatusWriter> {
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
async fn look_up(client: &Client, kind: &Gvk) -> anyhow::Result<(Resource, bool)> {
    served(client, kind).await.map_err(plain).with_context(|| format!("the cluster does not serve {kind}"))
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
        let notes = |withheld, read| {
            let parent = (String::new(), "pods".to_owned());
            let (children, related, former) = (Vec::new(), Vec::new(), Vec::new());
            let status = StatusWriter::Nobody;
            let kinds = Kinds { parent, children, related, former, prunes: false, status };
            Permissions { kinds, withheld, read, broad: Vec::new(), status_of_others: None }
                .notes(&"echo".parse().expect("a name"))
        };
        assert_eq!(notes(Vec::new(), Vec::new()), [""; 0]);
        let lines = notes(vec![("own", kind("Namespace.v1"), Withheld::MustBeNamed)], vec![kind("Secret.v1")]);
        let [left_out, how, read] = &lines[..] else { panic!("{lines:?}") };
        assert!(
            left_out.contains("own Namespace.v1, which is granted only if")
                && left_out.contains("spec.grants.children names it")
        );
        assert!(how.contains("Plugin echo"), "{how}");
        assert!(read.contains("may read Secret.v1 in all namespaces"), "{read}");
        let never = notes(vec![("own", kind("Node.v1"), Withheld::OutOfScope)], Vec::new());
        assert_eq!(never.len(), 1, "no setting of the Plugin would help: {never:?}");
    }
}
