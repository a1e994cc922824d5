//! A group of keys: its lanes of ready keys, and which of them runs next.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::{HashMap, HashTable};
use slab::Slab;

use super::super::Key;
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
    /// The tenants that have keys in the group.
    pub tenants: HashMap<Option<Arc<str>>, Tenant>,
    /// Number of tenants that have ready keys and none that runs.
    pub tenants_without_place: usize,
    /// Number of times that a key became ready, and that one was queued again because its run failed.
    pub adds: u64,
    pub retries: u64,
    /// Whether the group is in `turn`.
    pub in_turn: bool,
    /// Whether the group and its settings are removed when the last key has ended.
    pub forgotten: bool,
}

/// The keys of one tenant in a group.
#[derive(Debug, Default)]
pub(super) struct Tenant {
    pub keys: usize,
    pub ready: usize,
    pub running: usize,
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

    /// Whether a ready key may run while this many workers are idle: a group never has more workers than it leaves idle, and its last
    /// place is only for a tenant without a running key. So if the runs of one tenant do not end, other tenants still find a place.
    pub fn has_place(&self, idle: usize) -> bool {
        self.running < idle && (self.tenants_without_place > 0 || !self.is_for_others(idle))
    }

    /// Whether the next place is the last one, and there is another tenant to keep it for.
    fn is_for_others(&self, idle: usize) -> bool {
        self.tenants.len() > 1 && self.running + 1 >= self.concurrency.min(idle.saturating_sub(1))
    }

    /// Changes the numbers of a tenant's keys.
    pub fn count(&mut self, tenant: Option<&Arc<str>>, change: impl FnOnce(&mut Tenant)) {
        let lacks_place = |tenant: &Tenant| usize::from(tenant.ready > 0 && tenant.running == 0);
        let tenant = tenant.cloned();
        let counted = self.tenants.entry(tenant.clone()).or_default();
        let before = lacks_place(counted);
        change(counted);
        self.tenants_without_place = self.tenants_without_place - before + lacks_place(counted);
        if counted.keys == 0 {
            self.tenants.remove(&tenant);
        }
    }
}

/// Takes the next key of a group that has a place while this many workers are idle; `now` is in nanoseconds.
pub(super) fn take<G: Clone, K: Key>(
    group: &mut Group<G>,
    (of, idle, now): (usize, usize, u64),
    entries: &mut Slab<Entry<K>>,
    timers: &mut Timers,
) -> Option<Job<G, K>> {
    let is_for_others = group.is_for_others(idle);
    let mut left = Vec::new();
    let taken = loop {
        let patient_first = group.urgent.is_empty() || group.urgent_in_row >= AGEING - 1;
        let patient = if patient_first { group.patient.pop_front() } else { None };
        let (place, urgent) = match patient {
            Some(place) => (place, false),
            None => match group.urgent.pop_front() {
                Some(place) => (place, true),
                None => break None,
            },
        };
        let Some(entry) = entries.get_mut(place).filter(|entry| entry.group == of) else { continue };
        let Phase::Ready(trigger) = entry.phase else { continue };
        if trigger.is_urgent() != urgent {
            continue;
        }
        let tenant = entry.key.tenant();
        if is_for_others && group.tenants.get(&tenant).is_some_and(|tenant| tenant.running > 0) {
            left.push((place, urgent));
            continue;
        }
        entry.phase = Phase::Running { again: None, forget: false };
        let waited = Duration::from_nanos(now.saturating_sub(std::mem::replace(&mut entry.since, now)));
        // The run sees the current state; a time that is set during the run is for a later run.
        set_due(timers, place, entry, None);
        group.urgent_in_row = if urgent { group.urgent_in_row.saturating_add(1) } else { 0 };
        group.running += 1;
        group.count(tenant.as_ref(), |tenant| {
            (tenant.ready, tenant.running) = (tenant.ready.saturating_sub(1), tenant.running + 1);
        });
        break Some(Job { group: group.name.clone(), key: entry.key.clone(), trigger, waited, place });
    };
    for (place, urgent) in left.into_iter().rev() {
        if urgent { &mut group.urgent } else { &mut group.patient }.push_front(place);
    }
    taken
}
