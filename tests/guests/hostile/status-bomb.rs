//! Returns a status of 3.5 MB, which fits a response, but not a request to the API server. The children are applied;
//! the host leaves out the plugin's part of the status, and reports that in its own part.

use hostile_guests::{Hostile, Outcome, Request, Response, good};

struct StatusBomb;

impl Hostile for StatusBomb {
    const KIND: &str = "StatusBomb";

    fn attack(request: &Request) -> Outcome {
        let status = serde_json::json!({ "big": "x".repeat(3_500_000) });
        Ok(Response { status: Some(status.to_string().into_bytes()), ..good(request) })
    }
}

hostile_guests::export!(StatusBomb);
