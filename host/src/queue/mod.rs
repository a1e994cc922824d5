//! The work queue: keys in, one key at a time out, each plugin in its turn.
//!
//! Rules R2 (one at a time per key, a change during a run queues one more) and R13 (backoff, jitter, what runs now)
//! live in [`state`], which knows neither tokio nor the clock; this file waits for it.

mod state;

use std::fmt::Debug;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use futures::{FutureExt, poll};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use windlass_core::outcome::Requeue;

use state::State;
pub use state::{Job, Trigger};

/// After so many runs that waited for nothing, a worker lets others have its thread. Well before tokio makes it: that would
/// be in the middle of a run.
const IN_A_ROW: u32 = 32;

/// What is done with a key.
pub trait Run<G, K>: Send + Sync {
    /// Does it once, and says when to come back, and the time between unprompted runs.
    fn run(&self, job: &Job<G, K>) -> impl Future<Output = (Requeue, Duration)> + Send;
}

/// A queue of keys `K` that belong to groups `G` (a key is a parent, a group its plugin). Clones share it.
pub struct Queue<G, K>(Arc<Shared<G, K>>);

struct Shared<G, K> {
    inner: Mutex<Inner<G, K>>,
    /// One permit is enough: a worker that wakes wakes the next one while there are more keys.
    changed: Notify,
    /// So many workers at once keep a thread busy. More are woken only for those that wait, be it for the API server, for
    /// their turn to call, or for a guest that takes its time: a run that waits for nothing is over sooner than a thread
    /// is woken.
    busy_max: usize,
}

struct Inner<G, K> {
    state: State<G, K>,
    /// Runs that have waited for something.
    waited: usize,
    /// Whether a worker was woken since one has looked: it will wake the next one.
    woken: bool,
    /// When the one waiting worker that keeps the time will look again. Were it all of them, each timer would wake all.
    alarm: Option<Instant>,
}

impl<G, K> Clone for Queue<G, K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<G: Clone + Eq + Hash, K: Clone + Eq + Hash> Queue<G, K> {
    /// An empty queue for so many workers, of whom at most `busy_max` (at least one) keep a thread busy. At most
    /// `concurrency` keys of one group run at once, unless [told otherwise](Self::set_concurrency), and never more than it
    /// leaves workers for the others.
    pub fn new(workers: usize, concurrency: usize, busy_max: usize) -> Self {
        let inner =
            Inner { state: State::new(workers, concurrency, Instant::now()), waited: 0, woken: false, alarm: None };
        Self(Arc::new(Shared { inner: Mutex::new(inner), changed: Notify::new(), busy_max: busy_max.max(1) }))
    }

    /// How many keys of a group may run at once.
    pub fn set_concurrency(&self, group: &G, concurrency: usize) {
        self.change(|inner| inner.state.set_concurrency(group, concurrency));
    }

    /// Something happened to a key.
    pub fn add(&self, group: &G, key: &K, trigger: Trigger) {
        self.change(|inner| inner.state.add(group, key, trigger, Instant::now()));
    }

    /// Something will have happened to a key after this long.
    pub fn add_after(&self, group: &G, key: &K, trigger: Trigger, delay: Duration) {
        self.change(|inner| inner.state.add_at(group, key, trigger, Instant::now() + delay));
    }

    /// Something will have happened to a key at a moment of this span that chance decides.
    pub fn add_within(&self, group: &G, key: &K, trigger: Trigger, span: Duration) {
        self.change(|inner| {
            let at = inner.state.moment(Instant::now(), span, fastrand::f64());
            inner.state.add_at(group, key, trigger, at);
        });
    }

    /// A whole group is gone for good.
    pub fn forget_group(&self, group: &G) {
        self.change(|inner| inner.state.forget_group(group));
    }

    fn change(&self, change: impl FnOnce(&mut Inner<G, K>)) {
        let needs_worker = {
            let mut inner = self.0.inner.lock();
            change(&mut inner);
            inner.needs_worker(self.0.busy_max)
        };
        if needs_worker {
            self.wake_one();
        }
    }

    /// The one that fell asleep last: whoever keeps the time goes on doing so, and fewer threads are warm.
    fn wake_one(&self) {
        self.0.changed.notify_last();
    }

