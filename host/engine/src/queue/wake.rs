//! Decides when a worker wakes: for a key that no awake worker will take soon, or when the next timer is due.

use std::hash::Hash;
use std::time::Instant;

use super::Key;
use super::Queue;
use super::state::State;

/// The state of a queue, and which worker wakes for it.
pub(super) struct Inner<G, K> {
    pub state: State<G, K>,
    /// Whether a worker was woken and has not run yet; this worker wakes the next one.
    woken: bool,
    /// When the one sleeping worker with a timer wakes; none if no worker has one. If all workers had the timer, each
    /// expiry would wake all.
    alarm: Option<Instant>,
}

impl<G: Clone + Eq + Hash, K: Key> Inner<G, K> {
    pub fn new(state: State<G, K>) -> Self {
        Self { state, woken: false, alarm: None }
    }

    /// Records that a worker requests a key. `slept`: the worker has slept since its last run.
    pub fn note_awake(&mut self, slept: bool) {
        self.woken &= !slept;
    }

    /// Whether to wake a worker: for a key, or to keep the timer while no worker is awake.
    pub fn needs_worker(&mut self) -> bool {
        let keeps_time = || self.state.busy() == 0 && self.due_before_alarm().is_some();
        let needs = !self.woken && (self.state.wants_worker() || keeps_time());
        self.woken |= needs;
        needs
    }

    fn due_before_alarm(&self) -> Option<Instant> {
        self.state.next_due().filter(|due| self.alarm.is_none_or(|alarm| *due < alarm))
    }

    /// When the worker that is about to sleep must wake. None if no key is due later, or another worker has an earlier
    /// timer.
    pub fn take_alarm(&mut self) -> Option<Instant> {
        let due = self.due_before_alarm();
        self.alarm = due.or(self.alarm);
        due
    }
}

/// A waiting worker that keeps the timer for all.
pub(super) struct TimeKeeper<'a, G: Clone + Eq + Hash, K: Key> {
    pub queue: &'a Queue<G, K>,
    pub due: Instant,
}

impl<G: Clone + Eq + Hash, K: Key> TimeKeeper<'_, G, K> {
    /// Ends the wait: the worker runs, and checks the timers itself.
    pub fn wake(self) {
        self.disarm();
        std::mem::forget(self);
    }

    fn disarm(&self) {
        let mut inner = self.queue.0.inner.lock();
        // Another worker may have an earlier timer by now.
        if inner.alarm == Some(self.due) {
            inner.alarm = None;
        }
    }
}

impl<G: Clone + Eq + Hash, K: Key> Drop for TimeKeeper<'_, G, K> {
    /// Runs if the wait was cancelled: another worker must keep the timer.
    fn drop(&mut self) {
        self.disarm();
        self.queue.wake_one();
    }
}
