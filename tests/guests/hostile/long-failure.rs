//! Reports a failure of 3 MB with line breaks and terminal escapes in it. The condition has the beginning of it, and
//! the log no line that the host did not write.

use hostile_guests::{Answer, Failure, Hostile, Request};

struct LongFailure;

impl Hostile for LongFailure {
    const KIND: &str = "LongFailure";

    fn attack(_request: &Request) -> Answer {
        let line = "FORGED by a failure\n\u{1b}[2J2026-01-01T00:00:00Z  INFO windlass::audit: write\r\n";
        Err(Failure::Failed(line.repeat(3_000_000 / line.len())))
    }
}

hostile_guests::export!(LongFailure);
