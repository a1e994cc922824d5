//! What the queue decides, as a plain state machine: time and chance are arguments.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::hash::Hash;
use std::time::{Duration, Instant};

use windlass_core::outcome::Requeue;

/// First and longest wait after failures (rule R13).
const BACKOFF_MIN: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_mins(5);
/// No timer rings later than this: longer waits are as good as none, and could not be added to a time.
const DELAY_MAX: Duration = Duration::from_hours(24 * 365);
/// So few timers are not worth clearing out.
const TIMERS_MIN: usize = 1024;

/// Of so many runs of a group one goes to a key that is not urgent while there are any: none waits for ever.
const AGEING: u8 = 8;

/// Why a key should run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trigger {
    /// Time has passed: not urgent.
    Resync,
    /// One of all keys of its group: a first list, new logic or config. Not urgent, but failures so far are forgotten.
    Sweep,
    /// Something around it changed; waits for a backoff to end.
    Event,
    /// It is new, or its own generation is: runs now, and failures so far are forgotten.
    Fresh,
}

impl Trigger {
    /// As a span attribute.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Resync => "resync",
            Self::Sweep => "sweep",
            Self::Event => "event",
            Self::Fresh => "fresh",
        }
    }

    fn is_urgent(self) -> bool {
        self >= Self::Event
    }

    fn forgets_failures(self) -> bool {
        matches!(self, Self::Sweep | Self::Fresh)
    }
}

/// A key taken out to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job<G, K> {
    /// Its group.
    pub group: G,
    /// The key.
    pub key: K,
    /// The most urgent reason for the run.
    pub trigger: Trigger,
}

#[derive(Debug)]
struct Entry {
    phase: Phase,
    /// Runs again at this time; timers that say otherwise are stale.
    due: Option<(Instant, Trigger)>,
    /// Failures in a row.
    failures: u32,
    /// Events wait until then.
    not_before: Option<Instant>,
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Phase {
    Idle,
    Ready(Trigger),
    Running { again: Option<Trigger>, forget: bool },
}

#[derive(Debug)]
struct Group<K> {
    urgent: VecDeque<K>,
    patient: VecDeque<K>,
    /// Urgent keys that ran since a patient one did.
    urgent_in_row: u8,
    running: usize,
    concurrency: usize,
    entries: HashMap<K, Entry>,
    /// Whether it stands in the turn.
    in_turn: bool,
    /// Whether it goes, with its settings, when its last key has ended.
    forgotten: bool,
}

#[derive(Debug)]
pub(super) struct State<G, K> {
    groups: HashMap<G, Group<K>>,
    /// Groups with a key that may run, each once: the next one to serve stands first.
    turn: VecDeque<G>,
    /// Keys that run now, and how many may at once.
    running: usize,
    workers: usize,
    timers: BinaryHeap<Reverse<Timer<G, K>>>,
    /// Number of timers at which those that were overtaken are cleared out.
    clear_timers_at: usize,
    concurrency: usize,
}

#[derive(Debug)]
struct Timer<G, K> {
    at: Instant,
    group: G,
    key: K,
}

impl<G, K> PartialEq for Timer<G, K> {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}
impl<G, K> Eq for Timer<G, K> {}
impl<G, K> PartialOrd for Timer<G, K> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<G, K> Ord for Timer<G, K> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

impl<K> Group<K> {
    fn new(concurrency: usize) -> Self {
        Self {
            urgent: VecDeque::new(),
            patient: VecDeque::new(),
            urgent_in_row: 0,
            running: 0,
            concurrency,
            entries: HashMap::new(),
            in_turn: false,
            forgotten: false,
        }
    }

    fn wants_turn(&self) -> bool {
        self.running < self.concurrency && !(self.urgent.is_empty() && self.patient.is_empty())
    }

    fn next_key(&mut self) -> Option<K> {
        let patient_first = self.urgent.is_empty() || self.urgent_in_row >= AGEING - 1;
        if patient_first && let Some(key) = self.patient.pop_front() {
            self.urgent_in_row = 0;
            return Some(key);
        }
        self.urgent_in_row = self.urgent_in_row.saturating_add(1);
        self.urgent.pop_front()
    }
}

impl<G: Clone + Eq + Hash, K: Clone + Eq + Hash> State<G, K> {
    pub(super) fn new(workers: usize, concurrency: usize) -> Self {
        Self {
            groups: HashMap::new(),
            turn: VecDeque::new(),
            running: 0,
            workers,
            timers: BinaryHeap::new(),
            clear_timers_at: TIMERS_MIN,
            concurrency,
        }
    }

    pub(super) fn set_concurrency(&mut self, group: &G, concurrency: usize) {
        self.group(group).concurrency = concurrency.max(1);
        self.take_turn(group);
    }

