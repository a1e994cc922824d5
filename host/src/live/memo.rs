//! Remembers the parents in steady state: the same snapshot again needs no call, and the same response about the same objects
//! needs nothing but the call (rule R17).
//!
//! For each such parent it keeps two hashes and a time. The hashes cover everything that the decision depended on, so another
//! component or config finds only entries that hold for it as well.

use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use windlass_core::digest::Digest;
use windlass_core::ids::ObjectKey;
use windlass_core::outcome::Requeue;

/// Snapshots and responses that are known to need no write.
#[derive(Debug, Default)]
pub struct Memo {
    settled: Mutex<HashMap<ObjectKey, Settled>>,
    /// When the values of a parent's children were last compared, since the host started.
    compared: Mutex<HashMap<ObjectKey, Instant>>,
}

/// A parent in steady state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Names {
    /// The id of the component's state and the hash of the snapshot; none if the call was impure. With another state the plugin must
    /// be called again, because other parents may wait for that (see
    /// [`ComponentState`](crate::live::component_state::ComponentState)).
    pub call: Option<(u64, Digest)>,
    /// The hash of the response and its objects; none of a response with events, which are emitted each time.
    pub answer: Option<Digest>,
}

#[derive(Debug)]
struct Settled {
    call: Option<(u64, Short)>,
    answer: Option<Short>,
    asked: Option<Duration>,
    /// Whether the values of these objects were compared with the desired ones.
    is_compared: bool,
}

/// The first half of a digest: enough to tell the snapshots of one parent apart.
type Short = [u8; 16];

fn short(digest: Digest) -> Short {
    digest.as_bytes().first_chunk().copied().unwrap_or_default()
}

impl Memo {
    /// When to reconcile again, if this snapshot needed no write with this component state. `compares`: the values of its objects
    /// must have been compared as well.
    pub fn settled(&self, parent: &ObjectKey, conduct: u64, snapshot: Digest, compares: bool) -> Option<Requeue> {
        self.find(parent, compares, |settled| settled.call == Some((conduct, short(snapshot))))
    }

    /// When to reconcile again, if this response about these objects needed no write.
    pub fn answered(&self, parent: &ObjectKey, answer: Digest, compares: bool) -> Option<Requeue> {
        self.find(parent, compares, |settled| settled.answer == Some(short(answer)))
    }

    fn find(&self, parent: &ObjectKey, compares: bool, is_same: impl Fn(&Settled) -> bool) -> Option<Requeue> {
        let settled = self.settled.lock();
        let found = settled.get(parent).filter(|settled| is_same(settled) && (settled.is_compared || !compares));
        found.map(|settled| Requeue::Settled(settled.asked))
    }

    /// Whether the values of a parent's children are due to be compared: they were not within this interval. Resyncs alone do not
    /// decide, because a parent that changes often has none.
    pub fn is_comparison_due(&self, parent: &ObjectKey, interval: Duration, now: Instant) -> bool {
        let last = self.compared.lock().get(parent).copied();
        last.is_none_or(|last| now.saturating_duration_since(last) >= interval)
    }

    /// Records that the values of a parent's children were compared.
    pub fn note_compared(&self, parent: &ObjectKey, now: Instant) {
        self.compared.lock().insert(parent.clone(), now);
    }

    /// Records that nothing was written and the parent is in steady state; forgets it if it is not.
    pub fn keep(&self, parent: &ObjectKey, names: Names, requeue: Requeue, is_compared: bool) {
        let mut memo = self.settled.lock();
        match requeue {
            Requeue::Settled(asked) if names != Names::default() => {
                let call = names.call.map(|(conduct, snapshot)| (conduct, short(snapshot)));
                memo.insert(parent.clone(), Settled { call, answer: names.answer.map(short), asked, is_compared });
            }
            _ => drop(memo.remove(parent)),
        }
    }

    /// Records that another call had the same response about the same objects.
    pub fn keep_answered(&self, parent: &ObjectKey, names: Names, requeue: Requeue) {
        let is_compared = self.settled.lock().get(parent).is_some_and(|settled| settled.is_compared);
        self.keep(parent, names, requeue, is_compared);
    }

    /// Forgets a parent that is no longer in steady state.
    pub fn forget(&self, parent: &ObjectKey) {
        self.settled.lock().remove(parent);
    }

    /// The parent is gone.
    pub fn forget_gone(&self, parent: &ObjectKey) {
        self.forget(parent);
        self.compared.lock().remove(parent);
    }

