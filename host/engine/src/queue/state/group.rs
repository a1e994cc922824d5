//! A group of keys: its tenants with their lanes of ready keys, and which key runs next.

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
    /// Number of urgent keys that ran since the last key that is not urgent.
    pub urgent_in_row: u8,
    /// Number of running keys.
    pub running: usize,
    /// Number of running keys that have stepped aside.
    pub aside: usize,
    pub concurrency: usize,
    tenants: Tenants,
    /// Number of times that a key became ready, and that one was queued again because its run failed.
    pub adds: u64,
    pub retries: u64,
    /// Whether the group is in `turn`.
    pub in_turn: bool,
    /// Whether the group and its settings are removed when the last key has ended.
    pub forgotten: bool,
}

/// The tenants that have keys in a group.
#[derive(Debug, Default)]
struct Tenants {
    all: Slab<Tenant>,
    places: HashMap<Option<Arc<str>>, usize>,
    /// Number of ready keys.
    ready: usize,
    /// Number of tenants that have ready keys and none that runs.
    without_place: usize,
    /// Tenants with keys in their urgent lanes, and in the others. The first one is served next.
    urgent: VecDeque<usize>,
    patient: VecDeque<usize>,
}

/// The keys of one tenant in a group.
#[derive(Debug, Default)]
struct Tenant {
    name: Option<Arc<str>>,
    keys: usize,
    ready: usize,
    running: usize,
    /// Places of ready keys, in the order in which they became ready. A place may be stale: its key was removed, or is in the other lane by
    /// now.
    urgent: VecDeque<usize>,
    patient: VecDeque<usize>,
}

impl Tenant {
    fn lane(&mut self, is_urgent: bool) -> &mut VecDeque<usize> {
        if is_urgent { &mut self.urgent } else { &mut self.patient }
    }

    fn lacks_place(&self) -> bool {
        self.ready > 0 && self.running == 0
    }
}

impl Tenants {
    fn turn(&mut self, is_urgent: bool) -> &mut VecDeque<usize> {
        if is_urgent { &mut self.urgent } else { &mut self.patient }
    }

    /// Changes the numbers of a tenant's keys.
    fn count(&mut self, at: usize, change: impl FnOnce(&mut Tenant)) {
        let Some(tenant) = self.all.get_mut(at) else { return };
        let (ready, lacks_place) = (tenant.ready, tenant.lacks_place());
        change(tenant);
        self.ready = self.ready - ready + tenant.ready;
        self.without_place = self.without_place - usize::from(lacks_place) + usize::from(tenant.lacks_place());
    }

    fn push(&mut self, at: usize, is_urgent: bool, place: usize) {
        let Some(tenant) = self.all.get_mut(at) else { return };
        let lane = tenant.lane(is_urgent);
        lane.push_back(place);
        if lane.len() == 1 {
            self.turn(is_urgent).push_back(at);
        }
    }

    /// Takes the place of the next key of the first tenant in turn that may run one. The tenant's next turn is after all others.
    /// `is_key`: whether the place of a tenant is not stale.
    fn take(
        &mut self,
        is_urgent: bool,
        is_key: impl Fn(usize, usize) -> bool,
        may_run: impl Fn(&Tenant) -> bool,
    ) -> Option<usize> {
        loop {
            let all = &self.all;
            let turn = if is_urgent { &mut self.urgent } else { &mut self.patient };
            // At most as many tenants as have running keys are passed over. They keep their turn.
            let next = turn.iter().position(|at| all.get(*at).is_some_and(&may_run))?;
            let at = turn.remove(next)?;
            let lane = self.all.get_mut(at)?.lane(is_urgent);
            let found = std::iter::from_fn(|| lane.pop_front()).find(|place| is_key(at, *place));
            if !lane.is_empty() {
                self.turn(is_urgent).push_back(at);
            }
            if found.is_some() {
                return found;
            }
        }
    }
}

impl<G> Group<G> {
    /// A group without keys.
    pub fn new(name: G, concurrency: usize) -> Self {
        Self {
            name,
            keys: HashTable::new(),
            urgent_in_row: 0,
            running: 0,
            aside: 0,
            concurrency,
            tenants: Tenants::default(),
            adds: 0,
            retries: 0,
            in_turn: false,
            forgotten: false,
        }
    }

    /// The state of the group, without that of its keys.
    pub fn state(&self) -> QueueState {
        let Self { running, concurrency, adds, retries, .. } = *self;
        QueueState { running, concurrency, adds, retries, ..QueueState::default() }
    }

    /// Whether one of the keys may run.
    pub fn wants_turn(&self) -> bool {
        self.running < self.concurrency && self.tenants.ready > 0
    }

