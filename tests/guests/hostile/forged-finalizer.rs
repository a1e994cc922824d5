//! Returns a child with a finalizer, which nobody would ever remove: its namespace could not be deleted any more. The
//! host refuses the whole answer and names the field.

use hostile_guests::{Answer, Hostile, Request, response};

struct ForgedFinalizer;

impl Hostile for ForgedFinalizer {
    const KIND: &str = "ForgedFinalizer";

    fn attack(_request: &Request) -> Answer {
        let child =
            br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"forged","finalizers":["hostile.example/stay"]}}"#;
        Ok(response([child.to_vec()]))
    }
}

hostile_guests::export!(ForgedFinalizer);
