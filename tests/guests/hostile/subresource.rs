//! Returns a child of the kind `Pod/status`, which would lead to a subresource as part of a URL's path. The host
//! rejects the whole response and names the kind.

use hostile_guests::{Hostile, Outcome, Request, response};

struct Subresource;

impl Hostile for Subresource {
    const KIND: &str = "Subresource";

    fn attack(_request: &Request) -> Outcome {
        let status =
            br#"{"apiVersion":"v1","kind":"Pod/status","metadata":{"name":"neighbour-0"},"status":{"phase":"Failed"}}"#;
        Ok(response([status.to_vec()]))
    }
}

hostile_guests::export!(Subresource);
