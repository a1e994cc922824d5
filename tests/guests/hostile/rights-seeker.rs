//! Declares RoleBindings and Windlass' own Plugins as child kinds, and returns a binding to
//! `cluster-admin`. The Plugin's condition reports that the kinds are not granted, and the host rejects the
//! response.

use hostile_guests::{Descriptor, Hostile, Outcome, Request, child_rule, descriptor, response};

struct RightsSeeker;

impl Hostile for RightsSeeker {
    const KIND: &str = "RightsSeeker";

    fn describe() -> Descriptor {
        let mut descriptor = descriptor(Self::KIND);
        descriptor.children.push(child_rule("rbac.authorization.k8s.io/v1", "RoleBinding"));
        descriptor.children.push(child_rule("windlass.dev/v1alpha1", "Plugin"));
        descriptor
    }

    fn attack(_request: &Request) -> Outcome {
        let binding = br#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"admin"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"kind":"ServiceAccount","name":"default"}]}"#;
        Ok(response([binding.to_vec()]))
    }
}

hostile_guests::export!(RightsSeeker);
