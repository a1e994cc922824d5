//! Requests random bytes from the host in an endless loop, so the host does the work. The host ends the call at its
//! deadline, which includes the time in host functions.

use hostile_guests::{Hostile, Outcome, Request};
use wasip2::random::random;

struct HostCallLoop;

impl Hostile for HostCallLoop {
    const KIND: &str = "HostCallLoop";

    fn attack(_request: &Request) -> Outcome {
        loop {
            std::hint::black_box(random::get_random_bytes(1 << 20));
        }
    }
}

hostile_guests::export!(HostCallLoop);
