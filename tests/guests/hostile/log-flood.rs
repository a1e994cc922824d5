//! Logs 100 MB and then responds well. The host drops lines above the log limit, reports that, and uses the response.

use hostile_guests::raw::host::{self, Level};
use hostile_guests::{Hostile, Outcome, Request, good};

struct LogFlood;

impl Hostile for LogFlood {
    const KIND: &str = "LogFlood";

    fn attack(request: &Request) -> Outcome {
        let line = "x".repeat(1000);
        for _ in 0..100_000 {
            host::log(Level::Info, &line, &[]);
        }
        Ok(good(request))
    }
}

hostile_guests::export!(LogFlood);
