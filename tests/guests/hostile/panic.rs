//! Panics, as a plugin with a bug does. The host reports the trap, and the log has the panic's message: `no such luck`.

use hostile_guests::{Hostile, Outcome, Request, response};

struct Panic;

impl Hostile for Panic {
    const KIND: &str = "Panic";

    fn attack(request: &Request) -> Outcome {
        assert!(request.parent.is_empty(), "no such luck");
        Ok(response([]))
    }
}

hostile_guests::export!(Panic);
