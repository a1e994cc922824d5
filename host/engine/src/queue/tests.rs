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
