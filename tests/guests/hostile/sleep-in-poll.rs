//! Sleeps in WASI's `poll`, an hour at a time. The clocks are virtual and a poll returns at once, an hour later by all of
//! them, so that no thread of the host sleeps; this is then one more endless loop, ended at the deadline.

use hostile_guests::{Answer, Hostile, Request};
use wasip2::{clocks::monotonic_clock, io::poll};

struct SleepInPoll;

impl Hostile for SleepInPoll {
    const KIND: &str = "SleepInPoll";

    fn attack(_request: &Request) -> Answer {
        loop {
            let hour = monotonic_clock::subscribe_duration(3_600_000_000_000);
            poll::poll(&[&hour]);
        }
    }
}

hostile_guests::export!(SleepInPoll);
