//! Requires objects by a label selector of a megabyte, which the host would store and match with every object that
//! changes. The host rejects the whole response and names the limit.

use hostile_guests::{Descriptor, Hostile, Outcome, Request, Requirement, Response, Selection, descriptor, good, kind};

struct SelectorBomb;

impl Hostile for SelectorBomb {
    const KIND: &str = "SelectorBomb";

    fn describe() -> Descriptor {
        Descriptor { related: vec![kind("v1", "ConfigMap")], ..descriptor(Self::KIND) }
    }

    fn attack(request: &Request) -> Outcome {
        let select = Selection::Labels("!a,".repeat(350_000) + "!a");
        let requirement = Requirement { id: "all".to_owned(), kind: kind("v1", "ConfigMap"), namespace: None, select };
        Ok(Response { requirements: vec![requirement], ..good(request) })
    }
}

hostile_guests::export!(SelectorBomb);
