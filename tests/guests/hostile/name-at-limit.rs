//! Returns a child with a name of 253 characters, the longest valid name. The child is valid, and the host creates
//! it.

use hostile_guests::{Hostile, Outcome, Request, child, good, response};

struct NameAtLimit;

impl Hostile for NameAtLimit {
    const KIND: &str = "NameAtLimit";

    fn attack(request: &Request) -> Outcome {
        Ok(response(good(request).children.into_iter().chain([child(&"n".repeat(253), "")])))
    }
}

hostile_guests::export!(NameAtLimit);
