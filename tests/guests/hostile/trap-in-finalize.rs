//! Reconciles, and traps in its finalize call, so its parent cannot be deleted. The parent's status gives the reason,
//! and what a user can do about it.

use hostile_guests::{Descriptor, Hostile, Outcome, Request, descriptor};

struct TrapInFinalize;

impl Hostile for TrapInFinalize {
    const KIND: &str = "TrapInFinalize";

    fn describe() -> Descriptor {
        Descriptor { finalizes: true, ..descriptor(Self::KIND) }
    }

    fn finalize(_request: &Request) -> Outcome {
        std::process::abort()
    }
}

hostile_guests::export!(TrapInFinalize);
