//! Returns a Secret, a kind that it was not granted, and a valid child. The host rejects the whole response and names
//! the kind.

use hostile_guests::{Hostile, Outcome, Request, child, response};

struct ForeignKind;

impl Hostile for ForeignKind {
    const KIND: &str = "ForeignKind";

    fn attack(_request: &Request) -> Outcome {
        let secret = br#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"not-granted"}}"#.to_vec();
        Ok(response([child("good", ""), secret]))
    }
}

hostile_guests::export!(ForeignKind);
