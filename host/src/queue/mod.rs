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
use std::time::{Duration, Instant};

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use windlass_core::ids::{ObjectKey, PluginName};
use windlass_core::outcome::Requeue;

use self::state::{End, State};
use self::wake::{Inner, TimeKeeper};
use crate::telemetry::QueueState;

pub use state::{Busy, Job, Trigger};

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
    queue: &'a dyn Others,
    aside: AtomicBool,
}

impl Turn<'_> {
    /// Makes other workers wake for the remaining keys. A run must call this before it blocks its worker for long; a
    /// run that awaits need not.
    pub fn step_aside(&self) {
        if !self.aside.swap(true, Ordering::Relaxed) {
            self.queue.let_others_go_on();
        }
    }
}

/// The part of a queue that a turn uses.
trait Others: Sync {
    fn let_others_go_on(&self);
}

struct OthersThan<'a, G, K> {
    queue: &'a Queue<G, K>,
    job: &'a Job<G, K>,
}

impl<G, K> Others for OthersThan<'_, G, K>
where
    G: Clone + Eq + Hash + Send + Sync,
    K: Key + Send + Sync,
{
    fn let_others_go_on(&self) {
        self.queue.change(|inner| inner.state.step_aside(self.job));
    }
}

impl<G, K> Clone for Queue<G, K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<G: Clone + Eq + Hash, K: Key> Queue<G, K> {
    /// An empty queue for this many workers. At most `concurrency` keys of a group run at once, unless
    /// [`set_concurrency`](Self::set_concurrency) sets another number for the group. A group never has more workers
    /// than it leaves idle, and keeps its last place for a tenant without a running key.
    pub fn new(workers: usize, concurrency: usize, busy_max: Busy) -> Self {
        let inner = Inner::new(State::new(workers, concurrency, busy_max, Instant::now()));
        Self(Arc::new(Shared { inner: Mutex::new(inner), changed: Notify::new() }))
    }

    /// Sets how many keys of a group may run at once.
    pub fn set_concurrency(&self, group: &G, concurrency: usize) {
        self.change(|inner| inner.state.set_concurrency(group, concurrency));
    }

    /// Queues a key.
    pub fn add(&self, group: &G, key: &K, trigger: Trigger) {
        self.change(|inner| inner.state.add(group, key, trigger, Instant::now()));
    }

    /// Queues a key after a delay.
    pub fn add_after(&self, group: &G, key: &K, trigger: Trigger, delay: Duration) {
        self.change(|inner| inner.state.add_at(group, key, trigger, Instant::now() + delay));
    }

    /// Queues a key at a random moment of this span.
    pub fn add_within(&self, group: &G, key: &K, trigger: Trigger, span: Duration) {
        self.change(|inner| {
            let at = inner.state.moment(Instant::now(), span, fastrand::f64());
            inner.state.add_at(group, key, trigger, at);
        });
    }

    /// Removes a group with its keys and settings; keys that run are removed when they end.
    pub fn forget_group(&self, group: &G) {
        self.change(|inner| inner.state.forget_group(group));
    }

    /// The present state of all groups.
    pub fn groups(&self) -> Vec<(G, QueueState)> {
        self.0.inner.lock().state.groups(Instant::now())
    }

