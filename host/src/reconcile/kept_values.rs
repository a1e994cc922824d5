//! Values that an apply did not change, though they are not what is desired: the API server, an admission webhook or the kind's
//! schema makes them so. Without this, every comparison would end in the same apply.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use windlass_core::digest::Digest;
use windlass_core::ids::Uid;

/// Objects that are remembered at most, some 200 bytes each. What is forgotten is applied once more.
const MAX: usize = 16_384;

/// By object: what was desired, and the values that stayed.
#[derive(Clone, Default)]
pub(super) struct KeptValues(Arc<Mutex<HashMap<Uid, (Digest, Digest)>>>);

impl KeptValues {
    /// Whether this very wish left these very values.
    pub(super) fn holds(&self, object: &Uid, applied: &str, values: Digest) -> bool {
        self.0.lock().get(object) == Some(&(Digest::of(applied.as_bytes()), values))
    }

    /// An apply of what is desired left these values.
    pub(super) fn keep(&self, object: &Uid, applied: &str, values: Digest) {
        let mut kept = self.0.lock();
        if kept.len() >= MAX && !kept.contains_key(object) {
            kept.clear();
        }
        kept.insert(object.clone(), (Digest::of(applied.as_bytes()), values));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s06_only_the_values_that_an_apply_left_are_left_alone() {
        let kept = KeptValues::default();
        let (object, values) = (Uid::from("a"), Digest::of(b"values"));
        kept.keep(&object, "1:wish", values);
        assert!(kept.holds(&object, "1:wish", values));
        assert!(!kept.holds(&object, "1:other", values) && !kept.holds(&Uid::from("b"), "1:wish", values));
        assert!(!kept.holds(&object, "1:wish", Digest::of(b"forged")));
        for at in 0..=MAX {
            kept.keep(&Uid::from(at.to_string().as_str()), "1:wish", values);
        }
        assert!(kept.0.lock().len() <= MAX);
    }
}
