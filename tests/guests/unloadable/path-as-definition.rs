//! Carries a CRD whose name would change a URL's path. The host rejects it before it sends a request to the API
//! server.

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
