//! What the host remembers of one parent.
//!
//! A parent in steady state has only two hashes and two times in its record; everything else is rare and boxed.

pub mod own_writes;
pub mod steady;

use std::time::{Duration, Instant};

use self::own_writes::OwnWrites;
use self::steady::Steady;
use crate::guard::deletions::{BlockReason, ParentDeletions, SpecHash};
use crate::object::Object;
use crate::object::reason::ParentReason;
use crate::reconcile::applied::Stored;
use crate::value::ids::Uid;

/// What is remembered of one parent.
#[derive(Debug, Default)]
pub struct Record {
    /// Whether the parent is in steady state (rule R17).
    pub steady: Steady,
    /// The spec at the last success, or when the parent was last stalled; none if the host writes `status.observedGeneration`.
    pub observed: Option<SpecHash>,
    rare: Option<Box<Rare>>,
}

/// The failure of a parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failing {
    /// The reason in the parent's condition.
    pub reason: ParentReason,
    /// A hash of the message: the texts of thousands would take megabytes.
    pub message: u64,
}

#[derive(Debug, Default)]
struct Rare {
    own_writes: OwnWrites,
    deletions: ParentDeletions,
    /// Since when the API server refuses children of the parent with this UID, because its namespace is being deleted.
    namespace_terminating: Option<(Uid, Instant)>,
    failure: Option<Failing>,
    /// Children as the API server stored them after the last writes, until they are compared with the desired values.
    stored: Vec<Stored>,
    /// A hash of the parent's invalid annotation `windlass.dev/traceparent` that was logged.
    invalid_traceparent: Option<u64>,
    /// The notes about creations that were certainly not carried out, which could not be taken back: annotations with their values.
    untaken_notes: Vec<(String, String)>,
}

impl Rare {
    fn is_empty(&self) -> bool {
        let Self { own_writes, deletions, namespace_terminating, failure, stored, invalid_traceparent, untaken_notes } =
            self;
        let is_unmarked = namespace_terminating.is_none() && failure.is_none() && invalid_traceparent.is_none();
        own_writes.is_empty() && deletions.is_empty() && stored.is_empty() && untaken_notes.is_empty() && is_unmarked
    }
}

impl Record {
    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// The host's own writes that the caches do not show yet (rule R3).
    pub fn own_writes(&mut self) -> &mut OwnWrites {
        &mut self.rare().own_writes
    }

    /// Whether own writes are awaited. Unlike [`own_writes`](Self::own_writes), it allocates nothing.
    pub fn has_own_writes(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| !rare.own_writes.is_empty())
    }

    /// Takes the blocked and allowed deletions of the parent's children (rule R9) out of the record.
    pub fn take_deletions(&mut self) -> ParentDeletions {
        self.rare.as_mut().map(|rare| std::mem::take(&mut rare.deletions)).unwrap_or_default()
    }

    /// Puts them back. Not for empty ones: a record without them is smaller.
    pub fn put_deletions(&mut self, deletions: ParentDeletions) {
        self.rare().deletions = deletions;
    }

    /// Why the deletions of the parent's children are blocked, according to the last plan of this process.
    pub fn blocked_by_last_plan(&self, parent: &Object) -> Option<BlockReason> {
        self.rare.as_ref().and_then(|rare| rare.deletions.blocked_by_last_plan(parent))
    }

    /// Whether the API server refused a child of this parent, because its namespace is being deleted.
    pub fn is_namespace_terminating(&self, parent: &Uid) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.namespace_terminating.as_ref().is_some_and(|(uid, _)| uid == parent))
    }

    /// Records that the API server refused a child of this parent, because its namespace is being deleted. Returns the time since the first
    /// refused child.
    pub fn note_namespace_terminating(&mut self, parent: &Uid, now: Instant) -> Duration {
        let before = self.rare().namespace_terminating.take().filter(|(uid, _)| uid == parent);
        let (uid, since) = before.unwrap_or_else(|| (parent.clone(), now));
        self.rare().namespace_terminating = Some((uid, since));
        now.saturating_duration_since(since)
    }

    /// Records children as the API server stored them. Not for none: a record without them is smaller.
    pub fn put_stored(&mut self, stored: Vec<Stored>) {
        self.rare().stored = stored;
    }

    /// Takes the children as the API server stored them after the last writes.
    pub fn take_stored(&mut self) -> Vec<Stored> {
        self.rare.as_mut().map(|rare| std::mem::take(&mut rare.stored)).unwrap_or_default()
    }

    /// Records notes about creations that were certainly not carried out, which could not be taken back (rule R25).
    pub fn put_untaken_notes(&mut self, notes: impl Iterator<Item = (String, String)>) {
        self.rare().untaken_notes.extend(notes);
    }

    /// Whether there are such notes.
    pub fn has_untaken_notes(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| !rare.untaken_notes.is_empty())
    }

    /// Takes these notes out of the record.
    pub fn take_untaken_notes(&mut self) -> Vec<(String, String)> {
        self.rare.as_mut().map(|rare| std::mem::take(&mut rare.untaken_notes)).unwrap_or_default()
    }

    /// Records a failure, or none. Returns whether it is another one than before.
    pub fn note_result(&mut self, failure: Option<Failing>) -> bool {
        if self.failure() == failure {
            return false;
        }
        self.rare().failure = failure;
        true
    }

    /// The failure of the parent, if it fails.
    pub fn failure(&self) -> Option<Failing> {
        self.rare.as_ref().and_then(|rare| rare.failure)
    }

    /// Records the hash of an invalid annotation `windlass.dev/traceparent`, or none. Returns whether it is a new one.
    pub fn note_traceparent(&mut self, invalid: Option<u64>) -> bool {
        let before = self.rare.as_ref().and_then(|rare| rare.invalid_traceparent);
        if before != invalid {
            self.rare().invalid_traceparent = invalid;
        }
        invalid.is_some() && before != invalid
    }

    /// Forgets everything but the host's own writes and notes.
    pub fn forget_all_but_writes(&mut self) {
        (self.steady, self.observed) = (Steady::default(), None);
        if let Some(rare) = &mut self.rare {
            let (own_writes, untaken_notes) =
                (std::mem::take(&mut rare.own_writes), std::mem::take(&mut rare.untaken_notes));
            **rare = Rare { own_writes, untaken_notes, ..Rare::default() };
        }
    }

    /// Whether writes were sent so lately that a parent which the caches do not show may still be there.
    pub fn has_recent_writes(&self, now: Instant) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.own_writes.is_recent(now))
    }

    /// Drops what is remembered of nothing.
    pub fn tidy(&mut self) {
        self.rare.take_if(|rare| rare.is_empty());
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.steady.is_empty() && self.observed.is_none() && self.rare.is_none()
    }
}