    /// Whether a ready key may run while this many workers are idle: a group never has more workers than it leaves idle, and its last
    /// place is only for a tenant without a running key. So if the runs of one tenant do not end, other tenants still find a place.
    pub fn has_place(&self, idle: usize) -> bool {
        self.running < idle && (self.tenants.without_place > 0 || !self.is_for_others(idle))
    }

    /// Whether the next place is the last one, and there is another tenant to keep it for.
    fn is_for_others(&self, idle: usize) -> bool {
        self.tenants.all.len() > 1 && self.running + 1 >= self.concurrency.min(idle.saturating_sub(1))
    }

    /// Adds a key of a tenant, and returns the tenant's place in the group.
    pub fn add_key(&mut self, tenant: Option<Arc<str>>) -> usize {
        let Tenants { all, places, .. } = &mut self.tenants;
        let at = *places
            .entry(tenant)
            .or_insert_with_key(|name| all.insert(Tenant { name: name.clone(), ..Tenant::default() }));
        self.tenants.count(at, |tenant| tenant.keys += 1);
        at
    }

    /// Removes a key of a tenant, which is ready or not.
    pub fn remove_key(&mut self, at: usize, is_ready: bool) {
        self.tenants.count(at, |tenant| {
            (tenant.keys, tenant.ready) = (tenant.keys.saturating_sub(1), tenant.ready - usize::from(is_ready));
        });
        if self.tenants.all.get(at).is_some_and(|tenant| tenant.keys == 0) {
            let Tenant { name, urgent, patient, .. } = self.tenants.all.remove(at);
            self.tenants.places.remove(&name);
            // Another tenant may get this place.
            for (is_urgent, lane) in [(true, urgent), (false, patient)] {
                if !lane.is_empty() {
                    self.tenants.turn(is_urgent).retain(|other| *other != at);
                }
            }
        }
    }

    /// Puts a ready key into a lane of its tenant. `is_new`: it was not ready before.
    pub fn make_ready(&mut self, at: usize, place: usize, is_urgent: bool, is_new: bool) {
        self.adds += u64::from(is_new);
        self.tenants.count(at, |tenant| tenant.ready += usize::from(is_new));
        self.tenants.push(at, is_urgent, place);
    }

    /// Records that the run of a tenant's key has ended.
    pub fn end_run(&mut self, at: usize) {
        self.running = self.running.saturating_sub(1);
        self.tenants.count(at, |tenant| tenant.running = tenant.running.saturating_sub(1));
    }
}

/// Takes the next key of a group that has a place while this many workers are idle; `now` is in nanoseconds.
pub(super) fn take<G: Clone, K: Key>(
    group: &mut Group<G>,
    of: usize,
    idle: usize,
    now: u64,
    entries: &mut Slab<Entry<K>>,
    timers: &mut Timers,
) -> Option<Job<G, K>> {
    let place = next_place(group, of, idle, entries)?;
    let entry = entries.get_mut(place)?;
    let Phase::Ready(trigger) = entry.phase else { return None };
    entry.phase = Phase::Running { again: None, forget: false };
    let waited = Duration::from_nanos(now.saturating_sub(std::mem::replace(&mut entry.since, now)));
    // The run sees the current state; a time that is set during the run is for a later run.
    set_due(timers, place, entry, None);
    group.urgent_in_row = if trigger.is_urgent() { group.urgent_in_row.saturating_add(1) } else { 0 };
    group.running += 1;
    group.tenants.count(entry.tenant, |tenant| {
        (tenant.ready, tenant.running) = (tenant.ready.saturating_sub(1), tenant.running + 1);
    });
    Some(Job { group: group.name.clone(), key: entry.key.clone(), trigger, waited, place })
}

/// Takes the place of the next key out of its lane.
fn next_place<G, K>(group: &mut Group<G>, of: usize, idle: usize, entries: &Slab<Entry<K>>) -> Option<usize> {
    let is_for_others = group.is_for_others(idle);
    let may_run = |tenant: &Tenant| !is_for_others || tenant.running == 0;
    let ages = group.urgent_in_row >= AGEING - 1;
    let mut take_from = |is_urgent: bool| {
        let is_key = |at: usize, place: usize| {
            let entry = entries.get(place).filter(|entry| entry.group == of && entry.tenant == at);
            entry.is_some_and(|entry| matches!(entry.phase, Phase::Ready(trigger) if trigger.is_urgent() == is_urgent))
        };
        group.tenants.take(is_urgent, is_key, may_run)
    };
    take_from(!ages).or_else(|| take_from(ages))
}
