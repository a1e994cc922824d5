//! A key in the queue, and its timer.

use std::collections::BTreeSet;
use std::time::Instant;

use windlass_core::reconcile::trigger::Trigger;

/// A key, with what the queue knows about it.
#[derive(Debug)]
pub(super) struct Entry<K> {
    pub key: K,
    /// Place of the key's group.
    pub group: usize,
    /// Place of the key's tenant in the group.
    pub tenant: usize,
    pub phase: Phase,
    /// When the present phase began, in nanoseconds after the queue's origin: half the size of an [`Instant`].
    pub since: u64,
    /// Time and reason of the next delayed run, if any; `timers` has the same time.
    pub due: Option<(Instant, Trigger)>,
    /// Number of consecutive failures.
    pub failures: u32,
    /// Whether the last run failed because of the API server.
    pub is_unavailable: bool,
    /// End of the backoff, until which events wait; none without a backoff.
    pub not_before: Option<Instant>,
}

/// What a key does at present.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(super) enum Phase {
    Idle,
    Ready(Trigger),
    Running { again: Option<Trigger>, forget: bool },
}

/// The times at which keys are due, with the places of the keys.
pub(super) type Timers = BTreeSet<(Instant, usize)>;

/// Sets the timer of a key, or removes it (none); a key has at most one.
pub(super) fn set_due<K>(timers: &mut Timers, place: usize, entry: &mut Entry<K>, due: Option<(Instant, Trigger)>) {
    let (before, after) = (entry.due.map(|(at, _)| at), due.map(|(at, _)| at));
    entry.due = due;
    if before == after {
        return;
    }
    if let Some(at) = before {
        timers.remove(&(at, place));
    }
    if let Some(at) = after {
        timers.insert((at, place));
    }
}
