//! The work queue: keys in, one key at a time out, each plugin in its turn.
//!
//! Rules R2 (one at a time per key, a change during a run queues one more) and R13 (backoff, jitter, what runs now)
//! live in [`state`], which knows neither tokio nor the clock; this file waits for it.

mod state;

use std::hash::Hash;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::Notify;
use windlass_core::outcome::Requeue;

use state::State;
pub use state::{Job, Trigger};

/// A queue of keys `K` that belong to groups `G` (a key is a parent, a group its plugin). Clones share it.
pub struct Queue<G, K>(Arc<Shared<G, K>>);

struct Shared<G, K> {
    state: Mutex<State<G, K>>,
    /// One permit is enough: a worker that takes a key wakes the next one while there are more.
    changed: Notify,
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
        Self(Arc::new(Shared { state: Mutex::new(State::new(workers, concurrency)), changed: Notify::new() }))
    }

    /// How many keys of a group may run at once.
    pub fn set_concurrency(&self, group: &G, concurrency: usize) {
        self.0.state.lock().set_concurrency(group, concurrency);
        self.0.changed.notify_one();
    }

    /// Something happened to a key.
    pub fn add(&self, group: &G, key: K, trigger: Trigger) {
        self.0.state.lock().add(group, key, trigger, Instant::now());
        self.0.changed.notify_one();
    }

    /// Something will have happened to a key after this long.
    pub fn add_after(&self, group: &G, key: &K, trigger: Trigger, delay: std::time::Duration) {
        self.0.state.lock().add_at(group, key, trigger, Instant::now() + delay);
        self.0.changed.notify_one();
    }

    /// A whole group is gone for good.
    pub fn forget_group(&self, group: &G) {
        self.0.state.lock().forget_group(group);
    }

    /// Waits for a key that may run. It must be given back by [`done`](Self::done).
    pub async fn next(&self) -> Job<G, K> {
        loop {
            let changed = self.0.changed.notified();
            let (job, more, due) = {
                let mut state = self.0.state.lock();
                let now = Instant::now();
                let job = state.next(now);
                (job, state.has_ready(), state.next_due())
            };
            if let Some(job) = job {
                if more {
                    self.0.changed.notify_one();
                }
                return job;
            }
            match due {
                Some(due) => {
                    tokio::select! {
                        () = changed => {}
                        () = tokio::time::sleep_until(due.into()) => {}
                    }
                }
                None => changed.await,
            }
        }
    }

    /// A run of a key has ended.
    pub fn done(&self, job: &Job<G, K>, requeue: Requeue, resync: std::time::Duration) {
        self.0.state.lock().done(job, requeue, resync, Instant::now(), fastrand::f64());
        self.0.changed.notify_one();
    }
}
