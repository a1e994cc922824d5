//! Returns 8 MB, which fit the guest's memory but exceed the limit of a response. The call fails, and the host does not
//! copy the bytes.

use hostile_guests::{Hostile, Outcome, Request, child, response};

struct FatAnswer;

impl Hostile for FatAnswer {
    const KIND: &str = "FatAnswer";

    fn attack(_request: &Request) -> Outcome {
        Ok(response([child("fat", &"x".repeat(8_000_000))]))
    }
}

hostile_guests::export!(FatAnswer);
