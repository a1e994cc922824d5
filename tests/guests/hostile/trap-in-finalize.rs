//! Does its work, and traps when it is to clean up, so that its parent cannot go. The parent's status says why, and
//! what a person can do about it.

use hostile_guests::{Answer, Descriptor, Hostile, Request, descriptor};

struct TrapInFinalize;

impl Hostile for TrapInFinalize {
    const KIND: &str = "TrapInFinalize";

    fn describe() -> Descriptor {
        Descriptor { finalizes: true, ..descriptor(Self::KIND) }
    }

    fn finalize(_request: &Request) -> Answer {
        std::process::abort()
    }
}

hostile_guests::export!(TrapInFinalize);
