//! Declares PersistentVolumes (cluster-scoped) as children of namespaced parents. The host rejects the component.

use hostile_guests::{Descriptor, Hostile, child_rule, descriptor};

struct ClusterChild;

impl Hostile for ClusterChild {
    const KIND: &str = "ClusterChild";

    fn describe() -> Descriptor {
        Descriptor { children: vec![child_rule("v1", "PersistentVolume")], ..descriptor(Self::KIND) }
    }
}

hostile_guests::export!(ClusterChild);
