//! Returns a child that is nested 100 000 deep. The host stops reading at its limit, before its own stack overflows,
//! and the whole response is malformed.

use hostile_guests::{Hostile, Outcome, Request, response};

struct DeepJson;

impl Hostile for DeepJson {
    const KIND: &str = "DeepJson";

    fn attack(_request: &Request) -> Outcome {
        let depth = 100_000;
        let data = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let child = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"deep"}},"data":{data}}}"#);
        Ok(response([child.into_bytes()]))
    }
}

hostile_guests::export!(DeepJson);
