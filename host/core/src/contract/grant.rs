//! Decides which of the kinds that a component declares may be its parents, children or related objects, from
//! `spec.grants` of its Plugin. `windlass push` generates RBAC for the same kinds.

use std::sync::Arc;

use crate::contract::related::{ReadGrant, ReadGrants};
use crate::value::ids::Gvk;

/// The API group of Windlass' own kinds.
const OWN_GROUP: &str = "windlass.dev";

/// Whether the cluster serves a kind that a component declares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Presence {
    /// It must, or the component does not go live.
    #[default]
    Required,
    /// It need not, and does.
    Served,
    /// It need not, and does not.
    Absent,
}

impl Presence {
    /// Whether the component may be live without the kind.
    pub fn is_optional(self) -> bool {
        self != Self::Required
    }
}

/// `spec.grants` of a Plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpecGrants {
    /// The existing kind that the plugin may reconcile although it is sensitive, or although its objects get a finalizer.
    pub parent: Option<Gvk>,
    /// All kinds that the plugin may own; `None` grants the kinds in its descriptor.
    pub children: Option<Vec<ChildGrant>>,
    /// The kinds that the plugin may read outside its parent's namespace; `None` grants none.
    pub related: Option<Vec<RelatedGrant>>,
}

/// A granted kind of children, and its restrictions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildGrant {
    /// The kind.
    pub kind: Gvk,
    /// The namespaces in which a cluster-scoped parent may have such children, if they are restricted.
    pub namespaces: Option<Box<[Arc<str>]>>,
    /// Whether the children may be Secrets with ServiceAccount tokens.
    pub tokens: bool,
}

/// A kind that may be read outside the parent's namespace as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelatedGrant {
    /// The kind.
    pub kind: Gvk,
    /// The namespaces, if they are restricted.
    pub namespaces: Option<Box<[Arc<str>]>>,
}

/// Why a kind is not granted; the text follows the kind's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Withheld {
    /// The Plugin grants other kinds only.
    #[error("is not granted by spec.grants.children")]
    NotNamed,
    /// The kind could extend the plugin's permissions, or affect the whole cluster.
    #[error(
        "is granted only if spec.grants.children names it, because it can extend permissions or affects the whole cluster"
    )]
    MustBeNamed,
    /// A namespaced parent cannot have cluster-scoped children.
    #[error("is cluster-scoped and cannot be the child of a namespaced parent")]
    OutOfScope,
    /// The kind is cluster-scoped, and the Plugin does not name it.
    #[error("is cluster-scoped, and read only if spec.grants.related names it")]
    NotReadable,
    /// The parent kind exists without the component, and is sensitive.
    #[error(
        "is reconciled only if spec.grants.parent names it, because the plugin reads every object of the kind, and the kind \
         holds credentials, can extend permissions or is cluster-scoped"
    )]
    ParentMustBeNamed,
    /// The component would set a finalizer on objects of a kind that exists without it.
    #[error(
        "is reconciled with a finalizer only if spec.grants.parent names it, because a finalizer lets the plugin block the \
         deletion of every object of the kind"
    )]
    FinalizerMustBeNamed,
}

impl SpecGrants {
    /// Checks that the plugin may reconcile an existing kind, whose CRD the component does not carry.
    ///
    /// # Errors
    /// Why it may not.
    pub fn may_reconcile(&self, kind: &Gvk, namespaced: bool, finalizes: bool) -> Result<(), Withheld> {
        let is_secret = (&*kind.group, &*kind.kind) == ("", "Secret");
        let is_sensitive = !namespaced || is_secret || must_be_named(kind);
        match &self.parent {
            Some(named) if named == kind => Ok(()),
            _ if is_sensitive => Err(Withheld::ParentMustBeNamed),
            _ if finalizes => Err(Withheld::FinalizerMustBeNamed),
            _ => Ok(()),
        }
    }

