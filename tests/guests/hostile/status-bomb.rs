//! Answers with a status of 3.5 MB, which fits an answer, but no request to the API server. The children count; the
//! host leaves the plugin's part out and says so in its own.

use hostile_guests::{Answer, Hostile, Request, Response, good};

struct StatusBomb;

impl Hostile for StatusBomb {
    const KIND: &str = "StatusBomb";

    fn attack(request: &Request) -> Answer {
        let status = serde_json::json!({ "big": "x".repeat(3_500_000) });
        Ok(Response { status: Some(status.to_string().into_bytes()), ..good(request) })
    }
}

hostile_guests::export!(StatusBomb);
