//! Declares a child kind whose name is a line of the host's log, with terminal escapes, and whose group would change a
//! URL's path. The host rejects the descriptor, and neither its log nor its requests contain any of it.

use hostile_guests::{Descriptor, Hostile, child_rule, descriptor};

struct ForgedKind;

impl Hostile for ForgedKind {
    const KIND: &str = "ForgedKind";

    fn describe() -> Descriptor {
        let name = "Pod\n\u{1b}[2J2026-01-01T00:00:00Z  INFO windlass::audit: FORGED";
        let children = vec![child_rule("../../api/v1", name)];
        Descriptor { children, ..descriptor(Self::KIND) }
    }
}

hostile_guests::export!(ForgedKind);
