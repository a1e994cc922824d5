//! Answers with 8 MB, which fit the guest's memory but not the bound of a response. The host fails the call without
//! copying them.

use hostile_guests::{Answer, Hostile, Request, child, response};

struct FatAnswer;

impl Hostile for FatAnswer {
    const KIND: &str = "FatAnswer";

    fn attack(_request: &Request) -> Answer {
        Ok(response([child("fat", &"x".repeat(8_000_000))]))
    }
}

hostile_guests::export!(FatAnswer);
