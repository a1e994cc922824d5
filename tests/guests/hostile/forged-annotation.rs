//! Returns a child that claims to be applied already, so that it would never be corrected. The host rejects the whole
//! response and names the annotation.

use hostile_guests::{Hostile, Outcome, Request, response};

struct ForgedAnnotation;

impl Hostile for ForgedAnnotation {
    const KIND: &str = "ForgedAnnotation";

    fn attack(_request: &Request) -> Outcome {
        let child = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"forged","annotations":{"windlass.dev/applied":"1:00"}}}"#;
        Ok(response([child.to_vec()]))
    }
}

hostile_guests::export!(ForgedAnnotation);
