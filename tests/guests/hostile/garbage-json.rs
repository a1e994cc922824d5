//! Returns a child that is no JSON. The host calls the whole answer malformed.

use hostile_guests::{Answer, Hostile, Request, child, response};

struct GarbageJson;

impl Hostile for GarbageJson {
    const KIND: &str = "GarbageJson";

    fn attack(_request: &Request) -> Answer {
        Ok(response([child("good", ""), b"{\"apiVersion\": \"v1\", kind".to_vec()]))
    }
}

hostile_guests::export!(GarbageJson);
