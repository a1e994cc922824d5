//! Returns a child with a string that is no UTF-8. The host calls the whole answer malformed.

use hostile_guests::{Answer, Hostile, Request, child, response};

struct InvalidUtf8;

impl Hostile for InvalidUtf8 {
    const KIND: &str = "InvalidUtf8";

    fn attack(_request: &Request) -> Answer {
        let mut child = child("odd", "?");
        for byte in child.iter_mut().filter(|byte| **byte == b'?') {
            *byte = 0xff;
        }
        Ok(response([child]))
    }
}

hostile_guests::export!(InvalidUtf8);
