//! The work queue: hands each key to one worker at a time, and serves plugins in turn.
//!
//! [`state`] implements the rules R2 (one run at a time per key; a change during a run queues one more) and R13
//! (backoff, jitter, immediate runs) without tokio or a clock; [`wake`] decides which worker wakes when; this file does
//! the waiting.

mod state;
mod times;
mod wake;

use std::fmt::Debug;
use std::future::poll_fn;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use windlass_core::reconcile::outcome::Requeue;
use windlass_core::value::ids::{ObjectKey, PluginName};

use self::state::{End, State};
use self::wake::{Inner, TimeKeeper};
use crate::clock;
use crate::telemetry::QueueState;

pub use state::{Busy, Job};
pub use windlass_core::reconcile::trigger::Trigger;

/// Number of runs without waiting after which a worker yields its thread. tokio would force it to yield later, in the
/// middle of a run.
const IN_A_ROW: u32 = 32;

/// A key of a queue.
pub trait Key: Clone + Eq + Hash {
    /// The tenant that the key belongs to. If a group has keys of several tenants, the runs of one tenant never take all its places.
    fn tenant(&self) -> Option<Arc<str>>;
}

impl Key for ObjectKey {
    /// The namespace: tenants share clusters by namespaces.
    fn tenant(&self) -> Option<Arc<str>> {
        self.namespace.clone()
    }
}

impl Key for PluginName {
    fn tenant(&self) -> Option<Arc<str>> {
        None
    }
}

/// The work on a key.
pub trait Run<G, K>: Send + Sync {
    /// Runs the work on a key once. Returns when the key runs again, and the time between its resyncs.
    fn run(&self, job: &Job<G, K>, turn: &Turn<'_>) -> impl Future<Output = (Requeue, Duration)> + Send;
}

/// The queue of Plugins: all Plugins are in one group.
pub type PluginQueue = Queue<(), PluginName>;

/// A queue of keys `K` that belong to groups `G`: a key is a parent, a group its plugin. Clones share the queue.
#[derive(Clone)]
pub struct Queue<G, K>(Arc<Shared<G, K>>);

struct Shared<G, K> {
    inner: Mutex<Inner<G, K>>,
    /// Wakes a worker. One permit is enough, because a woken worker wakes the next one if needed.
    changed: Notify,
}

/// Gives a run access to its thread's scheduling.
///
/// Workers are woken one after the other, and only if no awake worker will take the next key soon: a run without waits
/// ends sooner than a thread wakes.
pub struct Turn<'a> {
    let_others_go_on: &'a (dyn Fn() + Sync),
    aside: AtomicBool,
}

impl Turn<'_> {
    /// Makes other workers wake for the remaining keys. A run must call this before it blocks its worker for long; a
    /// run that awaits need not.
    pub fn step_aside(&self) {
        if !self.aside.swap(true, Ordering::Relaxed) {
            (self.let_others_go_on)();
        }
    }
}

impl<G: Clone + Eq + Hash, K: Key> Queue<G, K> {
    /// An empty queue for this many workers. At most `concurrency` keys of a group run at once, unless
    /// [`set_concurrency`](Self::set_concurrency) sets another number for the group. A group never has more workers
    /// than it leaves idle, and keeps its last place for a tenant without a running key.
    pub fn new(workers: usize, concurrency: usize, busy_max: Busy) -> Self {
        let inner = Inner::new(State::new(workers, concurrency, busy_max, clock::now()));
        Self(Arc::new(Shared { inner: Mutex::new(inner), changed: Notify::new() }))
    }

    /// Sets how many keys of a group may run at once.
    pub fn set_concurrency(&self, group: &G, concurrency: usize) {
        self.change(|inner| inner.state.set_concurrency(group, concurrency));
    }

    /// Queues a key.
    pub fn add(&self, group: &G, key: &K, trigger: Trigger) {
        self.change(|inner| inner.state.add(group, key, trigger, clock::now()));
    }

    /// Queues a key after a delay.
    pub fn add_after(&self, group: &G, key: &K, trigger: Trigger, delay: Duration) {
        self.change(|inner| inner.state.add_at(group, key, trigger, clock::now() + delay));
    }

    /// Queues a key at a random moment of this span.
    pub fn add_within(&self, group: &G, key: &K, trigger: Trigger, span: Duration) {
        self.change(|inner| {
            let at = inner.state.moment(clock::now(), span, fastrand::f64());
            inner.state.add_at(group, key, trigger, at);
        });
    }

    /// Removes a group with its keys and settings; keys that run are removed when they end.
    pub fn forget_group(&self, group: &G) {
        self.change(|inner| inner.state.forget_group(group));
    }

