//! Exits with success through WASI's `exit`. The host continues, and reports that the call had no response.

use hostile_guests::{Hostile, Outcome, Request, response};
use wasip2::cli::exit;

struct Exit;

impl Hostile for Exit {
    const KIND: &str = "Exit";

    fn attack(_request: &Request) -> Outcome {
        exit::exit(Ok(()));
        Ok(response([]))
    }
}

hostile_guests::export!(Exit);
