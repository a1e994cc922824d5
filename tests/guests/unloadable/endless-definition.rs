//! Carries a CRD with a name of a million characters. The host rejects it, and the Plugin's condition quotes the
//! beginning of the name.

use hostile_guests::{Descriptor, Hostile, Parent, definition, descriptor};

struct EndlessDefinition;

impl Hostile for EndlessDefinition {
    const KIND: &str = "EndlessDefinition";

    fn describe() -> Descriptor {
        let name = format!("\"{}", "x".repeat(1_000_000));
        let definition = definition(Self::KIND).to_string().replace("\"endlessdefinitions", &name);
        Descriptor { parent: Parent::Custom(definition.into_bytes()), ..descriptor(Self::KIND) }
    }
}

hostile_guests::export!(EndlessDefinition);
