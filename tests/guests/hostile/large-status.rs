//! Answers with a status of 2 MB, which fits a request to the API server, but not its store. The children count; the
//! host leaves the plugin's part out and says so in its own.

use hostile_guests::{Answer, Hostile, Request, Response, good};

struct LargeStatus;

impl Hostile for LargeStatus {
    const KIND: &str = "LargeStatus";

    fn attack(request: &Request) -> Answer {
        let status = serde_json::json!({ "big": "x".repeat(2_000_000) });
        Ok(Response { status: Some(status.to_string().into_bytes()), ..good(request) })
    }
}

hostile_guests::export!(LargeStatus);
