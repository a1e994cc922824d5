//! Answers with 100 MB, which is also more memory than the default limit allows. The host fails the call and holds none
//! of it.

use hostile_guests::{Answer, Hostile, Request, child, response};

struct HugeAnswer;

impl Hostile for HugeAnswer {
    const KIND: &str = "HugeAnswer";

    fn attack(_request: &Request) -> Answer {
        Ok(response([child("huge", &"x".repeat(100_000_000))]))
    }
}

hostile_guests::export!(HugeAnswer);
