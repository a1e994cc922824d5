//! The work queue: keys in, one key at a time out, each plugin in its turn.
//!
//! Rules R2 (one at a time per key, a change during a run queues one more) and R13 (backoff, jitter, what runs now)
//! live in [`state`], which knows neither tokio nor the clock; this file waits for it.

mod state;

use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;
use windlass_core::outcome::Requeue;

use state::State;
pub use state::{Job, Trigger};

/// A queue of keys `K` that belong to groups `G` (a key is a parent, a group its plugin). Clones share it.
pub struct Queue<G, K>(Arc<Shared<G, K>>);

struct Shared<G, K> {
    inner: Mutex<Inner<G, K>>,
    /// One permit is enough: a worker that takes a key wakes the next one while there are more.
    changed: Notify,
}

struct Inner<G, K> {
    state: State<G, K>,
    /// When the one waiting worker that keeps the time will look again. Were it all of them, each timer would wake all.
    alarm: Option<Instant>,
}

impl<G, K> Clone for Queue<G, K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<G: Clone + Eq + Hash, K: Clone + Eq + Hash> Queue<G, K> {
    /// An empty queue for so many workers. At most `concurrency` keys of one group run at once, unless
    /// [told otherwise](Self::set_concurrency), and never more than it leaves workers for the others.
    pub fn new(workers: usize, concurrency: usize) -> Self {
        let inner = Inner { state: State::new(workers, concurrency, Instant::now()), alarm: None };
        Self(Arc::new(Shared { inner: Mutex::new(inner), changed: Notify::new() }))
    }

    /// How many keys of a group may run at once.
    pub fn set_concurrency(&self, group: &G, concurrency: usize) {
        self.change(|state| state.set_concurrency(group, concurrency));
    }

    /// Something happened to a key.
    pub fn add(&self, group: &G, key: &K, trigger: Trigger) {
        self.change(|state| state.add(group, key, trigger, Instant::now()));
    }

    /// Something will have happened to a key after this long.
    pub fn add_after(&self, group: &G, key: &K, trigger: Trigger, delay: Duration) {
        self.change(|state| state.add_at(group, key, trigger, Instant::now() + delay));
    }

    /// Something will have happened to a key at a moment of this span that chance decides.
    pub fn add_within(&self, group: &G, key: &K, trigger: Trigger, span: Duration) {
        self.change(|state| {
            let at = state.moment(Instant::now(), span, fastrand::f64());
            state.add_at(group, key, trigger, at);
        });
    }

    /// A whole group is gone for good.
    pub fn forget_group(&self, group: &G) {
        self.change(|state| state.forget_group(group));
    }

    fn change(&self, change: impl FnOnce(&mut State<G, K>)) {
        let needs_worker = {
            let mut inner = self.0.inner.lock();
            change(&mut inner.state);
            inner.needs_worker()
        };
        if needs_worker {
            self.wake_one();
        }
    }

    /// The one that fell asleep last: whoever keeps the time goes on doing so, and fewer threads are warm.
    fn wake_one(&self) {
        self.0.changed.notify_last();
    }

    /// Waits for a key that may run. It must be given back by [`done`](Self::done).
    pub async fn next(&self) -> Job<G, K> {
        loop {
            let changed = self.0.changed.notified();
            let (job, needs_worker, alarm) = {
                let mut inner = self.0.inner.lock();
                let job = inner.state.next(Instant::now());
                let alarm = if job.is_none() { inner.take_alarm() } else { None };
                (job, inner.needs_worker(), alarm)
            };
            if let Some(job) = job {
                if needs_worker {
                    self.wake_one();
                }
                return job;
            }
            match alarm {
                Some(due) => {
                    let keeper = TimeKeeper { queue: self, due };
                    tokio::select! {
                        () = changed => {}
                        () = tokio::time::sleep_until(due.into()) => {}
                    }
                    keeper.wake();
                }
                None => changed.await,
            }
        }
    }

