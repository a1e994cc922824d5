//! Recurses without end. The guest's stack overflows, not the host's: the guest traps, and the call
//! fails.

use hostile_guests::{Hostile, Outcome, Request, response};

#[expect(unconditional_recursion, reason = "that is the point")]
#[inline(never)]
fn deeper(depth: u64) -> u64 {
    deeper(std::hint::black_box(depth + 1)) + std::hint::black_box(depth)
}

struct StackOverflow;

impl Hostile for StackOverflow {
    const KIND: &str = "StackOverflow";

    fn attack(_request: &Request) -> Outcome {
        Ok(response([vec![deeper(0).to_le_bytes()[0]]]))
    }
}

hostile_guests::export!(StackOverflow);
