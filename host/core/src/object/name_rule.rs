//! The names that the API server accepts for objects of a kind.

use crate::value::ids::{Gvk, is_dns_label, is_dns_subdomain, is_object_name};

/// A rule for the names of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, derive_more::Display)]
pub enum NameRule {
    /// A DNS subdomain: most built-in kinds, and all custom resources.
    #[display("a DNS subdomain (RFC 1123)")]
    Subdomain,
    /// A DNS label.
    #[display("a DNS label (RFC 1123)")]
    Label,
    /// Any segment of a URL's path, for example `system:reader`. The API server accepts characters that a URL cannot have
    /// unencoded, as a space; the host does not.
    #[display("one segment of a URL's path: letters, digits and any of -._~!$&'()*+,;=:@")]
    PathSegment,
}

impl NameRule {
    /// The rule for a kind. It is the loosest of all supported versions of Kubernetes: some versions also bound the length of
    /// some names, or require that the name of a Service begins with a letter.
    pub fn of(kind: &Gvk) -> Self {
        match (&*kind.group, &*kind.kind) {
            ("", "Namespace" | "Service") => Self::Label,
            // Roles and bindings are named like users and groups, as `system:node`; bundles like `signer.example:a:b`; the name
            // of an IPAddress is the address, which has colons in IPv6; and that of an APIService of the core group ends in a dot.
            ("rbac.authorization.k8s.io", _)
            | ("certificates.k8s.io", "CertificateSigningRequest" | "ClusterTrustBundle")
            | ("networking.k8s.io", "IPAddress")
            | ("apiregistration.k8s.io", "APIService") => Self::PathSegment,
            _ => Self::Subdomain,
        }
    }

    /// Whether objects of the kind may have this name.
    pub fn accepts(self, name: &str) -> bool {
        match self {
            Self::Subdomain => is_dns_subdomain(name),
            Self::Label => is_dns_label(name),
            Self::PathSegment => is_object_name(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 9] = ["a", "a.b", "1a", "A", "app:reader", "system:node:a@b.example", "a b", "a/b", ".."];

    #[test]
    fn names_are_accepted_by_the_rule_of_their_kind() {
        let (subdomain, label) = (["a", "a.b", "1a"].as_slice(), ["a", "1a"].as_slice());
        let segment = ["a", "a.b", "1a", "A", "app:reader", "system:node:a@b.example"].as_slice();
        for (kinds, accepted) in [
            (
                [
                    "Pod.v1",
                    "ConfigMap.v1",
                    "Secret.v1",
                    "ServiceAccount.v1",
                    "PersistentVolume.v1",
                    "Deployment.v1.apps",
                    "CronJob.v1.batch",
                    "Ingress.v1.networking.k8s.io",
                    "StorageClass.v1.storage.k8s.io",
                    "Lease.v1.coordination.k8s.io",
                    "PriorityClass.v1.scheduling.k8s.io",
                    "CustomResourceDefinition.v1.apiextensions.k8s.io",
                    "Echo.v1.my-operator.dev",
                    "Role.v1.my-operator.dev",
                ]
                .as_slice(),
                subdomain,
            ),
            (&["Namespace.v1", "Service.v1"], label),
            (
                &[
                    "Role.v1.rbac.authorization.k8s.io",
                    "RoleBinding.v1.rbac.authorization.k8s.io",
                    "ClusterRole.v1.rbac.authorization.k8s.io",
                    "ClusterRoleBinding.v1.rbac.authorization.k8s.io",
                    "ClusterTrustBundle.v1beta1.certificates.k8s.io",
                    "IPAddress.v1.networking.k8s.io",
                ],
                segment,
            ),
        ] {
            for text in kinds {
                let rule = NameRule::of(&text.parse().expect("a kind"));
                let found: Vec<_> = NAMES.into_iter().filter(|name| rule.accepts(name)).collect();
                assert_eq!(found, accepted, "{text}");
            }
        }
    }

    #[test]
    fn accepted_name_never_changes_the_url_of_a_request() {
        for rule in [NameRule::Subdomain, NameRule::Label, NameRule::PathSegment] {
            for byte in 0..=u8::MAX {
                let name = format!("a{}b", char::from(byte));
                let is_plain = byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte);
                assert!(is_plain || !rule.accepts(&name), "{name:?} under {rule:?}");
            }
            for name in ["", ".", "..", "a/../b", &"a".repeat(254)] {
                assert!(!rule.accepts(name), "{name:?} under {rule:?}");
            }
        }
    }
}
