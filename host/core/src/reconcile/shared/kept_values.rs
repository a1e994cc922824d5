//! Remembers live values that differ from the desired ones and that an apply could not change, because the API server,
//! an admission webhook or the kind's schema sets them. Without this memory, each comparison would lead to the same
//! apply.

use parking_lot::Mutex;

use crate::value::bounded::{LruCache, bounded};
use crate::value::digest::Digest;
use crate::value::ids::Uid;

/// Largest number of remembered objects of a Plugin, some 200 bytes each. A forgotten object is applied once more.
const MAX: usize = 16_384;

/// For each object: the hash of the desired child, and the hash of the live values that an apply did not change.
#[derive(Debug)]
pub struct KeptValues(Mutex<LruCache<Uid, (Digest, Digest)>>);

impl Default for KeptValues {
    fn default() -> Self {
        Self(Mutex::new(bounded(MAX)))
    }
}

impl KeptValues {
    /// Whether an apply of this desired child did not change these live values.
    pub fn holds(&self, object: &Uid, applied: &str, values: Digest) -> bool {
        self.0.lock().get(object) == Some(&(Digest::of(applied.as_bytes()), values))
    }

    /// Records that an apply of this desired child did not change these live values.
    pub fn keep(&self, object: &Uid, applied: &str, values: Digest) {
        self.0.lock().put(object.clone(), (Digest::of(applied.as_bytes()), values));
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
    }

    #[test]
    fn object_that_was_compared_longest_ago_is_forgotten_first() {
        let (kept, values) = (KeptValues::default(), Digest::of(b"values"));
        let [first, second, newest] = ["1", "2", "newest"].map(Uid::from);
        for at in 1..=MAX {
            kept.keep(&Uid::from(at.to_string().as_str()), "1:desired", values);
        }
        assert!(kept.holds(&first, "1:desired", values));
        kept.keep(&newest, "1:desired", values);
        assert!(kept.holds(&first, "1:desired", values) && kept.holds(&newest, "1:desired", values));
        assert!(!kept.holds(&second, "1:desired", values));
    }
}
