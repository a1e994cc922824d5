//! Returns a status with 50 000 conditions, which are expensive for the host to compare. The host rejects the whole
//! response and names the limit.

use hostile_guests::{Hostile, Outcome, Request, Response, good};

struct ConditionBomb;

impl Hostile for ConditionBomb {
    const KIND: &str = "ConditionBomb";

    fn attack(request: &Request) -> Outcome {
        let conditions: Vec<_> = (0..50_000).map(|index| format!(r#"{{"type":"C{index}"}}"#)).collect();
        let status = format!(r#"{{"conditions":[{}]}}"#, conditions.join(","));
        Ok(Response { status: Some(status.into_bytes()), ..good(request) })
    }
}

hostile_guests::export!(ConditionBomb);
