//! Brings along the definition of a kind in Windlass' own group. The host refuses it before the API server is asked.

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