    /// Checks that the plugin may own children of a kind in its descriptor.
    ///
    /// # Errors
    /// Why it may not.
    pub fn may_own(&self, kind: &Gvk) -> Result<(), Withheld> {
        match &self.children {
            Some(_) if self.owned(kind).is_some() => Ok(()),
            _ if must_be_named(kind) => Err(Withheld::MustBeNamed),
            Some(_) => Err(Withheld::NotNamed),
            None => Ok(()),
        }
    }

    /// The Plugin's grant for a kind of children, if it names the kind.
    pub fn owned(&self, kind: &Gvk) -> Option<&ChildGrant> {
        self.children.iter().flatten().find(|owned| owned.kind == *kind)
    }

    /// Returns where a kind in the plugin's descriptor may be read.
    ///
    /// # Errors
    /// The kind may not be read: it is cluster-scoped, and the Plugin does not name it.
    pub fn may_read(&self, kind: &Gvk, namespaced: bool) -> Result<ReadGrant, Withheld> {
        let named = self.related.iter().flatten().find(|named| named.kind == *kind);
        if !namespaced && named.is_none() {
            return Err(Withheld::NotReadable);
        }
        let beside = named.and_then(|named| named.namespaces.clone());
        Ok(ReadGrant { kind: Arc::new(kind.clone()), namespaced, namespaces: beside, presence: Presence::default() })
    }

    /// Returns true if a plugin that may read this may read all of it with these grants.
    pub fn hold_reads(&self, before: &ReadGrants) -> bool {
        before.iter().all(|before| {
            let now = self.may_read(&before.kind, before.namespaced);
            // Without a list, the namespaces depend on the parent, so that only the same is no less.
            now.is_ok_and(|now| match (&before.namespaces, &now.namespaces) {
                (Some(before), Some(now)) => are_in(before, now),
                (before, now) => before == now,
            })
        })
    }
}

/// Whether each of these namespaces is in a list.
pub(crate) fn are_in(namespaces: &[Arc<str>], list: &[Arc<str>]) -> bool {
    namespaces.iter().all(|namespace| list.contains(namespace))
}

/// Checks that a parent of this scope can have a child of that scope.
///
/// # Errors
/// It cannot.
pub fn child_scope_fits(parent_namespaced: bool, child_namespaced: bool) -> Result<(), Withheld> {
    if parent_namespaced && !child_namespaced { Err(Withheld::OutOfScope) } else { Ok(()) }
}

/// Returns true if objects of an existing kind may be a plugin's parents: all kinds except Windlass' own.
pub fn may_be_parent(kind: &Gvk) -> bool {
    &*kind.group != OWN_GROUP
}

