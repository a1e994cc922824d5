//! Requires another object in every call, so its response is never final. The host stops after five calls in one
//! reconcile, and reports it.

use hostile_guests::{Descriptor, Hostile, Outcome, Request, Requirement, Response, Selection, descriptor, good, kind};

struct EndlessRequirements;

impl Hostile for EndlessRequirements {
    const KIND: &str = "EndlessRequirements";

    fn describe() -> Descriptor {
        Descriptor { related: vec![kind("v1", "ConfigMap")], ..descriptor(Self::KIND) }
    }

    fn attack(request: &Request) -> Outcome {
        let id = request.related.first().map_or(0, |last| last.id.parse().unwrap_or(0) + 1).to_string();
        let select = Selection::Name(format!("wanted-{id}"));
        let requirement = Requirement { id, kind: kind("v1", "ConfigMap"), namespace: None, select };
        Ok(Response { requirements: vec![requirement], ..good(request) })
    }
}

hostile_guests::export!(EndlessRequirements);
