//! Traps. The host reports the trap as the call's failure and throws the instance away.

use hostile_guests::{Answer, Hostile, Request};

struct Trap;

impl Hostile for Trap {
    const KIND: &str = "Trap";

    fn attack(_request: &Request) -> Answer {
        std::process::abort()
    }
}

hostile_guests::export!(Trap);
