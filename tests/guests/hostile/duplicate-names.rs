//! Returns two different children of one kind and name. The host refuses the whole answer and names the child.

use hostile_guests::{Answer, Hostile, Request, child, response};

struct DuplicateNames;

impl Hostile for DuplicateNames {
    const KIND: &str = "DuplicateNames";

    fn attack(_request: &Request) -> Answer {
        Ok(response([child("twin", "one"), child("twin", "other")]))
    }
}

hostile_guests::export!(DuplicateNames);