/// Groups whose kinds must all be named explicitly. They control permissions (RBAC, certificates), what the API server
/// serves and accepts (API services, webhooks, admission policies, CRDs, flow control), or what all workloads share
/// (storage, nodes' runtimes, priorities, leader elections).
const CLUSTER_GROUPS: [&str; 15] = [
    OWN_GROUP,
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "node.k8s.io",
    "rbac.authorization.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// Returns true for kinds by which a plugin could extend its own permissions or affect the whole cluster: only a Plugin
/// that names them explicitly grants them.
fn must_be_named(kind: &Gvk) -> bool {
    CLUSTER_GROUPS.contains(&&*kind.group)
        || matches!(
            (&*kind.group, &*kind.kind),
            ("", "Namespace" | "Node" | "PersistentVolume")
                | ("networking.k8s.io", "IngressClass" | "IPAddress" | "ServiceCIDR")
                | ("resource.k8s.io", "DeviceClass" | "DeviceTaintRule" | "ResourceSlice")
                | ("gateway.networking.k8s.io", "GatewayClass")
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::reserved::HostNamespace;

    fn kind(text: &str) -> Gvk {
        text.parse().expect("a kind")
    }

    fn children(kinds: &[&str]) -> SpecGrants {
        let owned = |text: &&str| ChildGrant { kind: kind(text), namespaces: None, tokens: false };
        SpecGrants { children: Some(kinds.iter().map(owned).collect()), ..SpecGrants::default() }
    }

    #[test]
    fn component_may_own_every_declared_kind_unless_its_plugin_grants_only_other_kinds() {
        let (pod, secret) = (kind("Pod.v1"), kind("Secret.v1"));
        assert_eq!(SpecGrants::default().may_own(&pod), Ok(()));
        assert_eq!(children(&["Pod.v1"]).may_own(&pod), Ok(()));
        assert_eq!(children(&["Pod.v1"]).may_own(&secret), Err(Withheld::NotNamed));
        assert_eq!(children(&[]).may_own(&pod), Err(Withheld::NotNamed));
    }

    #[test]
    fn kind_that_is_read_in_fewer_namespaces_or_not_at_all_is_taken_away() {
        let node = kind("Node.v1");
        let list = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect();
        let spec = |kind: &Gvk, namespaces: Option<&[&str]>| SpecGrants {
            related: Some(vec![RelatedGrant { kind: kind.clone(), namespaces: namespaces.map(list) }]),
            ..SpecGrants::default()
        };
        let pod = kind("Pod.v1");
        let reads = |spec: &SpecGrants, kind: &Gvk, namespaced| {
            ReadGrants::new(HostNamespace::default(), spec.may_read(kind, namespaced))
        };
        let before = spec(&pod, Some(&["a", "b"]));
        let before = reads(&before, &pod, true);
        assert!(spec(&pod, Some(&["c", "b", "a"])).hold_reads(&before));
        assert!(!spec(&pod, Some(&["a"])).hold_reads(&before));
        assert!(!SpecGrants::default().hold_reads(&before), "only the parent's own namespace");
        let before = reads(&spec(&node, None), &node, false);
        assert!(spec(&node, None).hold_reads(&before));
        assert!(!spec(&pod, None).hold_reads(&before), "no Nodes");
        assert!(SpecGrants::default().hold_reads(&ReadGrants::default()));
    }

    #[test]
    fn kinds_that_could_widen_permissions_must_be_granted_by_name() {
        for text in [
            "RoleBinding.v1.rbac.authorization.k8s.io",
            "ClusterRole.v1.rbac.authorization.k8s.io",
            "MutatingWebhookConfiguration.v1.admissionregistration.k8s.io",
            "CustomResourceDefinition.v1.apiextensions.k8s.io",
            "Plugin.v1alpha1.windlass.dev",
            "Namespace.v1",
            "Node.v1",
            "PersistentVolume.v1",
            "APIService.v1.apiregistration.k8s.io",
            "CertificateSigningRequest.v1.certificates.k8s.io",
            "ClusterTrustBundle.v1beta1.certificates.k8s.io",
            "StorageClass.v1.storage.k8s.io",
            "CSIDriver.v1.storage.k8s.io",
            "VolumeAttachment.v1.storage.k8s.io",
            "RuntimeClass.v1.node.k8s.io",
            "PriorityClass.v1.scheduling.k8s.io",
            "FlowSchema.v1.flowcontrol.apiserver.k8s.io",
            "PriorityLevelConfiguration.v1.flowcontrol.apiserver.k8s.io",
            "ValidatingAdmissionPolicy.v1.admissionregistration.k8s.io",
            "MutatingAdmissionPolicyBinding.v1.admissionregistration.k8s.io",
            "Lease.v1.coordination.k8s.io",
            "TokenReview.v1.authentication.k8s.io",
            "IngressClass.v1.networking.k8s.io",
            "ServiceCIDR.v1.networking.k8s.io",
            "DeviceClass.v1.resource.k8s.io",
        ] {
            let kind = kind(text);
            assert_eq!(SpecGrants::default().may_own(&kind), Err(Withheld::MustBeNamed), "{text}");
            assert_eq!(children(&["Pod.v1"]).may_own(&kind), Err(Withheld::MustBeNamed), "{text}");
            assert_eq!(children(&[text]).may_own(&kind), Ok(()), "{text}");
        }
        for text in ["Namespace.v1.example.org", "NetworkPolicy.v1.networking.k8s.io", "PersistentVolumeClaim.v1"] {
            assert_eq!(SpecGrants::default().may_own(&kind(text)), Ok(()), "{text} cannot widen permissions");
        }
    }

    #[test]
    fn namespaced_parent_has_no_cluster_scoped_child_and_windlass_kinds_are_never_parents() {
        assert_eq!(child_scope_fits(true, false), Err(Withheld::OutOfScope));
        for (parent, child) in [(true, true), (false, true), (false, false)] {
            assert_eq!(child_scope_fits(parent, child), Ok(()));
        }
        assert!(!may_be_parent(&kind("Plugin.v1alpha1.windlass.dev")) && may_be_parent(&kind("Namespace.v1")));
    }

    #[test]
    fn existing_parent_kind_that_is_sensitive_or_gets_a_finalizer_must_be_granted_by_name() {
        let named = |text: &str| SpecGrants { parent: Some(kind(text)), ..SpecGrants::default() };
        let any = SpecGrants::default();
        for (text, namespaced) in [
            ("Secret.v1", true),
            ("Role.v1.rbac.authorization.k8s.io", true),
            ("Lease.v1.coordination.k8s.io", true),
            ("Namespace.v1", false),
            ("CustomResourceDefinition.v1.apiextensions.k8s.io", false),
            ("ClusterIssuer.v1.cert-manager.io", false),
        ] {
            for finalizes in [false, true] {
                let refused = any.may_reconcile(&kind(text), namespaced, finalizes);
                assert_eq!(refused, Err(Withheld::ParentMustBeNamed), "{text}");
                assert_eq!(named("Pod.v1").may_reconcile(&kind(text), namespaced, finalizes), refused, "{text}");
                assert_eq!(named(text).may_reconcile(&kind(text), namespaced, finalizes), Ok(()), "{text}");
            }
        }
        for text in ["Pod.v1", "ConfigMap.v1", "Deployment.v1.apps", "Secret.v1.example.org"] {
            assert_eq!(any.may_reconcile(&kind(text), true, false), Ok(()), "{text}");
            assert_eq!(any.may_reconcile(&kind(text), true, true), Err(Withheld::FinalizerMustBeNamed), "{text}");
            assert_eq!(named(text).may_reconcile(&kind(text), true, true), Ok(()), "{text}");
        }
        // A child kind that is granted is no parent kind that is granted.
        assert!(children(&["Secret.v1"]).may_reconcile(&kind("Secret.v1"), true, false).is_err());
    }

    fn beyond(text: &str, namespace: Option<&str>) -> SpecGrants {
        let namespaces = namespace.map(|name| [Arc::from(name)].into());
        SpecGrants { related: Some(vec![RelatedGrant { kind: kind(text), namespaces }]), ..SpecGrants::default() }
    }

    fn grant(text: &str, namespaced: bool, beside: Option<&str>) -> ReadGrant {
        let beside = beside.map(|name| [Arc::from(name)].into());
        ReadGrant { kind: Arc::new(kind(text)), namespaced, namespaces: beside, presence: Presence::Required }
    }

    #[test]
    fn related_kinds_are_read_in_the_parents_namespace_unless_the_plugin_grants_others() {
        let named = beyond("Secret.v1", Some("shared"));
        assert_eq!(SpecGrants::default().may_read(&kind("Secret.v1"), true), Ok(grant("Secret.v1", true, None)));
        assert_eq!(named.may_read(&kind("Secret.v1"), true), Ok(grant("Secret.v1", true, Some("shared"))));
        assert_eq!(named.may_read(&kind("ConfigMap.v1"), true), Ok(grant("ConfigMap.v1", true, None)));
    }

    #[test]
    fn related_cluster_scoped_kinds_are_read_only_if_the_plugin_grants_them() {
        let node = kind("Node.v1");
        assert_eq!(SpecGrants::default().may_read(&node, false), Err(Withheld::NotReadable));
        assert_eq!(beyond("Pod.v1", None).may_read(&node, false), Err(Withheld::NotReadable));
        assert_eq!(beyond("Node.v1", None).may_read(&node, false), Ok(grant("Node.v1", false, None)));
    }
}
