//! Returns a status that claims that the parent is Ready, but stalled, and of a future generation. The host uses
//! `Ready`, which a plugin may set; it sets `Reconciling`, `Stalled` and `observedGeneration` itself.

use hostile_guests::{Hostile, Outcome, Request, Response, good};

struct ForgedConditions;

impl Hostile for ForgedConditions {
    const KIND: &str = "ForgedConditions";

    fn attack(request: &Request) -> Outcome {
        let status = br#"{"observedGeneration":99,"conditions":[
            {"type":"Ready","status":"True","reason":"Forged","message":""},
            {"type":"Reconciling","status":"True","reason":"Forged","message":""},
            {"type":"Stalled","status":"True","reason":"Forged","message":""}]}"#;
        Ok(Response { status: Some(status.to_vec()), ..good(request) })
    }
}

hostile_guests::export!(ForgedConditions);
