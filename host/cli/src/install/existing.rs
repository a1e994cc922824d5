//! What a cluster has before an installation or its end: where Windlass is installed, and who else owns its objects.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use kube::api::{ListParams, PartialObjectMeta};
use kube::{Api, Client, ResourceExt as _};
use windlass_engine::cluster::account::HOST;

use super::FIELD_MANAGER;
use crate::connect::plain;
use crate::output::list_of_names;

/// Label by which Helm marks the objects of its releases, with the value `Helm`.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The field manager of Helm.
const HELM_MANAGER: &str = "helm";
/// The field manager of `kubectl apply` without `--server-side`, which updates instead of applying.
const CLIENT_SIDE: &str = "kubectl-client-side-apply";
/// The controller that applies the rules of aggregated roles.
const AGGREGATION: &str = "clusterrole-aggregation-controller";
/// Namespaces that every cluster has, and that its components and users share.
const SHARED: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// The Windlass of a cluster, as its binding describes it.
#[derive(Debug, Default)]
pub struct Installation {
    /// Whether a cluster-wide binding of the host exists.
    pub exists: bool,
    /// Whether it belongs to a release of Helm.
    pub is_helms: bool,
    /// The namespaces of the hosts' ServiceAccounts.
    namespaces: Vec<String>,
}

impl Installation {
    /// Reads it from the cluster.
    ///
    /// # Errors
    /// If the binding cannot be read.
    pub async fn read(client: &Client) -> anyhow::Result<Self> {
        let bindings = Api::<ClusterRoleBinding>::all(client.clone());
        let binding = bindings.get_opt(HOST).await.map_err(plain);
        let Some(binding) = binding.context("ClusterRoleBinding windlass could not be read")? else {
            return Ok(Self::default());
        };
        let namespaces = binding.subjects.iter().flatten().filter_map(|subject| subject.namespace.clone()).collect();
        Ok(Self { exists: true, is_helms: has_helms_label(&binding.metadata), namespaces })
    }

    /// The namespace in which Windlass is installed, if that is another than this one.
    pub fn elsewhere(&self, namespace: &str) -> Option<&str> {
        self.namespaces.iter().map(String::as_str).find(|other| *other != namespace)
    }
}

/// Checks that the namespace is not one that every cluster shares.
///
/// # Errors
/// If it is.
pub fn check_name(namespace: &str) -> anyhow::Result<()> {
    ensure!(
        !SHARED.contains(&namespace),
        "Windlass needs a namespace of its own, and the namespace {namespace} is shared: the host may impersonate its \
         ServiceAccounts, and a policy denies them to write there. Set --namespace to another one"
    );
    Ok(())
}

/// Checks that the namespace has no ServiceAccounts besides those of Windlass.
///
/// # Errors
/// If it has some, or cannot be read.
pub async fn check_accounts(client: &Client, namespace: &str) -> anyhow::Result<()> {
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
    let accounts = accounts.list_metadata(&ListParams::default()).await.map_err(plain);
    let accounts =
        accounts.with_context(|| format!("the ServiceAccounts of namespace {namespace} could not be listed"))?;
    let is_expected = |name: &str| ["default", HOST].contains(&name) || name.starts_with("windlass-plugin-");
    let others: Vec<_> =
        accounts.items.iter().map(PartialObjectMeta::name_any).filter(|name| !is_expected(name)).collect();
    ensure!(
        others.is_empty(),
        "Windlass needs a namespace of its own, and namespace {namespace} has other ServiceAccounts ({}): the host may \
         impersonate them, and a policy denies them to write there. Set --namespace to another one, or \
         --allow-shared-namespace",
        others.join(", ")
    );
    Ok(())
}

