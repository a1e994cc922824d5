//! Brings along a definition whose schema is none. The API server refuses it, and the Plugin says why.

use hostile_guests::{Descriptor, Hostile, Parent, definition, descriptor};

struct InvalidDefinition;

impl Hostile for InvalidDefinition {
    const KIND: &str = "InvalidDefinition";

    fn describe() -> Descriptor {
        let definition = definition(Self::KIND).to_string().replace("boolean", "banana");
        Descriptor { parent: Parent::Custom(definition.into_bytes()), ..descriptor(Self::KIND) }
    }
}

hostile_guests::export!(InvalidDefinition);
