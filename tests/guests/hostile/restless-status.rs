//! Returns another status in every call, by the clock. The host writes it a few times, then once a minute, and the
//! parent has the reason `Thrashing`.

use hostile_guests::{Hostile, Outcome, Request, Response, good};
use windlass_plugin::clock;

struct RestlessStatus;

impl Hostile for RestlessStatus {
    const KIND: &str = "RestlessStatus";

    fn attack(request: &Request) -> Outcome {
        let status = serde_json::json!({ "now": format!("{:?}", clock::now()) });
        Ok(Response { status: Some(status.to_string().into_bytes()), ..good(request) })
    }
}

hostile_guests::export!(RestlessStatus);
