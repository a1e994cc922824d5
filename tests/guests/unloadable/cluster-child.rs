//! Wants to own PersistentVolumes, which are in no namespace, while its parents are in one. The host refuses it.

use hostile_guests::{Descriptor, Hostile, child_rule, descriptor};

struct ClusterChild;

impl Hostile for ClusterChild {
    const KIND: &str = "ClusterChild";

    fn describe() -> Descriptor {
        Descriptor { children: vec![child_rule("v1", "PersistentVolume")], ..descriptor(Self::KIND) }
    }
}

hostile_guests::export!(ClusterChild);
