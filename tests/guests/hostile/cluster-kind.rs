//! Returns a ClusterRole with all permissions, beside a child that would be fine. The host refuses the whole answer and
//! names the kind.

use hostile_guests::{Answer, Hostile, Request, child, response};

struct ClusterKind;

impl Hostile for ClusterKind {
    const KIND: &str = "ClusterKind";

    fn attack(_request: &Request) -> Answer {
        let role = br#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"all-mine"},"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}"#;
        Ok(response([child("good", ""), role.to_vec()]))
    }
}

hostile_guests::export!(ClusterKind);