    /// Forgets the parents that no longer exist.
    pub fn forget_unless(&self, exists: impl Fn(&ObjectKey) -> bool) {
        self.settled.lock().retain(|parent, _| exists(parent));
        self.compared.lock().retain(|parent, _| exists(parent));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(Some("n"), name)
    }

    fn call(name: &[u8]) -> Names {
        Names { call: Some((1, Digest::of(name))), answer: None }
    }

    #[test]
    fn r17_only_the_very_snapshot_that_needed_nothing_is_answered() {
        let memo = Memo::default();
        let (web, other) = (key("web"), key("other"));
        let (old, new) = (Digest::of(b"old"), Digest::of(b"new"));
        assert_eq!(memo.settled(&web, 1, old, false), None);
        let soon = Requeue::Settled(Some(Duration::from_secs(5)));
        memo.keep(&web, call(b"old"), soon, false);
        assert_eq!(memo.settled(&web, 1, old, false), Some(soon));
        assert_eq!((memo.settled(&web, 1, new, false), memo.settled(&other, 1, old, false)), (None, None));
        memo.keep(&web, call(b"new"), Requeue::Settled(None), false);
        assert_eq!(
            (memo.settled(&web, 1, old, false), memo.settled(&web, 1, new, false)),
            (None, Some(Requeue::Settled(None)))
        );
        assert_eq!(memo.settled(&web, 2, new, false), None, "others may wait until it was asked under new conduct");
        memo.forget(&web);
        assert_eq!(memo.settled(&web, 1, new, false), None);
    }

    #[test]
    fn s06_values_are_compared_at_a_start_and_once_an_interval_whatever_happens_meanwhile() {
        let (memo, web, interval) = (Memo::default(), key("web"), Duration::from_mins(10));
        let began = Instant::now();
        let is_due = |after: Duration| memo.is_comparison_due(&web, interval, began + after);
        assert!(is_due(Duration::ZERO), "a start compares");
        memo.note_compared(&web, began);
        memo.forget(&web);
        assert!(!is_due(Duration::from_secs(599)), "an event is no start");
        assert!(is_due(interval), "no resync comes to a parent that events keep coming to");
        memo.note_compared(&web, began + interval);
        assert!(!is_due(interval + Duration::from_secs(599)));
        memo.forget_gone(&web);
        assert!(is_due(interval));
    }

    #[test]
    fn s06_a_comparison_finds_only_what_was_compared_and_compares_nothing_twice() {
        let memo = Memo::default();
        let (web, call, answer) = (key("web"), Digest::of(b"call"), Digest::of(b"answer"));
        let names = Names { call: Some((1, call)), answer: Some(answer) };
        let settled = Requeue::Settled(None);
        memo.keep(&web, names, settled, false);
        assert_eq!((memo.settled(&web, 1, call, false), memo.settled(&web, 1, call, true)), (Some(settled), None));
        assert_eq!((memo.answered(&web, answer, false), memo.answered(&web, answer, true)), (Some(settled), None));
        memo.keep(&web, names, settled, true);
        assert_eq!(memo.settled(&web, 1, call, true), Some(settled));
        let again = Digest::of(b"again");
        memo.keep_answered(&web, Names { call: Some((1, again)), ..names }, settled);
        assert_eq!(memo.settled(&web, 1, again, true), Some(settled), "the same objects");
    }

    #[test]
    fn r17_an_answer_that_needed_nothing_needs_nothing_again_whatever_was_called() {
        let memo = Memo::default();
        let (web, answer) = (key("web"), Digest::of(b"answer"));
        memo.keep(&web, Names { call: None, answer: Some(answer) }, Requeue::Settled(None), false);
        assert_eq!(memo.answered(&web, answer, false), Some(Requeue::Settled(None)), "an impure call's too");
        assert_eq!(
            (memo.answered(&web, Digest::of(b"other"), false), memo.settled(&web, 1, answer, false)),
            (None, None)
        );
    }

    #[test]
    fn r17_nothing_is_known_of_a_parent_that_is_not_settled_or_does_not_exist() {
        let memo = Memo::default();
        let of = |name: &str| memo.settled(&key(name), 1, Digest::of(b"call"), false).is_some();
        for name in ["failed", "nameless", "gone", "there"] {
            memo.keep(&key(name), call(b"call"), Requeue::Settled(None), false);
        }
        memo.keep(&key("failed"), call(b"call"), Requeue::Backoff(Duration::ZERO), false);
        memo.keep(&key("nameless"), Names::default(), Requeue::Settled(None), false);
        memo.forget_unless(|parent| *parent != key("gone"));
        assert_eq!(["failed", "nameless", "gone", "there"].map(of), [false, false, false, true]);
    }
}
