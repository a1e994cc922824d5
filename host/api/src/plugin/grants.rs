//! The kinds that a plugin may reconcile, own as children and read as related objects.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use windlass_core::contract::grant::{ChildGrant, RelatedGrant, SpecGrants};
use windlass_core::value::ids::Gvk;

/// Kinds that a plugin may reconcile, own as children and read as related objects.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct GrantsSpec {
    /// Existing kind that the component may reconcile: a kind whose CustomResourceDefinition the component does not carry,
    /// as Namespace. Required for Secrets, for cluster-scoped kinds and for kinds that can extend permissions, because the
    /// plugin reads every object of its parent kind; and for every existing kind whose objects get the plugin's finalizer,
    /// because a finalizer can block their deletion. Default: none; a plugin may reconcile the kind whose
    /// CustomResourceDefinition it carries, and other existing kinds.
    pub parent: Option<KindRef>,
    /// Kinds of which the plugin may own objects as children. Default: the kinds that the component declares, except
    /// RBAC kinds, webhooks, Namespaces and other kinds that affect the whole cluster; the plugin may own those only if
    /// they are listed here.
    #[schemars(length(max = 64))]
    pub children: Option<Vec<ChildRef>>,
    /// Kinds of related objects that the plugin may read outside its parent's namespace: in other namespaces, or
    /// cluster-scoped. A kind that the component does not declare has no effect. Default: none; a plugin may read the
    /// namespaced kinds that its component declares in the parent's namespace, or in all namespaces except the host's
    /// own if the parent is cluster-scoped.
    #[schemars(length(max = 64))]
    pub related: Option<Vec<RelatedRef>>,
}

impl GrantsSpec {
    /// Whether no field is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The grants, as decisions use them.
    pub fn spec_grants(&self) -> SpecGrants {
        let shared = |names: &Option<Vec<String>>| {
            names.as_ref().map(|names| names.iter().map(|name| Arc::from(name.as_str())).collect())
        };
        let child_grant = |named: &ChildRef| ChildGrant {
            kind: named.kind.gvk(),
            namespaces: shared(&named.namespaces),
            tokens: named.service_account_tokens,
        };
        let related_grant =
            |named: &RelatedRef| RelatedGrant { kind: named.kind.gvk(), namespaces: shared(&named.namespaces) };
        SpecGrants {
            parent: self.parent.as_ref().map(KindRef::gvk),
            children: self.children.as_ref().map(|kinds| kinds.iter().map(child_grant).collect()),
            related: self.related.as_ref().map(|kinds| kinds.iter().map(related_grant).collect()),
        }
    }
}

impl From<&Gvk> for KindRef {
    fn from(kind: &Gvk) -> Self {
        Self { api_version: kind.api_version(), kind: kind.kind.to_string() }
    }
}

/// A kind, by `apiVersion` and `kind`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KindRef {
    /// API version of the kind, as in `apps/v1`.
    #[schemars(length(min = 1, max = 317))]
    pub api_version: String,
    /// Name of the kind, as in `Deployment`.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
}

impl KindRef {
    /// The group, version and kind.
    pub fn gvk(&self) -> Gvk {
        Gvk::from_api_version(&self.api_version, &self.kind)
    }
}

/// A kind that a plugin may own, and the namespaces in which it may own objects.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChildRef {
    /// The kind.
    #[serde(flatten)]
    pub kind: KindRef,
    /// Namespaces in which a cluster-scoped parent may have children of this kind. Default: all except kube-system,
    /// kube-public and kube-node-lease, which must be listed here, and the host's own namespace, in which no plugin may
    /// have children. A namespaced parent always has its children in its own namespace; this list does not apply to it.
    #[schemars(length(max = 256), inner(length(min = 1, max = 63)))]
    pub namespaces: Option<Vec<String>>,
    /// Whether the plugin may own Secrets of the types `kubernetes.io/service-account-token` and
    /// `bootstrap.kubernetes.io/token`; for kind Secret only. The control plane fills a Secret of the first type with
    /// the token of a ServiceAccount in its namespace, and a Secret of the second type is itself a credential for
    /// joining nodes, so the plugin can act as these accounts. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub service_account_tokens: bool,
}

impl From<&Gvk> for ChildRef {
    /// The kind in every namespace, without tokens.
    fn from(kind: &Gvk) -> Self {
        Self { kind: kind.into(), namespaces: None, service_account_tokens: false }
    }
}

/// A kind that a plugin may read, and the namespaces in which it may read objects.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RelatedRef {
    /// The kind.
    #[serde(flatten)]
    pub kind: KindRef,
    /// Namespaces, other than the parent's own, in which the plugin may read objects of this kind. Default: for a
    /// namespaced parent none, for a cluster-scoped parent all except the host's own.
    #[schemars(length(max = 256), inner(length(min = 1, max = 63)))]
    pub namespaces: Option<Vec<String>>,
}

impl From<&Gvk> for RelatedRef {
    /// The kind in the namespaces of its default.
    fn from(kind: &Gvk) -> Self {
        Self { kind: kind.into(), namespaces: None }
    }
}
