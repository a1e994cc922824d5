//! Brings along a definition whose name leads elsewhere in a path. The host refuses it before the API server is
//! asked.

use hostile_guests::{Descriptor, Hostile, Parent, definition, descriptor};

struct PathAsDefinition;

impl Hostile for PathAsDefinition {
    const KIND: &str = "PathAsDefinition";

    fn describe() -> Descriptor {
        let definition = definition(Self::KIND).to_string().replace("\"pathasdefinitions", "\"../plugins");
        Descriptor { parent: Parent::Custom(definition.into_bytes()), ..descriptor(Self::KIND) }
    }
}

hostile_guests::export!(PathAsDefinition);
