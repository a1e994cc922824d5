//! A group of keys: its lanes of ready keys, and which of them runs next.

use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashTable;
use slab::Slab;

use super::Job;
use super::entry::{Entry, Phase, Timers, set_due};
use crate::telemetry::QueueState;

/// One of this many runs of a group goes to a key that is not urgent, if there is one, so that no key starves.
pub(super) const AGEING: u8 = 8;

/// A group, with the places of its keys.
#[derive(Debug)]
pub(super) struct Group<G> {
    pub name: G,
    /// Places of the group's keys, by name.
    pub keys: HashTable<usize>,
    /// Places of ready keys that are urgent. A place may be stale: its key was removed, or is in the other lane by now.
    pub urgent: VecDeque<usize>,
    /// Places of ready keys that are not urgent. A place may be stale here, too.
    pub patient: VecDeque<usize>,
    /// Number of urgent keys that ran since the last key that is not urgent.
    pub urgent_in_row: u8,
    /// Number of running keys.
    pub running: usize,
    /// Number of running keys that have stepped aside.
    pub aside: usize,
    pub concurrency: usize,
    /// Number of times that a key became ready, and that one was queued again because its run failed.
    pub adds: u64,
    pub retries: u64,
    /// Whether the group is in `turn`.
    pub in_turn: bool,
    /// Whether the group and its settings are removed when the last key has ended.
    pub forgotten: bool,
}

impl<G> Group<G> {
    /// The state of the group, without that of its keys.
    pub fn state(&self) -> QueueState {
        let Self { running, concurrency, adds, retries, .. } = *self;
        QueueState { running, concurrency, adds, retries, ..QueueState::default() }
    }

    /// Whether one of the keys may run.
    pub fn wants_turn(&self) -> bool {
        self.running < self.concurrency && !(self.urgent.is_empty() && self.patient.is_empty())
    }
}

/// Takes the next key of a group; `now` is in nanoseconds.
pub(super) fn take<G: Clone, K: Clone>(
    group: &mut Group<G>,
    (of, now): (usize, u64),
    entries: &mut Slab<Entry<K>>,
    timers: &mut Timers,
) -> Option<Job<G, K>> {
    loop {
        let patient_first = group.urgent.is_empty() || group.urgent_in_row >= AGEING - 1;
        let patient = if patient_first { group.patient.pop_front() } else { None };
        let (place, urgent) = match patient {
            Some(place) => (place, false),
            None => (group.urgent.pop_front()?, true),
        };
        let Some(entry) = entries.get_mut(place).filter(|entry| entry.group == of) else { continue };
        let Phase::Ready(trigger) = entry.phase else { continue };
        if trigger.is_urgent() != urgent {
            continue;
        }
        entry.phase = Phase::Running { again: None, forget: false };
        let waited = Duration::from_nanos(now.saturating_sub(std::mem::replace(&mut entry.since, now)));
        // The run sees the current state; a time that is set during the run is for a later run.
        set_due(timers, place, entry, None);
        group.urgent_in_row = if urgent { group.urgent_in_row.saturating_add(1) } else { 0 };
        group.running += 1;
        return Some(Job { group: group.name.clone(), key: entry.key.clone(), trigger, waited, place });
    }
}
