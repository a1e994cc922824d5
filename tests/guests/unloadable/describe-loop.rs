//! Never returns from `describe`. The host ends the call at its deadline, and the Plugin's condition reports it.

use hostile_guests::{Descriptor, Hostile};

struct DescribeLoop;

impl Hostile for DescribeLoop {
    const KIND: &str = "DescribeLoop";

    fn describe() -> Descriptor {
        loop {
            std::hint::black_box(());
        }
    }
}

hostile_guests::export!(DescribeLoop);