    /// The number of keys that were taken to run, if a key waits and none runs. If it does not grow then, the workers are
    /// gone. None also while the queue is locked: this does not wait.
    pub fn stalled(&self) -> Option<u64> {
        self.0.inner.try_lock()?.state.stalled(Instant::now())
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
            let (job, needs_worker, alarm) = {
                let mut inner = self.0.inner.lock();
                inner.note_awake(slept);
                let job = inner.state.next(Instant::now());
                // A worker that finds no key wakes no other.
                let (needs_worker, alarm) =
                    if job.is_some() { (inner.needs_worker(), None) } else { (false, inner.take_alarm()) };
                (job, needs_worker, alarm)
            };
            if let Some(job) = job {
                if needs_worker {
                    self.wake_one();
                }
                return job;
            }
            match alarm {
                Some(due) => {
                    let keeper = TimeKeeper::new(self, due);
                    tokio::select! {
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
        self.0.inner.lock().state.done(job, end, Instant::now(), fastrand::f64());
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
        let turn = Turn { queue: &OthersThan { queue: self, job }, aside: AtomicBool::new(false) };
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
mod tests {
    use futures::poll;

    use super::*;

    impl Key for u32 {
        fn tenant(&self) -> Option<Arc<str>> {
            Some((self / 10_000).to_string().into())
        }
    }

    const RESYNC: Duration = Duration::from_mins(10);

    /// Workers, the gate that their runs wait for, and the keys whose runs have begun, in order.
    struct Fixture {
        queue: Queue<&'static str, u32>,
        stop: CancellationToken,
        gate: tokio::sync::Semaphore,
        begun: Mutex<Vec<u32>>,
    }

    impl Fixture {
        /// A fixture with this many workers, where two keys in total, and one of each group, may keep a thread busy.
        fn new(workers: usize) -> Self {
            Self {
                queue: Queue::new(workers, workers, Busy { of_all: 2, of_group: 1 }),
                stop: CancellationToken::new(),
                gate: tokio::sync::Semaphore::new(0),
                begun: Mutex::default(),
            }
        }

        async fn work(&self) {
            self.queue.work(&self.stop, self).await;
        }

        fn begun(&self) -> Vec<u32> {
            self.begun.lock().clone()
        }
    }

    impl Run<&'static str, u32> for Fixture {
        /// Keys below 10 wait at the gate, 13 panics the first time, 20 yields, 21 steps aside, others do not wait.
        async fn run(&self, job: &Job<&'static str, u32>, turn: &Turn<'_>) -> (Requeue, Duration) {
            self.begun.lock().push(job.key);
            match job.key {
                0..10 => self.gate.acquire().await.expect("the gate is never closed").forget(),
                20 => tokio::task::yield_now().await,
                21 => turn.step_aside(),
                _ => {}
            }
            assert!(self.begun() != [13]);
            (Requeue::WhenChanged, RESYNC)
        }
    }

    #[tokio::test]
    async fn due_keys_are_run_by_sleeping_workers() {
        let fixture = Fixture::new(8);
        let [mut a, mut b, mut c] = [fixture.work(), fixture.work(), fixture.work()].map(Box::pin);
        for worker in [&mut a, &mut b, &mut c] {
            assert!(poll!(worker).is_pending());
        }
        for (key, delay) in [(1, 30), (2, 1), (3, 15)] {
            fixture.queue.add_after(&"g", &key, Trigger::Resync, Duration::from_millis(delay));
        }
        let all_have_begun = async {
            while fixture.begun().len() < 3 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = all_have_begun => {}
            _ = futures::future::join3(a, b, c) => unreachable!("the workers are not stopped"),
        }
        assert_eq!(fixture.begun(), [2, 3, 1], "no run has ended, and each key has a worker");
    }

    #[tokio::test]
    async fn another_worker_is_woken_only_when_a_run_waits() {
        let fixture = Fixture::new(8);
        let [mut a, mut b] = [fixture.work(), fixture.work()].map(tokio_test::task::spawn);
        assert!(a.poll().is_pending() && b.poll().is_pending());
        for key in [11, 12, 1, 14] {
            fixture.queue.add(&"g", &key, Trigger::Event);
        }
        assert_eq!([a.is_woken(), b.is_woken()], [false, true], "the worker that fell asleep last is woken");
        assert!(b.poll().is_pending());
        assert_eq!(
            (fixture.begun(), a.is_woken()),
            (vec![11, 12, 1], true),
            "the run of key 1 waits, so the other worker is woken"
        );
        assert!(a.poll().is_pending());
        assert_eq!(fixture.begun(), [11, 12, 1, 14]);
        fixture.stop.cancel();
        fixture.gate.add_permits(1);
        assert!(a.poll().is_ready() && b.poll().is_ready(), "runs in progress finish");
    }

    #[tokio::test]
    async fn each_group_keeps_a_worker_busy() {
        let fixture = Fixture::new(8);
        let mut workers = [(); 3].map(|()| tokio_test::task::spawn(fixture.work()));
        for worker in &mut workers {
            assert!(worker.poll().is_pending());
        }
        for group in ["g", "h"] {
            fixture.queue.add(&group, &11, Trigger::Event);
            fixture.queue.add(&group, &12, Trigger::Event);
        }
        let [a, b, c] = &mut workers;
        assert!(c.is_woken() && c.poll().is_pending());
        assert_eq!([a.is_woken(), b.is_woken()], [false, true], "another worker is woken although no run waited");
    }

    #[tokio::test]
    async fn key_of_another_group_runs_while_the_first_group_is_at_its_limit() {
        let fixture = Fixture::new(4);
        let mut workers = [(); 4].map(|()| tokio_test::task::spawn(fixture.work()));
        for worker in &mut workers {
            assert!(worker.poll().is_pending());
        }
        // One group may take two of four workers: the third key waits, and the worker that was woken for it sleeps
        // again.
        for key in 1..=3 {
            fixture.queue.add(&"g", &key, Trigger::Event);
            for worker in workers.iter_mut().filter(|worker| worker.is_woken()) {
                assert!(worker.poll().is_pending());
            }
        }
        assert_eq!(fixture.begun().len(), 2);
        fixture.queue.add(&"h", &11, Trigger::Event);
        for worker in workers.iter_mut().filter(|worker| worker.is_woken()) {
            assert!(worker.poll().is_pending());
        }
        assert_eq!(fixture.begun().last(), Some(&11));
    }

    #[tokio::test]
    async fn run_that_yields_frees_its_thread_and_run_that_steps_aside_wakes_another_worker() {
        let fixture = Fixture::new(8);
        let [mut a, mut b] = [fixture.work(), fixture.work()].map(tokio_test::task::spawn);
        assert!(a.poll().is_pending() && b.poll().is_pending());
        fixture.queue.add(&"g", &20, Trigger::Event);
        fixture.queue.add(&"g", &11, Trigger::Event);
        assert!(b.poll().is_pending());
        assert_eq!(fixture.begun(), [20], "the run yielded its thread");
        assert!(a.is_woken() && a.poll().is_pending() && b.poll().is_pending());
        assert_eq!(fixture.begun(), [20, 11]);
        fixture.queue.add(&"g", &21, Trigger::Event);
        fixture.queue.add(&"g", &12, Trigger::Event);
        let (first, second) = if a.is_woken() { (&mut a, &mut b) } else { (&mut b, &mut a) };
        assert!(first.poll().is_pending() && second.is_woken());
    }

    #[tokio::test]
    async fn run_that_panics_ends_no_worker_and_is_retried() {
        let fixture = Fixture::new(8);
        let mut worker = tokio_test::task::spawn(fixture.work());
        fixture.queue.add(&"g", &13, Trigger::Event);
        assert!(worker.poll().is_pending());
        // An event does not end the backoff after a failure; a new generation does.
        fixture.queue.add(&"g", &13, Trigger::Changed);
        assert!(worker.poll().is_pending());
        assert_eq!(fixture.begun(), [13, 13]);
    }

    #[tokio::test]
    async fn leaving_worker_takes_no_key_and_wakes_another_for_it() {
        let fixture = Fixture::new(8);
        let leaving = CancellationToken::new();
        let mut other = tokio_test::task::spawn(fixture.work());
        let mut leaver = tokio_test::task::spawn(fixture.queue.work(&leaving, &fixture));
        assert!(other.poll().is_pending() && leaver.poll().is_pending());
        fixture.queue.add(&"g", &11, Trigger::Event);
        leaving.cancel();
        assert!(leaver.is_woken() && leaver.poll().is_ready());
        assert!(fixture.begun().is_empty());
        drop(leaver);
        assert!(other.is_woken() && other.poll().is_pending());
        assert_eq!(fixture.begun(), [11]);
    }

    #[tokio::test]
    async fn key_that_was_queued_again_during_the_last_run_of_a_leaving_worker_is_taken_by_another() {
        let fixture = Fixture::new(8);
        let leaving = CancellationToken::new();
        let mut other = tokio_test::task::spawn(fixture.work());
        assert!(other.poll().is_pending());
        let mut leaver = tokio_test::task::spawn(fixture.queue.work(&leaving, &fixture));
        assert!(leaver.poll().is_pending());
        fixture.queue.add(&"g", &1, Trigger::Event);
        assert!(leaver.is_woken() && leaver.poll().is_pending());
        fixture.queue.add(&"g", &1, Trigger::Event);
        leaving.cancel();
        fixture.gate.add_permits(1);
        assert!(leaver.poll().is_ready());
        assert!(other.is_woken() && other.poll().is_pending());
        assert_eq!(fixture.begun(), [1, 1]);
    }

    #[tokio::test]
    async fn another_worker_takes_over_when_the_worker_with_the_timer_leaves() {
        let queue = Queue::new(4, 4, Busy { of_all: 1, of_group: 1 });
        queue.add_after(&"g", &1, Trigger::Resync, Duration::from_millis(500));
        let (mut keeper, mut other) = (Box::pin(queue.next()), Box::pin(queue.next()));
        assert!(poll!(&mut keeper).is_pending() && poll!(&mut other).is_pending());
        drop(keeper);
        assert_eq!(other.await.key, 1);
    }

    #[tokio::test]
    async fn end_of_a_run_lets_the_next_key_of_its_group_run() {
        let queue = Queue::new(2, 1, Busy { of_all: 1, of_group: 1 });
        queue.add(&"g", &1, Trigger::Event);
        queue.add(&"g", &2, Trigger::Event);
        let first = queue.next().await;
        let mut other = Box::pin(queue.next());
        assert!(poll!(&mut other).is_pending(), "a group runs one key at a time");
        queue.done(&first, End { requeue: Requeue::WhenChanged, resync: RESYNC, aside: false });
        assert_eq!(queue.next().await.key, 2);
    }
}