    /// A run of a key has ended. Wakes nobody: the worker that says so asks for the [`next`](Self::next) key at once, and
    /// wakes others if there are more.
    pub fn done(&self, job: &Job<G, K>, requeue: Requeue, resync: Duration) {
        self.0.inner.lock().state.done(job, requeue, resync, Instant::now(), fastrand::f64());
    }
}

impl<G: Clone + Eq + Hash, K: Clone + Eq + Hash> Inner<G, K> {
    /// Whether a waiting worker would find a key, or a time to keep.
    fn needs_worker(&self) -> bool {
        self.state.has_ready() || self.due_before_alarm().is_some()
    }

    fn due_before_alarm(&self) -> Option<Instant> {
        self.state.next_due().filter(|due| self.alarm.is_none_or(|alarm| *due < alarm))
    }

    fn take_alarm(&mut self) -> Option<Instant> {
        let due = self.due_before_alarm();
        self.alarm = due.or(self.alarm);
        due
    }
}

/// A waiting worker that wakes at a time, for all.
struct TimeKeeper<'a, G: Clone + Eq + Hash, K: Clone + Eq + Hash> {
    queue: &'a Queue<G, K>,
    due: Instant,
}

impl<G: Clone + Eq + Hash, K: Clone + Eq + Hash> TimeKeeper<'_, G, K> {
    /// It looks again, and sees to the time itself.
    fn wake(self) {
        self.disarm();
        std::mem::forget(self);
    }

    fn disarm(&self) {
        let mut inner = self.queue.0.inner.lock();
        // Another one may keep an earlier time by now.
        if inner.alarm == Some(self.due) {
            inner.alarm = None;
        }
    }
}

impl<G: Clone + Eq + Hash, K: Clone + Eq + Hash> Drop for TimeKeeper<'_, G, K> {
    /// It waits no longer: another one keeps the time.
    fn drop(&mut self) {
        self.disarm();
        self.queue.wake_one();
    }
}

#[cfg(test)]
mod tests {
    use futures::poll;

    use super::*;

    const RESYNC: Duration = Duration::from_mins(10);

    #[tokio::test]
    async fn keys_whose_time_comes_are_run_by_whoever_waits() {
        let queue = Queue::new(8, 8);
        let wait = || Box::pin(queue.next());
        let mut waiting = [wait(), wait(), wait()];
        for waiting in &mut waiting {
            assert!(poll!(waiting).is_pending());
        }
        for (key, delay) in [(1, 30), (2, 1), (3, 15)] {
            queue.add_after(&"g", &key, Trigger::Resync, Duration::from_millis(delay));
        }
        let [a, b, c] = waiting;
        let mut keys = futures::future::join_all([a, b, c]).await;
        keys.sort_by_key(|job| job.key);
        assert_eq!(keys.iter().map(|job| job.key).collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[tokio::test]
    async fn when_the_one_who_keeps_the_time_leaves_another_keeps_it() {
        let queue = Queue::new(4, 4);
        queue.add_after(&"g", &1, Trigger::Resync, Duration::from_millis(1));
        let (mut keeper, mut other) = (Box::pin(queue.next()), Box::pin(queue.next()));
        assert!(poll!(&mut keeper).is_pending() && poll!(&mut other).is_pending());
        drop(keeper);
        assert_eq!(other.await.key, 1);
    }

    #[tokio::test]
    async fn a_worker_that_has_ended_a_run_finds_what_waited_for_it() {
        let queue = Queue::new(2, 1);
        queue.add(&"g", &1, Trigger::Event);
        queue.add(&"g", &2, Trigger::Event);
        let first = queue.next().await;
        let mut other = Box::pin(queue.next());
        assert!(poll!(&mut other).is_pending(), "one of a group at once");
        queue.done(&first, Requeue::WhenChanged, RESYNC);
        assert_eq!(queue.next().await.key, 2);
    }
}
