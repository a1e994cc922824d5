//! Remembers live values that differ from the desired ones and that an apply could not change, because the API server,
//! an admission webhook or the kind's schema sets them. Without this memory, each comparison would lead to the same
//! apply.

use hashbrown::HashMap;
use parking_lot::Mutex;
use windlass_core::digest::Digest;
use windlass_core::ids::Uid;

/// Largest number of remembered objects of a Plugin, some 200 bytes each. A forgotten object is applied once more.
const MAX: usize = 16_384;

/// For each object: the hash of the desired child, and the hash of the live values that an apply did not change.
#[derive(Debug, Default)]
pub struct KeptValues(Mutex<HashMap<Uid, (Digest, Digest)>>);

impl KeptValues {
    /// Whether an apply of this desired child did not change these live values.
    pub fn holds(&self, object: &Uid, applied: &str, values: Digest) -> bool {
        self.0.lock().get(object) == Some(&(Digest::of(applied.as_bytes()), values))
    }

    /// Records that an apply of this desired child did not change these live values.
    pub fn keep(&self, object: &Uid, applied: &str, values: Digest) {
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
    fn s06_only_values_that_an_apply_could_not_change_are_left_as_they_are() {
        let kept = KeptValues::default();
        let (object, values) = (Uid::from("a"), Digest::of(b"values"));
        kept.keep(&object, "1:desired", values);
        assert!(kept.holds(&object, "1:desired", values));
        assert!(!kept.holds(&object, "1:other", values) && !kept.holds(&Uid::from("b"), "1:desired", values));
        assert!(!kept.holds(&object, "1:desired", Digest::of(b"forged")));
        for at in 0..=MAX {
            kept.keep(&Uid::from(at.to_string().as_str()), "1:desired", values);
        }
        assert!(kept.0.lock().len() <= MAX);
    }
}
