//! Ends itself by WASI's `exit`, with success. The host goes on, and reports that there is no answer.

use hostile_guests::{Answer, Hostile, Request, response};
use wasip2::cli::exit;

struct Exit;

impl Hostile for Exit {
    const KIND: &str = "Exit";

    fn attack(_request: &Request) -> Answer {
        exit::exit(Ok(()));
        Ok(response([]))
    }
}

hostile_guests::export!(Exit);