    pub(super) fn add(&mut self, group: &G, key: K, trigger: Trigger, now: Instant) {
        let entry = self.entry(group, &key);
        if trigger.forgets_failures() {
            entry.failures = 0;
            entry.not_before = None;
        }
        match (entry.phase, entry.not_before) {
            (Phase::Idle, Some(until)) if until > now => self.add_at(group, &key, trigger, until),
            (Phase::Idle, _) => {
                self.make_ready(group, key, trigger);
            }
            (Phase::Ready(before), _) if before < trigger => {
                entry.phase = Phase::Ready(trigger);
                if trigger.is_urgent() && !before.is_urgent() {
                    // It stands among the patient: among the urgent as well now; whichever comes second finds it gone.
                    self.group(group).urgent.push_back(key);
                }
            }
            (Phase::Ready(_), _) => {}
            (Phase::Running { again, .. }, _) => {
                entry.phase = Phase::Running { again: again.max(Some(trigger)), forget: false };
            }
        }
    }

    pub(super) fn add_at(&mut self, group: &G, key: &K, trigger: Trigger, at: Instant) {
        let entry = self.entry(group, key);
        // The sooner of two times counts, and the more urgent of two reasons.
        let due = match entry.due {
            Some((before, reason)) => (before.min(at), reason.max(trigger)),
            None => (at, trigger),
        };
        if let Phase::Running { again, forget: true } = entry.phase {
            entry.phase = Phase::Running { again, forget: false };
        }
        if entry.due.is_none_or(|(before, _)| due.0 < before) {
            self.timers.push(Reverse(Timer { at: due.0, group: group.clone(), key: key.clone() }));
        }
        self.entry(group, key).due = Some(due);
        self.clear_timers();
    }

    /// Throws out timers that were overtaken by a run or a sooner one: each run leaves one behind.
    fn clear_timers(&mut self) {
        if self.timers.len() < self.clear_timers_at {
            return;
        }
        let Self { timers, groups, .. } = self;
        timers.retain(|Reverse(timer)| {
            let entry = groups.get(&timer.group).and_then(|group| group.entries.get(&timer.key));
            entry.and_then(|entry| entry.due).is_some_and(|(due, _)| due == timer.at)
        });
        self.clear_timers_at = TIMERS_MIN.max(2 * self.timers.len());
    }

    pub(super) fn forget(&mut self, group: &G, key: &K) {
        let Some(found) = self.groups.get_mut(group) else { return };
        match found.entries.get_mut(key) {
            Some(Entry { phase: phase @ Phase::Running { .. }, .. }) => {
                *phase = Phase::Running { again: None, forget: true };
            }
            // A lane may still hold the key; it is skipped when its turn comes.
            Some(_) => drop(found.entries.remove(key)),
            None => {}
        }
    }

    pub(super) fn forget_group(&mut self, group: &G) {
        let Some(found) = self.groups.get_mut(group) else { return };
        found.forgotten = true;
        let keys: Vec<K> = found.entries.keys().cloned().collect();
        for key in keys {
            self.forget(group, &key);
        }
        self.drop_forgotten_group(group);
    }

    pub(super) fn next(&mut self, now: Instant) -> Option<Job<G, K>> {
        self.ring_timers(now);
        // A group may have as many workers as it leaves idle: one alone takes half of them, and however many are busy,
        // a group that has none yet finds one.
        let idle = self.workers.saturating_sub(self.running);
        for _ in 0..self.turn.len() {
            let Some(name) = self.turn.pop_front() else { break };
            let Some(group) = self.groups.get_mut(&name) else { continue };
            if group.running >= idle {
                self.turn.push_back(name);
                continue;
            }
            group.in_turn = false;
            let job = if group.running < group.concurrency { take(group, &name) } else { None };
            self.take_turn(&name);
            if job.is_some() {
                self.running += 1;
                return job;
            }
        }
        None
    }

    /// Whether another worker may find a key.
    pub(super) fn has_ready(&self) -> bool {
        !self.turn.is_empty() && self.running < self.workers
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.timers.peek().map(|Reverse(timer)| timer.at)
    }

