//! Returns a child with a finalizer that nothing would ever remove, so its namespace could not be deleted any more. The
//! host rejects the whole response and names the field.

use hostile_guests::{Hostile, Outcome, Request, response};

struct ForgedFinalizer;

impl Hostile for ForgedFinalizer {
    const KIND: &str = "ForgedFinalizer";

    fn attack(_request: &Request) -> Outcome {
        let child =
            br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"forged","finalizers":["hostile.example/stay"]}}"#;
        Ok(response([child.to_vec()]))
    }
}

hostile_guests::export!(ForgedFinalizer);
