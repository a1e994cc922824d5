//! The state machine of the queue, without I/O: time and randomness are arguments.
//!
//! A key is looked up by name only when it is queued from outside. From then on it is addressed by its place in a slab:
//! lanes, timers and the end of a run need no hash and no second copy of the name.

mod entry;
mod group;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::time::{Duration, Instant};

use hashbrown::DefaultHashBuilder;
use slab::Slab;
use windlass_core::guard::backoff::backoff;
use windlass_core::reconcile::outcome::Requeue;
use windlass_core::reconcile::trigger::Trigger;

use self::entry::{Entry, Phase, Timers, set_due};
use self::group::{Group, take};
use super::Key;
use super::times::{DELAY_MAX, backoff_of_unavailable, moment};
use crate::telemetry::QueueState;

/// A key that was taken to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job<G, K> {
    /// Group of the key.
    pub group: G,
    /// The key.
    pub key: K,
    /// The most urgent reason for the run.
    pub trigger: Trigger,
    /// How long the key was ready before it was taken.
    pub waited: Duration,
    place: usize,
}

/// How a run ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    /// When the key runs again.
    pub requeue: Requeue,
    /// Time between resyncs of the key.
    pub resync: Duration,
    /// Whether the run stepped aside.
    pub aside: bool,
}

#[derive(Debug)]
pub(super) struct State<G, K> {
    names: HashMap<G, usize>,
    groups: Slab<Group<G>>,
    entries: Slab<Entry<K>>,
    hasher: DefaultHashBuilder,
    /// Groups with a key that may run, each once; the first one is served next.
    turn: VecDeque<usize>,
    /// Number of running keys; `workers` is the limit.
    running: usize,
    workers: usize,
    /// Number of times that a key was taken to run.
    taken: u64,
    /// Number of running keys that have stepped aside: they wait, or other workers were woken in their place.
    aside: usize,
    busy_max: Busy,
    /// Times at which keys are due, with the places of the keys.
    timers: Timers,
    concurrency: usize,
    /// Number of keys whose last run failed because of the API server.
    unavailable: usize,
    /// Time from which batches are counted.
    origin: Instant,
}

/// How many running keys may keep a thread busy before other workers are woken for further keys.
#[derive(Debug, Clone, Copy)]
pub struct Busy {
    /// In all groups together.
    pub of_all: usize,
    /// In one group.
    pub of_group: usize,
}

impl<G: Clone + Eq + Hash, K: Key> State<G, K> {
    pub(super) fn new(workers: usize, concurrency: usize, busy_max: Busy, origin: Instant) -> Self {
        Self {
            names: HashMap::new(),
            groups: Slab::new(),
            entries: Slab::new(),
            hasher: DefaultHashBuilder::default(),
            turn: VecDeque::new(),
            running: 0,
            workers,
            taken: 0,
            aside: 0,
            busy_max,
            timers: BTreeSet::new(),
            concurrency,
            unavailable: 0,
            origin,
        }
    }

    pub(super) fn set_concurrency(&mut self, name: &G, concurrency: usize) {
        let place = self.group(name);
        if let Some(group) = self.groups.get_mut(place) {
            group.concurrency = concurrency.max(1);
        }
        self.take_turn(place);
    }

    pub(super) fn add(&mut self, group: &G, key: &K, trigger: Trigger, now: Instant) {
        let place = self.entry(group, key);
        self.add_place(place, trigger, now);
    }

    fn add_place(&mut self, place: usize, trigger: Trigger, now: Instant) {
        let Some(entry) = self.entries.get_mut(place) else { return };
        if trigger.forgets_failures() {
            entry.failures = 0;
            entry.not_before = None;
        }
        match (entry.phase, entry.not_before) {
            (Phase::Idle, Some(until)) if until > now => self.add_place_at(place, trigger, until),
            (Phase::Idle, _) => {
                entry.since = nanoseconds(self.origin, now);
                self.make_ready(place, trigger);
            }
            // The key may be in the lane of keys that are not urgent. It stays there as a stale place.
            (Phase::Ready(before), _) if before < trigger => {
                if trigger.is_urgent() && !before.is_urgent() {
                    self.make_ready(place, trigger);
                } else {
                    entry.phase = Phase::Ready(trigger);
                }
            }
            (Phase::Ready(_), _) => {}
            (Phase::Running { again, .. }, _) => {
                entry.phase = Phase::Running { again: again.max(Some(trigger)), forget: false };
            }
        }
    }

