//! Claims in its status that the parent is Ready, but stalled, and of a generation that is still to come. The host
//! takes `Ready`, which is a plugin's to say; `Reconciling`, `Stalled` and `observedGeneration` are its own.

use hostile_guests::{Answer, Hostile, Request, Response, good};

struct ForgedConditions;

impl Hostile for ForgedConditions {
    const KIND: &str = "ForgedConditions";

    fn attack(request: &Request) -> Answer {
        let status = br#"{"observedGeneration":99,"conditions":[
            {"type":"Ready","status":"True","reason":"Forged","message":""},
            {"type":"Reconciling","status":"True","reason":"Forged","message":""},
            {"type":"Stalled","status":"True","reason":"Forged","message":""}]}"#;
        Ok(Response { status: Some(status.to_vec()), ..good(request) })
    }
}

hostile_guests::export!(ForgedConditions);
