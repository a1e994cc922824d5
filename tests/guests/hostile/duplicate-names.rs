//! Returns two different children with the same kind and name. The host rejects the whole response and names the child.

use hostile_guests::{Hostile, Outcome, Request, child, response};

struct DuplicateNames;

impl Hostile for DuplicateNames {
    const KIND: &str = "DuplicateNames";

    fn attack(_request: &Request) -> Outcome {
        Ok(response([child("twin", "one"), child("twin", "other")]))
    }
}

hostile_guests::export!(DuplicateNames);