    pub(super) fn add_at(&mut self, group: &G, key: &K, trigger: Trigger, at: Instant) {
        let place = self.entry(group, key);
        self.add_place_at(place, trigger, at);
    }

    /// A time within a span that begins now, selected by `random` (0 to 1).
    pub(super) fn moment(&self, now: Instant, span: Duration, random: f64) -> Instant {
        moment(self.origin, now, span, random)
    }

    fn add_place_at(&mut self, place: usize, trigger: Trigger, at: Instant) {
        let Some(entry) = self.entries.get_mut(place) else { return };
        // The earlier of two times counts, and the more urgent of two reasons.
        let (at, trigger) = match entry.due {
            Some((before, reason)) => (before.min(at), reason.max(trigger)),
            None => (at, trigger),
        };
        if let Phase::Running { forget, .. } = &mut entry.phase {
            *forget = false;
        }
        set_due(&mut self.timers, place, entry, Some((at, trigger)));
    }

    fn forget(&mut self, place: usize) {
        match self.entries.get_mut(place) {
            Some(entry) if matches!(entry.phase, Phase::Running { .. }) => {
                entry.phase = Phase::Running { again: None, forget: true };
                set_due(&mut self.timers, place, entry, None);
            }
            // A lane may still contain the place; it is skipped when its turn comes.
            Some(_) => self.remove(place),
            None => {}
        }
    }

    fn remove(&mut self, place: usize) {
        let Some(mut entry) = self.entries.try_remove(place) else { return };
        self.unavailable -= usize::from(entry.is_unavailable);
        set_due(&mut self.timers, place, &mut entry, None);
        let Some(group) = self.groups.get_mut(entry.group) else { return };
        group.remove_key(entry.tenant, matches!(entry.phase, Phase::Ready(_)));
        if let Ok(found) = group.keys.find_entry(self.hasher.hash_one(&entry.key), |known| *known == place) {
            found.remove();
        }
    }

    pub(super) fn forget_group(&mut self, name: &G) {
        let Some(place) = self.names.get(name).copied() else { return };
        let Some(group) = self.groups.get_mut(place) else { return };
        group.forgotten = true;
        for key in group.keys.iter().copied().collect::<Vec<_>>() {
            self.forget(key);
        }
        self.drop_forgotten_group(place);
    }

    pub(super) fn is_running(&self, name: &G) -> bool {
        self.names.get(name).and_then(|place| self.groups.get(*place)).is_some_and(|group| group.running > 0)
    }

    pub(super) fn any_running(&self, holds: impl Fn(&G, &K) -> bool) -> bool {
        self.running > 0
            && self.entries.iter().any(|(_, entry)| {
                matches!(entry.phase, Phase::Running { .. })
                    && self.groups.get(entry.group).is_some_and(|group| holds(&group.name, &entry.key))
            })
    }

    pub(super) fn next(&mut self, now: Instant) -> Option<Job<G, K>> {
        self.ring_timers(now);
        // A group may have as many workers as it leaves idle: a single group takes half of them, and a group without a
        // worker finds one, however many are busy.
        let idle = self.idle();
        for _ in 0..self.turn.len() {
            let Some(place) = self.turn.pop_front() else { break };
            let Some(group) = self.groups.get_mut(place) else { continue };
            if !group.has_place(idle) {
                self.turn.push_back(place);
                continue;
            }
            group.in_turn = false;
            let may_run = group.running < group.concurrency;
            let now = nanoseconds(self.origin, now);
            let (entries, timers) = (&mut self.entries, &mut self.timers);
            let job = if may_run { take(group, place, idle, now, entries, timers) } else { None };
            self.take_turn(place);
            if job.is_some() {
                self.running += 1;
                self.taken += 1;
                return job;
            }
        }
        None
    }

