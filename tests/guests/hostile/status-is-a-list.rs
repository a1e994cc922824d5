//! Answers with a status that is a list. The host calls the whole answer malformed.

use hostile_guests::{Answer, Hostile, Request, Response, good};

struct StatusIsAList;

impl Hostile for StatusIsAList {
    const KIND: &str = "StatusIsAList";

    fn attack(request: &Request) -> Answer {
        Ok(Response { status: Some(b"[1,2,3]".to_vec()), ..good(request) })
    }
}

hostile_guests::export!(StatusIsAList);
