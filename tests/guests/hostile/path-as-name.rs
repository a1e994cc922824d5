//! Returns a child whose name leads to another kind and namespace if it becomes part of a path. The host calls the
//! whole answer malformed.

use hostile_guests::{Answer, Hostile, Request, child, response};

struct PathAsName;

impl Hostile for PathAsName {
    const KIND: &str = "PathAsName";

    fn attack(_request: &Request) -> Answer {
        Ok(response([child("../../../kube-system/secrets/x", "")]))
    }
}

hostile_guests::export!(PathAsName);
