//! Returns a child nested 100 000 deep. The host stops reading at its bound, before its own stack runs out, and calls
//! the whole answer malformed.

use hostile_guests::{Answer, Hostile, Request, response};

struct DeepJson;

impl Hostile for DeepJson {
    const KIND: &str = "DeepJson";

    fn attack(_request: &Request) -> Answer {
        let depth = 100_000;
        let data = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let child = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"deep"}},"data":{data}}}"#);
        Ok(response([child.into_bytes()]))
    }
}

hostile_guests::export!(DeepJson);
