//! Calls itself without end. The host's own stack is not what runs out: the guest traps, and that is the call's
//! failure.

use hostile_guests::{Answer, Hostile, Request, response};

#[expect(unconditional_recursion, reason = "that is the point")]
#[inline(never)]
fn deeper(depth: u64) -> u64 {
    deeper(std::hint::black_box(depth + 1)) + std::hint::black_box(depth)
}

struct StackOverflow;

impl Hostile for StackOverflow {
    const KIND: &str = "StackOverflow";

    fn attack(_request: &Request) -> Answer {
        Ok(response([vec![deeper(0).to_le_bytes()[0]]]))
    }
}

hostile_guests::export!(StackOverflow);
