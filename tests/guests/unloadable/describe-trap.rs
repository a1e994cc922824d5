//! Traps in `describe`. The Plugin's condition reports it.

use hostile_guests::{Descriptor, Hostile};

struct DescribeTrap;

impl Hostile for DescribeTrap {
    const KIND: &str = "DescribeTrap";

    fn describe() -> Descriptor {
        std::process::abort()
    }
}

hostile_guests::export!(DescribeTrap);
