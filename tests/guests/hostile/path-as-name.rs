//! Returns a child whose name would lead to another kind and namespace as part of a URL's path. The whole response is
//! malformed.

use hostile_guests::{Hostile, Outcome, Request, child, response};

struct PathAsName;

impl Hostile for PathAsName {
    const KIND: &str = "PathAsName";

    fn attack(_request: &Request) -> Outcome {
        Ok(response([child("../../../kube-system/secrets/x", "")]))
    }
}

hostile_guests::export!(PathAsName);
