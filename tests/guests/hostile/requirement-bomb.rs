//! Requires 1000 objects, more than the limit. The host rejects the whole response, reads none of the objects and names
//! the limit.

use hostile_guests::{Descriptor, Hostile, Outcome, Request, Requirement, Response, Selection, descriptor, good, kind};

struct RequirementBomb;

impl Hostile for RequirementBomb {
    const KIND: &str = "RequirementBomb";

    fn describe() -> Descriptor {
        Descriptor { related: vec![kind("v1", "ConfigMap")], ..descriptor(Self::KIND) }
    }

    fn attack(request: &Request) -> Outcome {
        let requirement = |index: u32| Requirement {
            id: index.to_string(),
            kind: kind("v1", "ConfigMap"),
            namespace: None,
            select: Selection::Name(format!("wanted-{index}")),
        };
        Ok(Response { requirements: (0..1000).map(requirement).collect(), ..good(request) })
    }
}

hostile_guests::export!(RequirementBomb);
