//! Declares 10 000 child kinds, each of which would cost the host an access review and a watch. The host rejects the
//! descriptor and names the limit.

use hostile_guests::{Descriptor, Hostile, child_rule, descriptor};

struct DescriptorBomb;

impl Hostile for DescriptorBomb {
    const KIND: &str = "DescriptorBomb";

    fn describe() -> Descriptor {
        let children = (0..10_000).map(|index| child_rule("v1", &format!("Kind{index}"))).collect();
        Descriptor { children, ..descriptor(Self::KIND) }
    }
}

hostile_guests::export!(DescriptorBomb);
