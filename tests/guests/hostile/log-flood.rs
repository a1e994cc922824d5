//! Logs 100 MB before it answers well. The host drops what is over the log limit, says so, and takes the answer.

use hostile_guests::{Answer, Hostile, Request, good};
use windlass_plugin::log;

struct LogFlood;

impl Hostile for LogFlood {
    const KIND: &str = "LogFlood";

    fn attack(request: &Request) -> Answer {
        let line = "x".repeat(1000);
        for _ in 0..100_000 {
            log::info(&line);
        }
        Ok(good(request))
    }
}

hostile_guests::export!(LogFlood);
