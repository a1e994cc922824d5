//! Returns a ClusterRole that grants everything, and a valid child. The host rejects the whole response and names the
//! kind.

use hostile_guests::{Hostile, Outcome, Request, child, response};

struct ClusterKind;

impl Hostile for ClusterKind {
    const KIND: &str = "ClusterKind";

    fn attack(_request: &Request) -> Outcome {
        let role = br#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"all-mine"},"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}"#;
        Ok(response([child("good", ""), role.to_vec()]))
    }
}

hostile_guests::export!(ClusterKind);
