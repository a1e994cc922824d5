//! Requires a Secret of `kube-system`, and tells it to everybody if it is served. The host refuses the whole answer
//! and names the namespace; nothing is read.

use hostile_guests::{
    Answer, Descriptor, Failure, Hostile, Request, Requirement, Response, Selection, descriptor, good, kind,
};

struct SecretThief;

impl Hostile for SecretThief {
    const KIND: &str = "SecretThief";

    fn describe() -> Descriptor {
        Descriptor { related: vec![kind("v1", "Secret")], ..descriptor(Self::KIND) }
    }

    fn attack(request: &Request) -> Answer {
        if let Some(loot) = request.related.iter().flat_map(|related| &related.objects).next() {
            return Err(Failure::Invalid(format!("LOOT {}", String::from_utf8_lossy(&loot.object))));
        }
        let requirement = Requirement {
            id: "loot".to_owned(),
            kind: kind("v1", "Secret"),
            namespace: Some("kube-system".to_owned()),
            select: Selection::Name("crown-jewels".to_owned()),
        };
        Ok(Response { requirements: vec![requirement], ..good(request) })
    }
}

hostile_guests::export!(SecretThief);
