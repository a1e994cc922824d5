//! Says something else in its status in every answer, by the clock. The host writes it a few times, then once a
//! minute, and says that it thrashes.

use hostile_guests::{Answer, Hostile, Request, Response, good};
use windlass_plugin::clock;

struct RestlessStatus;

impl Hostile for RestlessStatus {
    const KIND: &str = "RestlessStatus";

    fn attack(request: &Request) -> Answer {
        let status = serde_json::json!({ "now": format!("{:?}", clock::now()) });
        Ok(Response { status: Some(status.to_string().into_bytes()), ..good(request) })
    }
}

hostile_guests::export!(RestlessStatus);
