//! Returns a child with a name of 254 characters, one more than a name can have. The host calls the whole answer
//! malformed.

use hostile_guests::{Answer, Hostile, Request, child, response};

struct NameOverLimit;

impl Hostile for NameOverLimit {
    const KIND: &str = "NameOverLimit";

    fn attack(_request: &Request) -> Answer {
        Ok(response([child(&"n".repeat(254), "")]))
    }
}

hostile_guests::export!(NameOverLimit);
