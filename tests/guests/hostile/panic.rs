//! Panics, as a plugin with a bug does. The host reports the trap, and the log has the panic's message: `no such luck`.

use hostile_guests::{Answer, Hostile, Request, response};

struct Panic;

impl Hostile for Panic {
    const KIND: &str = "Panic";

    fn attack(request: &Request) -> Answer {
        assert!(request.parent.is_empty(), "no such luck");
        Ok(response([]))
    }
}

hostile_guests::export!(Panic);
