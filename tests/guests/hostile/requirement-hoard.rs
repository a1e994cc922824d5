//! Requires objects by as many label selectors as a response may have, each almost as long as a selector may be: each object in the namespace
//! is compared with thousands of terms. The host keeps the selectors, compares them within the deadline, and uses the response.

use hostile_guests::{Descriptor, Hostile, Outcome, Request, Requirement, Response, Selection, descriptor, good, kind};

/// Requirements, each with a selector of this many terms.
const REQUIREMENTS: u32 = 64;
const TERMS: u32 = 70;

struct RequirementHoard;

impl Hostile for RequirementHoard {
    const KIND: &str = "RequirementHoard";

    fn describe() -> Descriptor {
        Descriptor { related: vec![kind("v1", "ConfigMap")], ..descriptor(Self::KIND) }
    }

    fn attack(request: &Request) -> Outcome {
        let requirement = |at: u32| {
            let terms: Vec<_> = (0..TERMS).map(|term| format!("!hoard-{at}-{term}")).collect();
            let select = Selection::Labels(format!("hoarded,{}", terms.join(",")));
            Requirement { id: at.to_string(), kind: kind("v1", "ConfigMap"), namespace: None, select }
        };
        Ok(Response { requirements: (0..REQUIREMENTS).map(requirement).collect(), ..good(request) })
    }
}

hostile_guests::export!(RequirementHoard);
