//! Returns 100 MB, which also exceed the default memory limit. The call fails, and the host keeps none of the
//! bytes.

use hostile_guests::{Hostile, Outcome, Request, child, response};

struct HugeAnswer;

impl Hostile for HugeAnswer {
    const KIND: &str = "HugeAnswer";

    fn attack(_request: &Request) -> Outcome {
        Ok(response([child("huge", &"x".repeat(100_000_000))]))
    }
}

hostile_guests::export!(HugeAnswer);
