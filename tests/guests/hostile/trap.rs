//! Traps. The host reports the trap as the failure of the call, and discards the instance.

use hostile_guests::{Hostile, Outcome, Request};

struct Trap;

impl Hostile for Trap {
    const KIND: &str = "Trap";

    fn attack(_request: &Request) -> Outcome {
        std::process::abort()
    }
}

hostile_guests::export!(Trap);
