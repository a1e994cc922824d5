//! Returns a child with the label by which another plugin knows its children. The host refuses the whole answer and
//! names the label.

use hostile_guests::{Answer, Hostile, Request, response};

struct ForgedLabel;

impl Hostile for ForgedLabel {
    const KIND: &str = "ForgedLabel";

    fn attack(_request: &Request) -> Answer {
        let child = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"forged","labels":{"windlass.dev/plugin":"echo"}}}"#;
        Ok(response([child.to_vec()]))
    }
}

hostile_guests::export!(ForgedLabel);
