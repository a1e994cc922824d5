//! Returns a failure of 3 MB with line breaks and terminal escapes. The condition quotes its beginning, and the log has
//! no line that the host did not write.

use hostile_guests::{Failure, Hostile, Outcome, Request};

struct LongFailure;

impl Hostile for LongFailure {
    const KIND: &str = "LongFailure";

    fn attack(_request: &Request) -> Outcome {
        let line = "FORGED by a failure\n\u{1b}[2J2026-01-01T00:00:00Z  INFO windlass::audit: write\r\n";
        Err(Failure::Failed(line.repeat(3_000_000 / line.len())))
    }
}

hostile_guests::export!(LongFailure);
