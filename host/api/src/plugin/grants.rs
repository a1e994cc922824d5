//! The kinds that a plugin may own as children and read as related objects.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_core::ids::Gvk;

/// Kinds that a plugin may own as children and read as related objects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrantsSpec {
    /// Kinds of which the plugin may own objects as children. Default: the kinds that the component declares, except
    /// RBAC kinds, webhooks, Namespaces and other kinds that affect the whole cluster; the plugin may own those only if
    /// they are listed here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub children: Option<Vec<ChildRef>>,
    /// Kinds of related objects that the plugin may read outside its parent's namespace: in other namespaces, or
    /// cluster-scoped. A kind that the component does not declare has no effect. Default: none; a plugin may read the
    /// namespaced kinds that its component declares in the parent's namespace, or in all namespaces except the host's
    /// own if the parent is cluster-scoped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub related: Option<Vec<RelatedRef>>,
}

impl GrantsSpec {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChildRef {
    /// The kind.
    #[serde(flatten)]
    pub kind: KindRef,
    /// Namespaces in which a cluster-scoped parent may have children of this kind. Default: all except kube-system,
    /// kube-public and kube-node-lease, which must be listed here, and the host's own namespace, in which no plugin may
    /// have children. A namespaced parent always has its children in its own namespace; this list does not apply to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 63)))]
    pub namespaces: Option<Vec<String>>,
    /// Whether the plugin may own Secrets of the types `kubernetes.io/service-account-token` and
    /// `bootstrap.kubernetes.io/token`; for kind Secret only. The control plane fills a Secret of the first type with
    /// the token of a ServiceAccount in its namespace, and a Secret of the second type is itself a credential for
    /// joining nodes, so the plugin can act as these accounts. Default: false.
    #[serde(default)]
    pub service_account_tokens: bool,
}

/// A kind that a plugin may read, and the namespaces in which it may read objects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RelatedRef {
    /// The kind.
    #[serde(flatten)]
    pub kind: KindRef,
    /// Namespaces, other than the parent's own, in which the plugin may read objects of this kind. Default: for a
    /// namespaced parent none, for a cluster-scoped parent all except the host's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 63)))]
    pub namespaces: Option<Vec<String>>,
}
