//! Updates its children one by one, and waits for a condition whose name has four megabytes, which the host would store
//! with each of its children. The host rejects the descriptor and names the limit.

use hostile_guests::raw::Rolling;
use hostile_guests::{ChildRule, Descriptor, Hostile, UpdateStrategy, descriptor, kind};

struct RollingBomb;

impl Hostile for RollingBomb {
    const KIND: &str = "RollingBomb";

    fn describe() -> Descriptor {
        let update = UpdateStrategy::Rolling(Rolling { recreate: false, conditions: vec!["R".repeat(4_000_000)] });
        Descriptor { children: vec![ChildRule { kind: kind("v1", "ConfigMap"), update }], ..descriptor(Self::KIND) }
    }
}

hostile_guests::export!(RollingBomb);
