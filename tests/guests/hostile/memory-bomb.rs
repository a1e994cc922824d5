//! Allocates memory in an endless loop. The host does not let the guest's memory grow beyond the limit, so the guest
//! traps; the host's own memory does not grow.

use hostile_guests::{Hostile, Outcome, Request};

struct MemoryBomb;

impl Hostile for MemoryBomb {
    const KIND: &str = "MemoryBomb";

    fn attack(_request: &Request) -> Outcome {
        loop {
            // Writes to the memory, so that its pages are really allocated.
            std::mem::forget(std::hint::black_box(vec![1_u8; 1 << 20]));
        }
    }
}

hostile_guests::export!(MemoryBomb);
