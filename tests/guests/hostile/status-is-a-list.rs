//! Returns a status that is a list. The whole response is malformed.

use hostile_guests::{Hostile, Outcome, Request, Response, good};

struct StatusIsAList;

impl Hostile for StatusIsAList {
    const KIND: &str = "StatusIsAList";

    fn attack(request: &Request) -> Outcome {
        Ok(Response { status: Some(b"[1,2,3]".to_vec()), ..good(request) })
    }
}

hostile_guests::export!(StatusIsAList);
