//! Namespaces that are closed to plugins, whatever was granted to them.
//!
//! Who may write Secrets or Pods in a namespace can act as any of its ServiceAccounts: a Secret of type
//! `kubernetes.io/service-account-token` is filled with the token of the account that it names, and a Pod runs as the account
//! that it names. In the host's namespace that would be the host itself, which may act as every plugin; in the namespaces of
//! the control plane, its controllers.

use std::sync::Arc;

/// The namespaces of the control plane. A plugin with cluster-scoped parents has children there only if its Plugin names the
/// namespace.
pub const SYSTEM_NAMESPACES: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];

/// The type of the Secrets that the control plane fills with the token of a ServiceAccount.
pub const TOKEN_SECRET: &str = "kubernetes.io/service-account-token";

/// The type of the Secrets with which new nodes join the cluster.
pub const BOOTSTRAP_SECRET: &str = "bootstrap.kubernetes.io/token";

/// The namespace that the host runs in: no plugin has parents or children there, or reads there. The default is no namespace,
/// for where there is no host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostNamespace(Arc<str>);

impl HostNamespace {
    /// The host's namespace.
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// Whether a namespace is the host's.
    pub fn is(&self, namespace: &str) -> bool {
        !self.0.is_empty() && *self.0 == *namespace
    }
}

impl std::fmt::Display for HostNamespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
