//! Logs 100 MB before it answers well. The host drops what is over the log limit; it may fail the call for it, or take
//! the answer.

use hostile_guests::{Answer, Hostile, Request, child, response};
use windlass_plugin::log;

struct LogFlood;

impl Hostile for LogFlood {
    const KIND: &str = "LogFlood";

    fn attack(_request: &Request) -> Answer {
        let line = "x".repeat(1000);
        for _ in 0..100_000 {
            log::info(&line);
        }
        Ok(response([child("child", "")]))
    }
}

hostile_guests::export!(LogFlood);
