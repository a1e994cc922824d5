//! Returns a child in `kube-system`, which is not the parent's namespace, and a valid child. The host rejects the whole
//! response and names the namespace.

use hostile_guests::{Hostile, Outcome, Request, child, response};

struct ForeignNamespace;

impl Hostile for ForeignNamespace {
    const KIND: &str = "ForeignNamespace";

    fn attack(_request: &Request) -> Outcome {
        let foreign =
            br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"foreign","namespace":"kube-system"}}"#
                .to_vec();
        Ok(response([child("good", ""), foreign]))
    }
}

hostile_guests::export!(ForeignNamespace);
