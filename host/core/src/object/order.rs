//! The install order of kinds: objects that others depend on come first (rule R10).

use crate::value::ids::Gvk;

/// The rank of a kind in the install order; lower ranks come first. Within a rank the plugin's order applies.
pub fn install_rank(kind: &Gvk) -> u8 {
    match (&*kind.group, &*kind.kind) {
        ("", "Namespace") => 0,
        ("", "ResourceQuota" | "LimitRange") | ("networking.k8s.io", "NetworkPolicy") => 1,
        // The API server rejects a binding whose role does not exist.
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => 3,
        ("", "ServiceAccount") | ("rbac.authorization.k8s.io", _) => 2,
        ("", "Secret") => 4,
        ("", "ConfigMap") => 5,
        ("", "PersistentVolume" | "PersistentVolumeClaim") | ("storage.k8s.io", _) => 6,
        ("", "Service" | "Endpoints") | ("discovery.k8s.io", _) => 7,
        ("", "Pod" | "ReplicationController") | ("apps" | "batch", _) => 8,
        _ => 9,
    }
}
