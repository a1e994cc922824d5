//! Requires a Secret of `kube-system`, and would publish it. The host rejects the whole response and names the
//! namespace; it reads nothing.

use hostile_guests::{
    Descriptor, Failure, Hostile, Outcome, Request, Requirement, Response, Selection, descriptor, good, kind,
};

struct SecretThief;

impl Hostile for SecretThief {
    const KIND: &str = "SecretThief";

    fn describe() -> Descriptor {
        Descriptor { related: vec![kind("v1", "Secret")], ..descriptor(Self::KIND) }
    }

    fn attack(request: &Request) -> Outcome {
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
