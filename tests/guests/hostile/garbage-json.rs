//! Returns a child that is not valid JSON. The whole response is malformed.

use hostile_guests::{Hostile, Outcome, Request, child, response};

struct GarbageJson;

impl Hostile for GarbageJson {
    const KIND: &str = "GarbageJson";

    fn attack(_request: &Request) -> Outcome {
        Ok(response([child("good", ""), b"{\"apiVersion\": \"v1\", kind".to_vec()]))
    }
}

hostile_guests::export!(GarbageJson);
