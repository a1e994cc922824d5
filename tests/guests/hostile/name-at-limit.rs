//! Returns a child with a name of 253 characters, as long as a name can be. Nothing is wrong with it, and it is
//! created.

use hostile_guests::{Answer, Hostile, Request, child, good, response};

struct NameAtLimit;

impl Hostile for NameAtLimit {
    const KIND: &str = "NameAtLimit";

    fn attack(request: &Request) -> Answer {
        Ok(response(good(request).children.into_iter().chain([child(&"n".repeat(253), "")])))
    }
}

hostile_guests::export!(NameAtLimit);
