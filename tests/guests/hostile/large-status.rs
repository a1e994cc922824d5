//! Returns a status of 2 MB, which fits a request to the API server, but not its store. The children are applied; the
//! host leaves out the plugin's part of the status, and reports that in its own part.

use hostile_guests::{Hostile, Outcome, Request, Response, good};

struct LargeStatus;

impl Hostile for LargeStatus {
    const KIND: &str = "LargeStatus";

    fn attack(request: &Request) -> Outcome {
        let status = serde_json::json!({ "big": "x".repeat(2_000_000) });
        Ok(Response { status: Some(status.to_string().into_bytes()), ..good(request) })
    }
}

hostile_guests::export!(LargeStatus);