    /// The present state of all groups.
    pub fn groups(&self) -> Vec<(G, QueueState)> {
        self.0.inner.lock().state.groups(clock::now())
    }

    /// The number of keys that were taken to run, if a key waits and none runs. If it does not grow then, the workers are
    /// gone. None also while the queue is locked: this does not wait.
    pub fn stalled(&self) -> Option<u64> {
        self.0.inner.try_lock()?.state.stalled(clock::now())
    }

    /// Whether keys of a group are running.
    pub fn is_running(&self, group: &G) -> bool {
        self.0.inner.lock().state.is_running(group)
    }

    /// Whether a key is running for which this holds.
    pub fn any_running(&self, holds: impl Fn(&G, &K) -> bool) -> bool {
        self.0.inner.lock().state.any_running(holds)
    }

    fn change(&self, change: impl FnOnce(&mut Inner<G, K>)) {
        let needs_worker = {
            let mut inner = self.0.inner.lock();
            change(&mut inner);
            inner.needs_worker()
        };
        if needs_worker {
            self.wake_one();
        }
    }

    /// Wakes the worker that fell asleep last, so that the worker with the timer stays asleep, and few threads stay
    /// warm.
    fn wake_one(&self) {
        self.0.changed.notify_last();
    }

    /// Waits for a key that may run. No other worker gets the key until [`done`](Self::done) is called for it.
    pub async fn next(&self) -> Job<G, K> {
        let mut slept = false;
        loop {
            let changed = self.0.changed.notified();
            let alarm = {
                let mut inner = self.0.inner.lock();
                inner.note_awake(slept);
                if let Some(job) = inner.state.next(clock::now()) {
                    let needs_worker = inner.needs_worker();
                    drop(inner);
                    if needs_worker {
                        self.wake_one();
                    }
                    return job;
                }
                // A worker that finds no key wakes no other.
                inner.take_alarm()
            };
            match alarm {
                Some(due) => {
                    let keeper = TimeKeeper { queue: self, due };
                    tokio::select! {
                        biased;
                        () = changed => {}
                        () = tokio::time::sleep_until(due.into()) => {}
                    }
                    keeper.wake();
                }
                None => changed.await,
            }
            slept = true;
        }
    }

    /// Ends a run of a key. Wakes no worker, because the caller requests the [`next`](Self::next) key at once.
    fn done(&self, job: &Job<G, K>, end: End) {
        self.0.inner.lock().state.done(job, end, clock::now(), fastrand::f64());
    }
}

impl<G, K> Queue<G, K>
where
    G: Clone + Debug + Eq + Hash + Send + Sync,
    K: Key + Debug + Send + Sync,
{
    /// Runs one key after the other until `stop` is cancelled. A run in progress continues to its end.
    pub async fn work(&self, stop: &CancellationToken, work: &impl Run<G, K>) {
        let mut in_a_row = 0;
        loop {
            let job = tokio::select! {
                // A worker that must end takes no further key: that is for the workers that go on.
                biased;
                () = stop.cancelled() => {
                    // After a run, no other worker was woken for the keys that this one would have taken next.
                    self.change(|_| ());
                    return;
                }
                job = self.next() => job,
            };
            let (end, waited) = self.run(&job, work).await;
            self.done(&job, end);
            in_a_row = if waited { 0 } else { in_a_row + 1 };
            if in_a_row == IN_A_ROW {
                tokio::task::yield_now().await;
                in_a_row = 0;
            }
        }
    }

    /// Runs a key; returns how the run ended, and whether it waited.
    async fn run(&self, job: &Job<G, K>, work: &impl Run<G, K>) -> (End, bool) {
        let let_others_go_on = || self.change(|inner| inner.state.step_aside(job));
        let turn = Turn { let_others_go_on: &let_others_go_on, aside: AtomicBool::new(false) };
        // If a panic ended the worker, its key would never run again, and neither might keys that wait for this worker.
        let mut run = pin!(AssertUnwindSafe(work.run(job, &turn)).catch_unwind());
        let mut waited = false;
        let ended = poll_fn(|context| {
            let polled = run.as_mut().poll(context);
            if polled.is_pending() {
                waited = true;
                turn.step_aside();
            }
            polled
        });
        let (requeue, resync) = ended.await.unwrap_or_else(|_| {
            tracing::error!(group = ?job.group, key = ?job.key, "run panicked and is retried; please report this");
            (Requeue::Backoff(Duration::ZERO), Duration::MAX)
        });
        (End { requeue, resync, aside: turn.aside.load(Ordering::Relaxed) }, waited)
    }
}

#[cfg(test)]
mod tests;
