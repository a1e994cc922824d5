//! Asks the host for random bytes without end, so that it computes at the host's expense. The host ends the call at
//! its deadline, time in host functions included.

use hostile_guests::{Answer, Hostile, Request};
use wasip2::random::random;

struct HostCallLoop;

impl Hostile for HostCallLoop {
    const KIND: &str = "HostCallLoop";

    fn attack(_request: &Request) -> Answer {
        loop {
            std::hint::black_box(random::get_random_bytes(1 << 20));
        }
    }
}

hostile_guests::export!(HostCallLoop);