    /// Waits for a key that may run. Until [`done`](Self::done) with it, nobody else gets it.
    pub async fn next(&self) -> Job<G, K> {
        loop {
            let changed = self.0.changed.notified();
            let (job, needs_worker, alarm) = {
                let mut inner = self.0.inner.lock();
                inner.woken = false;
                let job = inner.state.next(Instant::now());
                let alarm = if job.is_none() { inner.take_alarm() } else { None };
                (job, inner.needs_worker(self.0.busy_max), alarm)
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

    /// A run of a key has ended. Wakes nobody: the worker that says so asks for the [`next`](Self::next) key at once.
    fn done(&self, job: &Job<G, K>, requeue: Requeue, resync: Duration, waited: bool) {
        let mut inner = self.0.inner.lock();
        inner.state.done(job, requeue, resync, Instant::now(), fastrand::f64());
        inner.waited -= usize::from(waited);
    }
}

impl<G: Clone + Debug + Eq + Hash, K: Clone + Debug + Eq + Hash> Queue<G, K> {
    /// Is a worker: runs one key after the other until it is told to stop. What runs then goes on to its end.
    pub async fn work(&self, stop: &CancellationToken, work: &impl Run<G, K>) {
        let mut in_a_row = 0;
        loop {
            let job = tokio::select! {
                () = stop.cancelled() => return,
                job = self.next() => job,
            };
            // Were it to end the worker, its key would never run again, and what waits for this worker might neither.
            let mut run = pin!(AssertUnwindSafe(work.run(&job)).catch_unwind());
            let (ended, waited) = match poll!(run.as_mut()) {
                Poll::Ready(ended) => (ended, false),
                Poll::Pending => {
                    self.change(|inner| inner.waited += 1);
                    (run.await, true)
                }
            };
            let (requeue, resync) = ended.unwrap_or_else(|_| {
                tracing::error!(group = ?job.group, key = ?job.key, "this panicked, and is tried again; please report it");
                (Requeue::Backoff(Duration::ZERO), Duration::MAX)
            });
            self.done(&job, requeue, resync, waited);
            in_a_row = if waited { 0 } else { in_a_row + 1 };
            if in_a_row == IN_A_ROW {
                tokio::task::yield_now().await;
                in_a_row = 0;
            }
        }
    }
}

impl<G: Clone + Eq + Hash, K: Clone + Eq + Hash> Inner<G, K> {
    /// Whether to wake a worker: it would find a key, or a time to keep, which none that is awake will see to soon.
    fn needs_worker(&mut self, busy_max: usize) -> bool {
        let busy = self.state.running() - self.waited;
        let needs = !self.woken && busy < busy_max && (self.state.has_ready() || self.due_before_alarm().is_some());
        self.woken |= needs;
        needs
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

    /// Workers, what their runs wait for, and the keys whose runs have begun, in that order.
    struct Fixture {
        queue: Queue<&'static str, u32>,
        stop: CancellationToken,
        gate: tokio::sync::Semaphore,
        begun: Mutex<Vec<u32>>,
    }

    impl Fixture {
        fn new(busy_max: usize) -> Self {
            let queue = Queue::new(8, 8, busy_max);
            Self {
                queue,
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
        /// Keys below 10 wait at the gate, 13 panics the first time, others wait for nothing.
        async fn run(&self, job: &Job<&'static str, u32>) -> (Requeue, Duration) {
            self.begun.lock().push(job.key);
            if job.key < 10 {
                self.gate.acquire().await.expect("it is never closed").forget();
            }
            assert!(self.begun() != [13]);
            (Requeue::WhenChanged, RESYNC)
        }
    }

    #[tokio::test]
    async fn keys_whose_time_comes_are_run_by_whoever_sleeps() {
        let fixture = Fixture::new(1);
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
            _ = futures::future::join3(a, b, c) => unreachable!("nobody stops them"),
        }
        assert_eq!(fixture.begun(), [2, 3, 1], "none has ended, and each found a worker");
    }

    #[tokio::test]
    async fn a_worker_is_woken_for_one_that_waits_and_for_none_that_is_done_at_once() {
        let fixture = Fixture::new(1);
        let [mut a, mut b] = [fixture.work(), fixture.work()].map(tokio_test::task::spawn);
        assert!(a.poll().is_pending() && b.poll().is_pending());
        for key in [11, 12, 1, 14] {
            fixture.queue.add(&"g", &key, Trigger::Event);
        }
        assert_eq!([a.is_woken(), b.is_woken()], [false, true], "the one that fell asleep last");
        assert!(b.poll().is_pending());
        assert_eq!((fixture.begun(), a.is_woken()), (vec![11, 12, 1], true), "as it waits now");
        assert!(a.poll().is_pending());
        assert_eq!(fixture.begun(), [11, 12, 1, 14]);
        fixture.stop.cancel();
        fixture.gate.add_permits(1);
        assert!(a.poll().is_ready() && b.poll().is_ready(), "what runs goes on to its end");
    }

    #[tokio::test]
    async fn with_more_cores_more_workers_are_busy_at_once() {
        let fixture = Fixture::new(2);
        let mut workers = [(); 3].map(|()| tokio_test::task::spawn(fixture.work()));
        for worker in &mut workers {
            assert!(worker.poll().is_pending());
        }
        for key in 11..13 {
            fixture.queue.add(&"g", &key, Trigger::Event);
        }
        let [a, b, c] = &mut workers;
        assert!(c.is_woken() && c.poll().is_pending());
        assert_eq!([a.is_woken(), b.is_woken()], [false, true], "though none has waited");
    }

    #[tokio::test]
    async fn a_run_that_panics_costs_no_worker_and_comes_again() {
        let fixture = Fixture::new(1);
        let mut worker = tokio_test::task::spawn(fixture.work());
        fixture.queue.add(&"g", &13, Trigger::Event);
        assert!(worker.poll().is_pending());
        // No event would end the wait after a failure; a new generation does.
        fixture.queue.add(&"g", &13, Trigger::Fresh);
        assert!(worker.poll().is_pending());
        assert_eq!(fixture.begun(), [13, 13]);
    }

    #[tokio::test]
    async fn when_the_one_who_keeps_the_time_leaves_another_keeps_it() {
        let queue = Queue::new(4, 4, 1);
        queue.add_after(&"g", &1, Trigger::Resync, Duration::from_millis(1));
        let (mut keeper, mut other) = (Box::pin(queue.next()), Box::pin(queue.next()));
        assert!(poll!(&mut keeper).is_pending() && poll!(&mut other).is_pending());
        drop(keeper);
        assert_eq!(other.await.key, 1);
    }

    #[tokio::test]
    async fn a_worker_that_has_ended_a_run_finds_what_waited_for_it() {
        let queue = Queue::new(2, 1, 1);
        queue.add(&"g", &1, Trigger::Event);
        queue.add(&"g", &2, Trigger::Event);
        let first = queue.next().await;
        let mut other = Box::pin(queue.next());
        assert!(poll!(&mut other).is_pending(), "one of a group at once");
        queue.done(&first, Requeue::WhenChanged, RESYNC, false);
        assert_eq!(queue.next().await.key, 2);
    }
}
