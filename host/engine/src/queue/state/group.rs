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
    /// Ready keys that are urgent.
    pub urgent: Lane,
    /// Ready keys that are not urgent.
    pub patient: Lane,
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

/// Ready keys of a group, in the order in which they became ready. A place may be stale: its key was removed, or is in the other lane by
/// now.
#[derive(Debug, Default)]
pub(super) struct Lane {
    places: VecDeque<usize>,
    /// Places that came before those in `places` and were passed over, because the tenants of their keys had running keys and the place
    /// was for others. They are apart from the rest, and by tenant, so that each is looked at once, and not again for each key that runs.
    passed: HashMap<Option<Arc<str>>, VecDeque<Passed>>,
    /// Number of places that were passed over.
    passes: u64,
}

#[derive(Debug)]
struct Passed {
    place: usize,
    /// The order among the places of all tenants.
    number: u64,
}

impl Lane {
    pub fn push(&mut self, place: usize) {
        self.places.push_back(place);
    }

    fn is_empty(&self) -> bool {
        self.places.is_empty() && self.passed.is_empty()
    }

    /// Takes the place of the first key whose tenant is not passed over. `key_at` gives the key of a place that is not stale.
    fn take<'a, K: Key + 'a>(
        &mut self,
        key_at: impl Fn(usize) -> Option<&'a K>,
        is_passed_over: impl Fn(&Option<Arc<str>>) -> bool,
    ) -> Option<usize> {
        loop {
            // At most as many tenants as ran at once have places here.
            let free = self.passed.iter_mut().filter(|(tenant, _)| !is_passed_over(tenant));
            let first = free.min_by_key(|(_, places)| places.front().map(|passed| passed.number));
            let Some((tenant, places)) = first else { break };
            let place = places.pop_front().map(|passed| passed.place);
            // A stale place may by now be that of another tenant's key.
            let found = place.filter(|place| key_at(*place).is_some_and(|key| key.tenant() == *tenant));
            if places.is_empty() {
                let tenant = tenant.clone();
                self.passed.remove(&tenant);
            }
            if found.is_some() {
                return found;
            }
        }
        while let Some(place) = self.places.pop_front() {
            let Some(key) = key_at(place) else { continue };
            let tenant = key.tenant();
            if !is_passed_over(&tenant) {
                return Some(place);
            }
            self.passed.entry(tenant).or_default().push_back(Passed { place, number: self.passes });
            self.passes += 1;
        }
        None
    }
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
    let place = next_place(group, (of, idle), entries)?;
    let entry = entries.get_mut(place)?;
    let Phase::Ready(trigger) = entry.phase else { return None };
    entry.phase = Phase::Running { again: None, forget: false };
    let waited = Duration::from_nanos(now.saturating_sub(std::mem::replace(&mut entry.since, now)));
    // The run sees the current state; a time that is set during the run is for a later run.
    set_due(timers, place, entry, None);
    group.urgent_in_row = if trigger.is_urgent() { group.urgent_in_row.saturating_add(1) } else { 0 };
    group.running += 1;
    group.count(entry.key.tenant().as_ref(), |tenant| {
        (tenant.ready, tenant.running) = (tenant.ready.saturating_sub(1), tenant.running + 1);
    });
    Some(Job { group: group.name.clone(), key: entry.key.clone(), trigger, waited, place })
}

/// Takes the place of the next key out of its lane.
fn next_place<G, K: Key>(group: &mut Group<G>, (of, idle): (usize, usize), entries: &Slab<Entry<K>>) -> Option<usize> {
    let is_for_others = group.is_for_others(idle);
    let Group { urgent, patient, tenants, urgent_in_row, .. } = group;
    let is_passed_over =
        |tenant: &Option<Arc<str>>| is_for_others && tenants.get(tenant).is_some_and(|tenant| tenant.running > 0);
    let take_from = |lane: &mut Lane, is_urgent: bool| {
        let key_at = |place: usize| {
            let entry = entries.get(place).filter(|entry| entry.group == of)?;
            let is_ready = matches!(entry.phase, Phase::Ready(trigger) if trigger.is_urgent() == is_urgent);
            is_ready.then_some(&entry.key)
        };
        lane.take(key_at, is_passed_over)
    };
    if *urgent_in_row >= AGEING - 1 {
        take_from(patient, false).or_else(|| take_from(urgent, true))
    } else {
        take_from(urgent, true).or_else(|| take_from(patient, false))
    }
}
