//! Returns a child that claims to have been applied already, so that it would never be corrected. The host refuses
//! the whole answer and names the annotation.

use hostile_guests::{Answer, Hostile, Request, response};

struct ForgedAnnotation;

impl Hostile for ForgedAnnotation {
    const KIND: &str = "ForgedAnnotation";

    fn attack(_request: &Request) -> Answer {
        let child = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"forged","annotations":{"windlass.dev/applied":"1:00"}}}"#;
        Ok(response([child.to_vec()]))
    }
}

hostile_guests::export!(ForgedAnnotation);
