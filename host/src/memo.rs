//! What came of the last pure call of each parent: the same snapshot again needs no call (rule R17).
//!
//! Only the end of the road is kept, "this snapshot needs nothing": a digest and a time for each settled parent, in the
//! plugin's [`Live`](crate::live::Live), so that new logic or config begins with nothing.

use hashbrown::HashMap;
use parking_lot::Mutex;
use windlass_core::digest::Digest;
use windlass_core::ids::ObjectKey;
use windlass_core::outcome::Requeue;

/// Snapshots of which it is known that nothing follows from them.
#[derive(Debug, Default)]
pub struct Memo(Mutex<HashMap<ObjectKey, Settled>>);

#[derive(Debug)]
struct Settled {
    snapshot: Digest,
    requeue: Requeue,
}

impl Memo {
    /// When to come back, if this snapshot is the one that needed nothing.
    pub fn settled(&self, parent: &ObjectKey, snapshot: &Digest) -> Option<Requeue> {
        let memo = self.0.lock();
        memo.get(parent).filter(|settled| settled.snapshot == *snapshot).map(|settled| settled.requeue)
    }

    /// This snapshot needed nothing: its call was pure, and nothing was written.
    pub fn keep(&self, parent: &ObjectKey, snapshot: Digest, requeue: Requeue) {
        self.0.lock().insert(parent.clone(), Settled { snapshot, requeue });
    }

    /// The parent is gone, or not settled any more.
    pub fn forget(&self, parent: &ObjectKey) {
        self.0.lock().remove(parent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r17_only_the_very_snapshot_that_needed_nothing_is_answered() {
        let memo = Memo::default();
        let (web, other) = (ObjectKey::new(Some("n"), "web"), ObjectKey::new(Some("n"), "other"));
        let (old, new) = (Digest::of(b"old"), Digest::of(b"new"));
        assert_eq!(memo.settled(&web, &old), None);
        let soon = Requeue::Settled(Some(std::time::Duration::from_secs(5)));
        memo.keep(&web, old, soon);
        assert_eq!(memo.settled(&web, &old), Some(soon));
        assert_eq!((memo.settled(&web, &new), memo.settled(&other, &old)), (None, None));
        memo.keep(&web, new, Requeue::Settled(None));
        assert_eq!((memo.settled(&web, &old), memo.settled(&web, &new)), (None, Some(Requeue::Settled(None))));
        memo.forget(&web);
        assert_eq!(memo.settled(&web, &new), None);
    }
}
