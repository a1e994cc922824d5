//! `/healthz`: whether the runtime's threads and the queues' workers make progress.
//!
//! The health address is served by a thread and a runtime of its own, so that it responds also when all threads of the
//! host's runtime are stuck. That thread looks at the host once in a [`BEAT`]. What it reads takes no lock that a stuck
//! thread could hold.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::MissedTickBehavior;

/// Time between two looks.
pub(super) const BEAT: Duration = Duration::from_secs(5);
/// Number of looks without progress after which the host counts as stuck. Looks are counted, not time: a process that
/// was suspended with its threads must not count as stuck when it continues.
const LIMIT: u32 = 6;

/// The number of keys that a queue's workers have taken, if a key waits and no worker runs one.
type Stalled = Box<dyn Fn() -> Option<u64> + Send + Sync>;

/// What makes progress in a live host. Clones share it.
#[derive(Clone)]
pub struct Liveness {
    runtime: Handle,
    queues: Arc<Mutex<Vec<(&'static str, Stalled)>>>,
}

impl Liveness {
    /// The liveness of a host that runs in this runtime.
    pub fn new(runtime: Handle) -> Self {
        Self { runtime, queues: Arc::default() }
    }

    /// Follows the workers of a queue, which have started. `stalled` returns the number of keys that they have taken, if
    /// a key waits and no worker runs one. It must not wait for a lock.
    /// A queue that was followed before is replaced.
    pub fn follow(&self, queue: &'static str, stalled: impl Fn() -> Option<u64> + Send + Sync + 'static) {
        let mut queues = self.queues.lock();
        queues.retain(|(name, _)| *name != queue);
        queues.push((queue, Box::new(stalled)));
    }

    /// Looks at the host once in a `beat`, and calls `report` with what is stuck. Never returns.
    pub(super) async fn watch(self, beat: Duration, report: impl Fn(Vec<String>)) {
        let mut watched = Watched::default();
        let mut beats = tokio::time::interval(beat);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beats.tick().await;
            report(watched.look(&self));
        }
    }
}

/// What earlier looks saw.
#[derive(Default)]
struct Watched {
    threads: Vec<Still>,
    queues: Vec<Still>,
}

impl Watched {
    /// Looks at the host; returns a sentence for each part that is stuck.
    fn look(&mut self, host: &Liveness) -> Vec<String> {
        let metrics = host.runtime.metrics();
        let queues = host.queues.lock();
        self.threads.resize_with(metrics.num_workers(), Still::default);
        self.queues.resize_with(queues.len(), Still::default);
        let threads = self.threads.iter_mut().enumerate().filter_map(|(at, still)| {
            // An odd number means that the thread waits for work. A thread with work updates both numbers every few
            // tasks.
            let moves = metrics.worker_park_unpark_count(at);
            let busy = moves.is_multiple_of(2).then(|| (moves, metrics.worker_total_busy_duration(at)));
            still.is_stuck(busy).then(|| format!("runtime thread {at} is stuck in a task\n"))
        });
        let queues = self.queues.iter_mut().zip(&*queues).filter_map(|(still, (name, stalled))| {
            // A thread has two numbers, and a queue only one: its second is always zero.
            let taken = stalled().map(|taken| (taken, Duration::ZERO));
            still.is_stuck(taken).then(|| format!("no worker takes a key from the queue of {name}\n"))
        });
        threads.chain(queues).collect()
    }
}

/// Numbers that must not all stay the same.
#[derive(Default)]
struct Still {
    last: Option<(u64, Duration)>,
    looks: u32,
}

impl Still {
    /// Whether the last [`LIMIT`] looks saw no change since the look before them; `None` is always progress.
    fn is_stuck(&mut self, now: Option<(u64, Duration)>) -> bool {
        self.looks = if now.is_some() && now == self.last { self.looks + 1 } else { 0 };
        self.last = now;
        self.looks >= LIMIT
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc;

    use tokio::runtime::Runtime;

    use super::*;

    const THREADS: usize = 2;

    fn runtime() -> Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build().expect("a runtime")
    }

    /// Blocks a thread of the runtime until the returned sender is dropped; returns when it is blocked.
    fn block(runtime: &Runtime) -> mpsc::Sender<()> {
        let (release, released) = mpsc::channel::<()>();
        let (started, start) = mpsc::channel();
        runtime.spawn(async move {
            started.send(()).expect("the test waits");
            let _ = released.recv();
        });
        start.recv().expect("a free thread");
        release
    }

    /// Waits until this number of threads has no work.
    fn wait_idle(runtime: &Runtime, threads: usize) {
        let metrics = runtime.metrics();
        while (0..THREADS).filter(|at| !metrics.worker_park_unpark_count(*at).is_multiple_of(2)).count() < threads {
            std::thread::yield_now();
        }
    }

    #[test]
    fn thread_that_is_blocked_by_a_task_is_reported_until_it_goes_on() {
        let runtime = runtime();
        let liveness = Liveness::new(runtime.handle().clone());
        let mut watched = Watched::default();
        wait_idle(&runtime, THREADS);
        let mut looks = |count: u32| (0..count).map(|_| watched.look(&liveness)).last().expect("a look");
        assert!(looks(2 * LIMIT).is_empty(), "threads without work are not stuck");
        let blocked = block(&runtime);
        wait_idle(&runtime, THREADS - 1);
        assert!(looks(LIMIT).is_empty(), "not stuck for long enough");
        let found = looks(1);
        assert!(found.len() == 1 && found[0].starts_with("runtime thread "), "{found:?}");
        drop(blocked);
        wait_idle(&runtime, THREADS);
        assert!(looks(1).is_empty());
    }

    #[test]
    fn thread_that_is_blocked_with_the_runtimes_knowledge_is_not_stuck() {
        let runtime = runtime();
        let liveness = Liveness::new(runtime.handle().clone());
        let (release, released) = mpsc::channel::<()>();
        let (started, start) = mpsc::channel();
        runtime.spawn(async move {
            tokio::task::block_in_place(|| {
                started.send(()).expect("the test waits");
                let _ = released.recv();
            });
        });
        start.recv().expect("a free thread");
        // Another thread does the work of the blocked one.
        wait_idle(&runtime, THREADS);
        let mut watched = Watched::default();
        assert!((0..2 * LIMIT).all(|_| watched.look(&liveness).is_empty()));
        drop(release);
    }

    #[test]
    fn queue_with_waiting_keys_and_no_progress_is_reported() {
        let runtime = runtime();
        let liveness = Liveness::new(runtime.handle().clone());
        wait_idle(&runtime, THREADS);
        let taken = Arc::new(AtomicU64::new(0));
        let seen = taken.clone();
        liveness.follow("parents", move || Some(seen.load(Ordering::Relaxed)));
        let mut watched = Watched::default();
        for _ in 0..2 * LIMIT {
            taken.fetch_add(1, Ordering::Relaxed);
            assert!(watched.look(&liveness).is_empty(), "the workers take keys");
        }
        for _ in 1..LIMIT {
            assert!(watched.look(&liveness).is_empty());
        }
        assert_eq!(watched.look(&liveness), ["no worker takes a key from the queue of parents\n"]);
        taken.fetch_add(1, Ordering::Relaxed);
        assert!(watched.look(&liveness).is_empty());
    }
}
