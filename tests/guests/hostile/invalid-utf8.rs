//! Returns a child with a string that is not valid UTF-8. The whole response is malformed.

use hostile_guests::{Hostile, Outcome, Request, child, response};

struct InvalidUtf8;

impl Hostile for InvalidUtf8 {
    const KIND: &str = "InvalidUtf8";

    fn attack(_request: &Request) -> Outcome {
        let mut child = child("odd", "?");
        for byte in child.iter_mut().filter(|byte| **byte == b'?') {
            *byte = 0xff;
        }
        Ok(response([child]))
    }
}

hostile_guests::export!(InvalidUtf8);
