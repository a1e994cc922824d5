//! Takes memory without end. The host refuses to grow it beyond the limit, which makes the guest trap; the host's own
//! memory stays where it was.

use hostile_guests::{Answer, Hostile, Request};

struct MemoryBomb;

impl Hostile for MemoryBomb {
    const KIND: &str = "MemoryBomb";

    fn attack(_request: &Request) -> Answer {
        loop {
            // Written to, so that the pages are real.
            std::mem::forget(std::hint::black_box(vec![1_u8; 1 << 20]));
        }
    }
}

hostile_guests::export!(MemoryBomb);
