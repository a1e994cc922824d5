//! Returns a child that names another owner, and another plugin's labels. The host sets ownership: it either rejects
//! the response, or writes its own ownerReference and labels and none of these.

use hostile_guests::{Hostile, Outcome, Request, response};

struct ForgedOwner;

impl Hostile for ForgedOwner {
    const KIND: &str = "ForgedOwner";

    fn attack(_request: &Request) -> Outcome {
        let child = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"forged","labels":{"windlass.dev/plugin":"echo","windlass.dev/parent-uid":"11111111-1111-1111-1111-111111111111"},"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"kube-system","uid":"11111111-1111-1111-1111-111111111111","controller":true,"blockOwnerDeletion":true}]}}"#;
        Ok(response([child.to_vec()]))
    }
}

hostile_guests::export!(ForgedOwner);
