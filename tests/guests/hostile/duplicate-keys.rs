//! Returns a child with two kinds: which one counts depends on who reads it. The host calls the whole answer malformed.

use hostile_guests::{Answer, Hostile, Request, response};

struct DuplicateKeys;

impl Hostile for DuplicateKeys {
    const KIND: &str = "DuplicateKeys";

    fn attack(_request: &Request) -> Answer {
        Ok(response([
            br#"{"apiVersion":"v1","kind":"ConfigMap","kind":"Secret","metadata":{"name":"two-faced"}}"#.to_vec()
        ]))
    }
}

hostile_guests::export!(DuplicateKeys);
