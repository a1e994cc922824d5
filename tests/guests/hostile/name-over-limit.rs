//! Returns a child with a name of 254 characters, one more than a name may have. The whole response is
//! malformed.

use hostile_guests::{Hostile, Outcome, Request, child, response};

struct NameOverLimit;

impl Hostile for NameOverLimit {
    const KIND: &str = "NameOverLimit";

    fn attack(_request: &Request) -> Outcome {
        Ok(response([child(&"n".repeat(254), "")]))
    }
}

hostile_guests::export!(NameOverLimit);
