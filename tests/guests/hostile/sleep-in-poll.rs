//! Sleeps in WASI's `poll` until an hour has passed on the wall clock. The clocks are virtual and a poll returns at
//! once, so that no thread of the host sleeps; this is then one more endless loop, ended at the deadline.

use hostile_guests::{Answer, Hostile, Request, response};
use wasip2::{
    clocks::{monotonic_clock, wall_clock},
    io::poll,
};

struct SleepInPoll;

impl Hostile for SleepInPoll {
    const KIND: &str = "SleepInPoll";

    fn attack(_request: &Request) -> Answer {
        let start = wall_clock::now().seconds;
        while wall_clock::now().seconds < start + 3600 {
            let hour = monotonic_clock::subscribe_duration(3_600_000_000_000);
            poll::poll(&[&hour]);
        }
        Ok(response([]))
    }
}

hostile_guests::export!(SleepInPoll);
