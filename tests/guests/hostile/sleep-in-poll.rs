//! Sleeps in WASI's `poll`, an hour at a time. The clocks are virtual: a poll returns at once, and all clocks advance
//! by an hour, so no thread of the host sleeps. The result is an endless loop, which ends at the deadline.

use hostile_guests::{Hostile, Outcome, Request};
use wasip2::{clocks::monotonic_clock, io::poll};

struct SleepInPoll;

impl Hostile for SleepInPoll {
    const KIND: &str = "SleepInPoll";

    fn attack(_request: &Request) -> Outcome {
        loop {
            let hour = monotonic_clock::subscribe_duration(3_600_000_000_000);
            poll::poll(&[&hour]);
        }
    }
}

hostile_guests::export!(SleepInPoll);
