//! Allocates memory in an endless loop in `describe`. The host stops it, and the Plugin's condition reports it.

use hostile_guests::{Descriptor, Hostile};

struct DescribeMemoryBomb;

impl Hostile for DescribeMemoryBomb {
    const KIND: &str = "DescribeMemoryBomb";

    fn describe() -> Descriptor {
        loop {
            // Writes to the memory, so that its pages are really allocated.
            std::mem::forget(std::hint::black_box(vec![1_u8; 1 << 20]));
        }
    }
}

hostile_guests::export!(DescribeMemoryBomb);