    pub(super) fn done(&mut self, job: &Job<G, K>, requeue: Requeue, resync: Duration, now: Instant, chance: f64) {
        self.running = self.running.saturating_sub(1);
        let Some(group) = self.groups.get_mut(&job.group) else { return };
        group.running = group.running.saturating_sub(1);
        let Some(entry) = group.entries.get_mut(&job.key) else { return };
        let Phase::Running { again, forget } = entry.phase else { return };
        entry.phase = Phase::Idle;
        if forget || (requeue == Requeue::Gone && again.is_none()) {
            group.entries.remove(&job.key);
            self.drop_forgotten_group(&job.group);
            self.take_turn(&job.group);
            return;
        }
        let delay = match requeue {
            Requeue::Settled(asked) => {
                entry.failures = 0;
                entry.not_before = None;
                Some(asked.unwrap_or_else(|| jittered(resync, 0.1, chance)))
            }
            // Never sooner, as nothing would have changed; but not all that wait for one moment at that moment.
            Requeue::Pause(delay) => Some(delay.min(DELAY_MAX).mul_f64(1.0 + 0.1 * chance)),
            Requeue::After(delay) => {
                entry.failures = 0;
                entry.not_before = None;
                Some(delay)
            }
            Requeue::Backoff(at_least) => {
                let delay = backoff(entry.failures, chance).max(at_least);
                // A change during the run may already be what heals it.
                if !again.is_some_and(Trigger::forgets_failures) {
                    entry.failures = entry.failures.saturating_add(1);
                    entry.not_before = Some(now + delay.min(DELAY_MAX));
                }
                Some(delay)
            }
            Requeue::WhenChanged | Requeue::Gone => {
                entry.failures = 0;
                entry.not_before = None;
                None
            }
        };
        if let Some(delay) = delay {
            self.add_at(&job.group, &job.key, Trigger::Resync, now + delay.min(DELAY_MAX));
        }
        if let Some(trigger) = again {
            self.add(&job.group, job.key.clone(), trigger, now);
        }
        self.take_turn(&job.group);
    }

    fn ring_timers(&mut self, now: Instant) {
        while self.timers.peek().is_some_and(|Reverse(timer)| timer.at <= now) {
            let Some(Reverse(timer)) = self.timers.pop() else { return };
            let entry = self.groups.get_mut(&timer.group).and_then(|group| group.entries.get_mut(&timer.key));
            let Some(entry) = entry else { continue };
            if let Some((_, trigger)) = entry.due.filter(|(due, _)| *due <= now) {
                entry.due = None;
                entry.not_before = None;
                self.add(&timer.group, timer.key, trigger, now);
            }
        }
    }

    fn make_ready(&mut self, name: &G, key: K, trigger: Trigger) {
        let group = self.group(name);
        if let Some(entry) = group.entries.get_mut(&key) {
            entry.phase = Phase::Ready(trigger);
        }
        if trigger.is_urgent() { &mut group.urgent } else { &mut group.patient }.push_back(key);
        self.take_turn(name);
    }

    fn take_turn(&mut self, name: &G) {
        let Some(group) = self.groups.get_mut(name) else { return };
        if !group.in_turn && group.wants_turn() {
            group.in_turn = true;
            self.turn.push_back(name.clone());
        }
    }

    fn drop_forgotten_group(&mut self, name: &G) {
        if self.groups.get(name).is_some_and(|group| group.forgotten && group.entries.is_empty() && group.running == 0)
        {
            self.groups.remove(name);
        }
    }

    fn group(&mut self, name: &G) -> &mut Group<K> {
        let concurrency = self.concurrency;
        let group = self.groups.entry(name.clone()).or_insert_with(|| Group::new(concurrency));
        group.forgotten = false;
        group
    }

    fn entry(&mut self, group: &G, key: &K) -> &mut Entry {
        self.group(group).entries.entry(key.clone()).or_insert(Entry {
            phase: Phase::Idle,
            due: None,
            failures: 0,
            not_before: None,
        })
    }
}

/// The next key of a group.
fn take<G: Clone, K: Clone + Eq + Hash>(group: &mut Group<K>, name: &G) -> Option<Job<G, K>> {
    loop {
        let key = group.next_key()?;
        let Some(entry) = group.entries.get_mut(&key) else { continue };
        let Phase::Ready(trigger) = entry.phase else { continue };
        entry.phase = Phase::Running { again: None, forget: false };
        // The run sees all that is so now; a time that is set while it runs is for another one.
        entry.due = None;
        group.running += 1;
        return Some(Job { group: name.clone(), key, trigger });
    }
}

/// Exponential from [`BACKOFF_MIN`] to [`BACKOFF_MAX`], with ±20 % of chance so that keys that failed together do not
/// come back together.
fn backoff(failures: u32, chance: f64) -> Duration {
    let plain = BACKOFF_MIN.saturating_mul(2_u32.saturating_pow(failures)).min(BACKOFF_MAX);
    jittered(plain, 0.2, chance)
}

/// A duration that `chance` (0 to 1) moves by up to ± `part` of itself.
fn jittered(plain: Duration, part: f64, chance: f64) -> Duration {
    plain.min(DELAY_MAX).mul_f64(1.0 - part + 2.0 * part * chance)
}

#[cfg(test)]
mod tests;
