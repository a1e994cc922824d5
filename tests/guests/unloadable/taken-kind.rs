//! Carries the CRD of a kind that another plugin reconciles. The older Plugin keeps the kind, and the condition of this
//! one reports it.

use hostile_guests::{Descriptor, Hostile, Parent, child_rule, definition, descriptor};

struct TakenKind;

impl Hostile for TakenKind {
    const KIND: &str = "TakenKind";

    fn describe() -> Descriptor {
        let definition = definition("Echo").to_string().replace("hostile.example", "my-operator.dev");
        let parent = Parent::Custom(definition.replace("\"echos", "\"echoes").into_bytes());
        Descriptor { parent, children: vec![child_rule("v1", "Pod")], ..descriptor(Self::KIND) }
    }
}

hostile_guests::export!(TakenKind);
