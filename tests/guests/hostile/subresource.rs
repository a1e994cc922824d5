//! Returns a `Pod/status`: a kind that would lead to a subresource if its text became part of a path. The host
//! refuses the whole answer and names the kind.

use hostile_guests::{Answer, Hostile, Request, response};

struct Subresource;

impl Hostile for Subresource {
    const KIND: &str = "Subresource";

    fn attack(_request: &Request) -> Answer {
        let status =
            br#"{"apiVersion":"v1","kind":"Pod/status","metadata":{"name":"neighbour-0"},"status":{"phase":"Failed"}}"#;
        Ok(response([status.to_vec()]))
    }
}

hostile_guests::export!(Subresource);
