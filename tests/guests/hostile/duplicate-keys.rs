//! Returns a child with two kinds: which one counts depends on the reader. The whole response is malformed.

use hostile_guests::{Hostile, Outcome, Request, response};

struct DuplicateKeys;

impl Hostile for DuplicateKeys {
    const KIND: &str = "DuplicateKeys";

    fn attack(_request: &Request) -> Outcome {
        Ok(response([
            br#"{"apiVersion":"v1","kind":"ConfigMap","kind":"Secret","metadata":{"name":"two-faced"}}"#.to_vec()
        ]))
    }
}

hostile_guests::export!(DuplicateKeys);
