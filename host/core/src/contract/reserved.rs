//! Namespaces with rules of their own: the host's is closed to plugins, regardless of grants; children in those of the
//! control plane need a grant that names the namespace.
//!
//! A user who may write Secrets or Pods in a namespace can act as any of its ServiceAccounts: the control plane fills a
//! Secret of type `kubernetes.io/service-account-token` with the token of the named account, and a Pod runs as the
//! named account. In the host's namespace, a plugin could act as the host, which may impersonate every plugin; in the
//! namespaces of the control plane, as its controllers.

use std::sync::Arc;

/// The namespaces of the control plane. A plugin with cluster-scoped parents may have children there only if its Plugin
/// names the namespace.
pub const SYSTEM_NAMESPACES: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];

/// The type of Secrets that the control plane fills with a ServiceAccount's token.
pub const TOKEN_SECRET: &str = "kubernetes.io/service-account-token";

/// The type of Secrets with which new nodes join the cluster.
pub const BOOTSTRAP_SECRET: &str = "bootstrap.kubernetes.io/token";

/// The namespace in which the host runs: plugins have no parents or children there, and read nothing there. The default
/// is no namespace, for commands that run outside a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, derive_more::Display)]
pub struct HostNamespace(Arc<str>);

impl HostNamespace {
    /// Creates the host's namespace from its name.
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// The namespace, if there is one.
    pub fn name(&self) -> Option<Arc<str>> {
        (!self.0.is_empty()).then(|| self.0.clone())
    }

    /// Returns true if a namespace is the host's.
    pub fn is(&self, namespace: &str) -> bool {
        !self.0.is_empty() && *self.0 == *namespace
    }
}