    fn idle(&self) -> usize {
        self.workers.saturating_sub(self.running)
    }

    /// Number of running keys that keep a thread busy.
    pub(super) fn busy(&self) -> usize {
        self.running - self.aside
    }

    /// Whether another worker would find a key that no busy worker will take soon.
    pub(super) fn wants_worker(&self) -> bool {
        let idle = self.idle();
        let wants = |group: &Group<G>| group.has_place(idle) && group.running - group.aside < self.busy_max.of_group;
        self.busy() < self.busy_max.of_all && self.turn.iter().any(|place| self.groups.get(*place).is_some_and(wants))
    }

    /// The number of keys that were taken to run, if a key waits and none runs: a worker must take it at once.
    pub(super) fn stalled(&self, now: Instant) -> Option<u64> {
        let is_due = self.next_due().is_some_and(|due| due <= now);
        (self.running == 0 && (is_due || !self.turn.is_empty())).then_some(self.taken)
    }

    /// Marks a running key as no longer keeping a thread busy.
    pub(super) fn step_aside(&mut self, job: &Job<G, K>) {
        self.aside += 1;
        if let Some(group) = self.entries.get(job.place).and_then(|entry| self.groups.get_mut(entry.group)) {
            group.aside += 1;
        }
    }

    /// The present state of all groups.
    pub(super) fn groups(&self, now: Instant) -> Vec<(G, QueueState)> {
        let now = nanoseconds(self.origin, now);
        let named = self.groups.iter().map(|(at, group)| (at, (group.name.clone(), group.state())));
        let mut states: HashMap<usize, (G, QueueState)> = named.collect();
        // Nearly all keys are idle. The queue is locked meanwhile, so their group is not looked up.
        for (_, entry) in self.entries.iter().filter(|(_, entry)| entry.phase != Phase::Idle) {
            let Some((_, state)) = states.get_mut(&entry.group) else { continue };
            match entry.phase {
                Phase::Idle => {}
                Phase::Ready(_) => state.ready += 1,
                Phase::Running { .. } => {
                    let run = Duration::from_nanos(now.saturating_sub(entry.since));
                    state.unfinished += run;
                    state.longest = state.longest.max(run);
                }
            }
        }
        states.into_values().collect()
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Ends a run.
    pub(super) fn done(&mut self, job: &Job<G, K>, end: End, now: Instant, random: f64) {
        let End { requeue, resync, aside } = end;
        self.running = self.running.saturating_sub(1);
        self.aside -= usize::from(aside);
        let origin = self.origin;
        // The place is still valid: running keys are not removed.
        let Some(entry) = self.entries.get_mut(job.place) else { return };
        let (Phase::Running { again, forget }, place) = (entry.phase, entry.group) else { return };
        if let Some(group) = self.groups.get_mut(place) {
            group.end_run(entry.tenant);
            group.aside -= usize::from(aside);
        }
        entry.phase = Phase::Idle;
        if forget || (requeue == Requeue::Gone && again.is_none()) {
            self.remove(job.place);
            self.drop_forgotten_group(place);
            self.take_turn(place);
            return;
        }
        self.unavailable -= usize::from(entry.is_unavailable);
        entry.is_unavailable = matches!(requeue, Requeue::Unavailable(_));
        self.unavailable += usize::from(entry.is_unavailable);
        if !matches!(requeue, Requeue::Pause(_) | Requeue::Backoff(_) | Requeue::Unavailable(_)) {
            entry.failures = 0;
            entry.not_before = None;
        }
        let delay = match requeue {
            Requeue::Settled(asked) => Some(asked.unwrap_or_else(|| {
                let resync = resync.min(DELAY_MAX);
                moment(origin, now + resync.mul_f64(0.9), resync.mul_f64(0.2), random) - now
            })),
            Requeue::Pause(delay) => Some(delay.min(DELAY_MAX).mul_f64(1.0 + 0.1 * random)),
            Requeue::After(delay) => Some(delay),
            Requeue::Backoff(at_least) | Requeue::Unavailable(at_least) => {
                let delay = if entry.is_unavailable {
                    backoff_of_unavailable(entry.failures, self.unavailable, random)
                } else {
                    backoff(entry.failures, random)
                };
                let delay = delay.max(at_least);
                if let Some(group) = self.groups.get_mut(place) {
                    group.retries += 1;
                }
                // A change during the run may already fix the failure.
                if !again.is_some_and(Trigger::forgets_failures) {
                    entry.failures = entry.failures.saturating_add(1);
                    entry.not_before = Some(now + delay.min(DELAY_MAX));
                }
                Some(delay)
            }
            Requeue::WhenChanged | Requeue::Gone => None,
        };
        if let Some(delay) = delay {
            self.add_place_at(job.place, Trigger::of(requeue), now + delay.min(DELAY_MAX));
        }
        if let Some(trigger) = again {
            self.add_place(job.place, trigger, now);
        }
        self.take_turn(place);
    }

    fn ring_timers(&mut self, now: Instant) {
        while let Some((_, place)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.pop_first();
            let Some(entry) = self.entries.get_mut(place) else { continue };
            entry.not_before = None;
            if let Some((_, trigger)) = entry.due.take() {
                self.add_place(place, trigger, now);
            }
        }
    }

    fn make_ready(&mut self, place: usize, trigger: Trigger) {
        let Some(entry) = self.entries.get_mut(place) else { return };
        // A key that becomes urgent was ready before.
        let is_new = entry.phase == Phase::Idle;
        entry.phase = Phase::Ready(trigger);
        let (group, tenant) = (entry.group, entry.tenant);
        if let Some(group) = self.groups.get_mut(group) {
            group.make_ready(tenant, place, trigger.is_urgent(), is_new);
        }
        self.take_turn(group);
    }

    fn take_turn(&mut self, place: usize) {
        let Some(group) = self.groups.get_mut(place) else { return };
        if !group.in_turn && group.wants_turn() {
            group.in_turn = true;
            self.turn.push_back(place);
        }
    }

    fn drop_forgotten_group(&mut self, place: usize) {
        let is_over = |group: &Group<G>| group.forgotten && group.keys.is_empty() && group.running == 0;
        if self.groups.get(place).is_some_and(is_over) {
            self.names.remove(&self.groups.remove(place).name);
            // Another group may get this place.
            self.turn.retain(|group| *group != place);
        }
    }

    /// Place of a group, which is created if needed.
    fn group(&mut self, name: &G) -> usize {
        if let Some(place) = self.names.get(name).copied() {
            if let Some(group) = self.groups.get_mut(place) {
                group.forgotten = false;
            }
            return place;
        }
        let place = self.groups.insert(Group::new(name.clone(), self.concurrency));
        self.names.insert(name.clone(), place);
        place
    }

    /// Place of a key, which is created if needed.
    fn entry(&mut self, group: &G, key: &K) -> usize {
        let of = self.group(group);
        let Self { groups, entries, hasher, .. } = self;
        let name_of =
            |entries: &Slab<Entry<K>>, place: usize| entries.get(place).map(|entry| hasher.hash_one(&entry.key));
        let hash = hasher.hash_one(key);
        let known = groups.get(of).and_then(|group| {
            group.keys.find(hash, |place| entries.get(*place).is_some_and(|entry| entry.key == *key))
        });
        if let Some(place) = known {
            return *place;
        }
        let tenant = groups.get_mut(of).map_or(0, |group| group.add_key(key.tenant()));
        let entry = Entry {
            key: key.clone(),
            group: of,
            tenant,
            phase: Phase::Idle,
            since: 0,
            due: None,
            failures: 0,
            is_unavailable: false,
            not_before: None,
        };
        let place = entries.insert(entry);
        if let Some(group) = groups.get_mut(of) {
            group.keys.insert_unique(hash, place, |place| name_of(entries, *place).unwrap_or_default());
        }
        place
    }
}

/// The time since the queue's origin.
fn nanoseconds(origin: Instant, now: Instant) -> u64 {
    u64::try_from(now.saturating_duration_since(origin).as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
