//! Returns a child in `kube-system`, which is not the parent's namespace, beside one that would be fine. The host
//! refuses the whole answer and names the namespace.

use hostile_guests::{Answer, Hostile, Request, child, response};

struct ForeignNamespace;

impl Hostile for ForeignNamespace {
    const KIND: &str = "ForeignNamespace";

    fn attack(_request: &Request) -> Answer {
        let foreign =
            br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"foreign","namespace":"kube-system"}}"#
                .to_vec();
        Ok(response([child("good", ""), foreign]))
    }
}

hostile_guests::export!(ForeignNamespace);
