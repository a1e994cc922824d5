//! Carries a CRD whose schema is invalid. The API server rejects it, and the Plugin's condition gives the reason.

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
