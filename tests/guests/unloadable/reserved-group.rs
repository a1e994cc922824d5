//! Carries the CRD of a kind in Windlass' own group. The host rejects it before it sends a request to the API server.

use hostile_guests::{Descriptor, Hostile, Parent, definition, descriptor};

struct ReservedGroup;

impl Hostile for ReservedGroup {
    const KIND: &str = "ReservedGroup";

    fn describe() -> Descriptor {
        let definition = definition(Self::KIND).to_string().replace("hostile.example", "hostile.windlass.dev");
        Descriptor { parent: Parent::Custom(definition.into_bytes()), ..descriptor(Self::KIND) }
    }
}

hostile_guests::export!(ReservedGroup);
