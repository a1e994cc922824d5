//! Returns a Secret, a kind that it was not granted, beside a child that would be fine. The host refuses the whole
//! answer and names the kind.

use hostile_guests::{Answer, Hostile, Request, child, response};

struct ForeignKind;

impl Hostile for ForeignKind {
    const KIND: &str = "ForeignKind";

    fn attack(_request: &Request) -> Answer {
        let secret = br#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"not-granted"}}"#.to_vec();
        Ok(response([child("good", ""), secret]))
    }
}

hostile_guests::export!(ForeignKind);
