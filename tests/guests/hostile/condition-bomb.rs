//! Answers with a status of 50 000 conditions, which a host compares with each other at its own expense. The host
//! refuses the whole answer and names the limit.

use hostile_guests::{Answer, Hostile, Request, Response, good};

struct ConditionBomb;

impl Hostile for ConditionBomb {
    const KIND: &str = "ConditionBomb";

    fn attack(request: &Request) -> Answer {
        let conditions: Vec<_> = (0..50_000).map(|index| format!(r#"{{"type":"C{index}"}}"#)).collect();
        let status = format!(r#"{{"conditions":[{}]}}"#, conditions.join(","));
        Ok(Response { status: Some(status.into_bytes()), ..good(request) })
    }
}

hostile_guests::export!(ConditionBomb);