/// Why `uninstall` must not delete an object: `install` did not write it, or another tool owns it as well. None if it may be deleted.
/// `ignores_helm` is for an object that Helm left when it uninstalled its release.
pub fn reason_to_keep(meta: &ObjectMeta, ignores_helm: bool) -> Option<String> {
    let entries = || meta.managed_fields.iter().flatten();
    if !entries().any(|entry| entry.manager.as_deref() == Some(FIELD_MANAGER)) {
        return Some("it was not written by `windlass install`".to_owned());
    }
    if has_helms_label(meta) && !ignores_helm {
        return Some("it belongs to a release of Helm".to_owned());
    }
    // The control plane applies the status of policies.
    let is_owner = |entry: &&ManagedFieldsEntry| {
        entry.subresource.is_none()
            && (entry.operation.as_deref() == Some("Apply") || entry.manager.as_deref() == Some(CLIENT_SIDE))
    };
    let is_other = |manager: &&str| {
        let is_helms_left = ignores_helm && *manager == HELM_MANAGER;
        !is_helms_left && ![FIELD_MANAGER, AGGREGATION].contains(manager)
    };
    let owners = entries().filter(is_owner).filter_map(|entry| entry.manager.as_deref());
    let others = list_of_names(owners.filter(is_other));
    others.map(|others| format!("it was also applied by {others}"))
}

fn has_helms_label(meta: &ObjectMeta) -> bool {
    meta.labels.iter().flatten().any(|(name, value)| name == MANAGED_BY && value == "Helm")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written_by(managers: &[(&str, &str)], labels: &[(&str, &str)]) -> ObjectMeta {
        let entries = managers.iter().map(|(manager, operation)| ManagedFieldsEntry {
            manager: Some((*manager).to_owned()),
            operation: Some((*operation).to_owned()),
            ..ManagedFieldsEntry::default()
        });
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        ObjectMeta { managed_fields: Some(entries.collect()), labels: Some(labels.collect()), ..ObjectMeta::default() }
    }

    #[test]
    fn object_that_another_tool_owns_is_kept_with_a_reason() {
        let own = ("windlass-install", "Apply");
        let kept = |managers: &[_]| reason_to_keep(&written_by(managers, &[]), false);
        assert_eq!(kept(&[own]), None);
        assert_eq!(kept(&[own, ("clusterrole-aggregation-controller", "Apply")]), None);
        assert_eq!(kept(&[own, ("kubectl-scale", "Update"), ("kube-controller-manager", "Update")]), None);
        assert_eq!(kept(&[("kubectl", "Apply")]).as_deref(), Some("it was not written by `windlass install`"));
        let also = Some("it was also applied by kubectl, kustomize-controller");
        assert_eq!(kept(&[own, ("kustomize-controller", "Apply"), ("kubectl", "Apply")]).as_deref(), also);
        let status = ManagedFieldsEntry {
            manager: Some("kube-controller-manager".to_owned()),
            operation: Some("Apply".to_owned()),
            subresource: Some("status".to_owned()),
            ..ManagedFieldsEntry::default()
        };
        let mut policy = written_by(&[own], &[]);
        policy.managed_fields.get_or_insert_default().push(status);
        assert_eq!(reason_to_keep(&policy, false), None);
        let client_side = kept(&[own, ("kubectl-client-side-apply", "Update")]);
        assert_eq!(client_side.as_deref(), Some("it was also applied by kubectl-client-side-apply"));
    }

    #[test]
    fn object_of_helm_is_kept_unless_helm_left_it() {
        let helms = written_by(&[("windlass-install", "Apply"), ("helm", "Apply")], &[(MANAGED_BY, "Helm")]);
        assert_eq!(reason_to_keep(&helms, false).as_deref(), Some("it belongs to a release of Helm"));
        assert_eq!(reason_to_keep(&helms, true), None);
        let helms_alone = written_by(&[("helm", "Apply")], &[(MANAGED_BY, "Helm")]);
        assert!(reason_to_keep(&helms_alone, true).is_some());
    }

    #[test]
    fn installation_in_another_namespace_is_found() {
        let here = Installation { exists: true, is_helms: false, namespaces: vec!["fleet".to_owned()] };
        assert_eq!((here.elsewhere("fleet"), here.elsewhere("other")), (None, Some("fleet")));
        assert_eq!(Installation::default().elsewhere("other"), None);
    }

    #[test]
    fn shared_namespace_is_rejected() {
        for namespace in SHARED {
            let message = check_name(namespace).expect_err("a shared namespace").to_string();
            assert!(message.contains("needs a namespace of its own"), "{message}");
        }
        assert!(check_name("windlass-system").is_ok());
    }
}
