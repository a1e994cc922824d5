//! Takes memory without end when it is asked what it is. The host refuses it, and the Plugin says so.

use hostile_guests::{Descriptor, Hostile};

struct DescribeMemoryBomb;

impl Hostile for DescribeMemoryBomb {
    const KIND: &str = "DescribeMemoryBomb";

    fn describe() -> Descriptor {
        loop {
            // Written to, so that the pages are real.
            std::mem::forget(std::hint::black_box(vec![1_u8; 1 << 20]));
        }
    }
}

hostile_guests::export!(DescribeMemoryBomb);
