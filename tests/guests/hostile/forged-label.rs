//! Returns a child with the label by which another plugin's children are recognized. The host rejects the whole
//! response and names the label.

use hostile_guests::{Hostile, Outcome, Request, response};

struct ForgedLabel;

impl Hostile for ForgedLabel {
    const KIND: &str = "ForgedLabel";

    fn attack(_request: &Request) -> Outcome {
        let child = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"forged","labels":{"windlass.dev/plugin":"echo"}}}"#;
        Ok(response([child.to_vec()]))
    }
}

hostile_guests::export!(ForgedLabel);
