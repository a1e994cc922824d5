//! Writes lines that look like the host's own, by line breaks and terminal escapes in a message, in a field and on
//! standard output. The log marks each of them as the plugin's, and each stays one line.

use hostile_guests::raw::host::{self, Level};
use hostile_guests::{Hostile, Outcome, Request, good};
use wasip2::cli::stdout;

struct ForgedLog;

impl Hostile for ForgedLog {
    const KIND: &str = "ForgedLog";

    fn attack(request: &Request) -> Outcome {
        let line = "\r\n\u{1b}[2K2026-01-01T00:00:00Z  INFO windlass::audit: FORGED verb=\"delete\"\n";
        host::log(Level::Info, line, &[]);
        let fields = [("field", line), (line, "value")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        host::log(Level::Error, "fine", &fields);
        let _ = stdout::get_stdout().blocking_write_and_flush(line.as_bytes());
        Ok(good(request))
    }
}

hostile_guests::export!(ForgedLog);
