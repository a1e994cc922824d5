//! The rules of the queue, with times that the tests set.

use super::group::AGEING;
use super::*;

mod tenants;

const RESYNC: Duration = Duration::from_mins(10);

struct Harness {
    state: State<&'static str, u32>,
    now: Instant,
}

impl Harness {
    fn new() -> Self {
        let now = Instant::now();
        Self { state: State::new(64, 16, Busy { of_all: 2, of_group: 1 }, now), now }
    }

    fn add(&mut self, group: &'static str, key: u32, trigger: Trigger) {
        self.state.add(&group, &key, trigger, self.now);
    }

    fn next(&mut self) -> Option<Job<&'static str, u32>> {
        self.state.next(self.now)
    }

    fn key(&mut self) -> Option<u32> {
        self.next().map(|job| job.key)
    }

    fn done(&mut self, job: &Job<&'static str, u32>, requeue: Requeue) {
        self.end(job, requeue, 0.5);
    }

    fn end(&mut self, job: &Job<&'static str, u32>, requeue: Requeue, random: f64) {
        self.state.done(job, End { requeue, resync: RESYNC, aside: false }, self.now, random);
    }

    fn forget(&mut self, group: &'static str, key: u32) {
        let place = self.state.entry(&group, &key);
        self.state.forget(place);
    }

    fn entry(&mut self, group: &'static str, key: u32) -> &Entry<u32> {
        let place = self.state.entry(&group, &key);
        &self.state.entries[place]
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }
}

const BACKOFF: Requeue = Requeue::Backoff(Duration::ZERO);

#[test]
fn r02_key_never_runs_twice_at_once_and_changes_during_a_run_queue_one_more() {
    let mut queue = Harness::new();
    queue.add("a", 1, Trigger::Event);
    queue.add("a", 1, Trigger::Event);
    let job = queue.next().expect("ready");
    assert_eq!(queue.next(), None);
    queue.add("a", 1, Trigger::Event);
    queue.add("a", 1, Trigger::Event);
    assert_eq!(queue.next(), None, "still running");
    queue.done(&job, Requeue::Settled(None));
    let again = queue.next().expect("one more");
    queue.done(&again, Requeue::Settled(None));
    assert_eq!(queue.next(), None, "only one more run is queued");
}

#[test]
fn state_of_a_group_has_its_ready_and_running_keys_and_their_times() {
    let mut queue = Harness::new();
    for key in 1..=3 {
        queue.add("a", key, Trigger::Resync);
    }
    queue.pass(Duration::from_secs(2));
    // A key that becomes urgent was ready before.
    queue.add("a", 2, Trigger::Event);
    let first = queue.next().expect("ready");
    assert_eq!((first.key, first.waited), (2, Duration::from_secs(2)));
    queue.pass(Duration::from_secs(1));
    let second = queue.next().expect("ready");
    queue.pass(Duration::from_secs(4));
    let expected = QueueState {
        ready: 1,
        running: 2,
        concurrency: 16,
        adds: 3,
        retries: 0,
        unfinished: Duration::from_secs(9),
        longest: Duration::from_secs(5),
    };
    assert_eq!(queue.state.groups(queue.now), [("a", expected.clone())]);
    queue.done(&first, BACKOFF);
    queue.done(&second, Requeue::WhenChanged);
    let none = Duration::ZERO;
    let after = QueueState { running: 0, retries: 1, unfinished: none, longest: none, ..expected };
    assert_eq!(queue.state.groups(queue.now), [("a", after)]);
    queue.state.forget_group(&"a");
    assert_eq!(queue.state.groups(queue.now), []);
}

#[test]
fn r13_failures_back_off_from_one_second_to_five_minutes() {
    let mut queue = Harness::new();
    queue.add("a", 1, Trigger::Event);
    let mut waits = Vec::new();
    for _ in 0..11 {
        let job = queue.next().expect("due");
        queue.done(&job, BACKOFF);
        let due = queue.state.next_due().expect("a timer");
        waits.push((due - queue.now).as_secs());
        queue.now = due;
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
}

#[test]
fn r13_events_wait_for_the_backoff_but_a_new_generation_runs_now_and_resets_it() {
    let mut queue = Harness::new();
    for _ in 0..3 {
        queue.add("a", 1, Trigger::Changed);
        let job = queue.next().expect("fresh runs now");
        queue.done(&job, BACKOFF);
        assert_eq!(queue.state.next_due().map(|due| due - queue.now), Some(Duration::from_secs(1)));
        queue.add("a", 1, Trigger::Event);
        assert_eq!(queue.next(), None, "an event waits");
    }
    queue.pass(Duration::from_secs(1));
    assert_eq!(queue.key(), Some(1), "until the backoff has ended");
}

#[test]
fn r13_keys_that_the_api_server_failed_are_retried_within_seconds_unless_they_are_thousands() {
    let unavailable = Requeue::Unavailable(Duration::ZERO);
    let mut queue = Harness::new();
    let fail = |queue: &mut Harness, requeue: Requeue| {
        let job = queue.next().expect("due");
        queue.done(&job, requeue);
        let due = queue.state.next_due().expect("a timer");
        let wait = due - queue.now;
        queue.now = due;
        wait.as_secs()
    };
    queue.add("a", 1, Trigger::Event);
    let waits: Vec<_> = (0..7).map(|_| fail(&mut queue, unavailable)).collect();
    assert_eq!(waits, [1, 2, 4, 8, 15, 15, 15]);
    assert_eq!(
        fail(&mut queue, Requeue::Unavailable(Duration::from_secs(40))),
        40,
        "the wait that the API server requested"
    );
    assert_eq!(fail(&mut queue, BACKOFF), 256, "a failure of the key itself waits for the full backoff");
    assert_eq!((queue.state.unavailable, fail(&mut queue, unavailable)), (0, 15));

    // With many keys, all of them together send as many requests.
    let mut queue = Harness::new();
    for key in 0..3000 {
        queue.add("a", key, Trigger::Event);
    }
    for failures in 0..8 {
        for _ in 0..3000 {
            let job = queue.next().unwrap_or_else(|| {
                queue.now = queue.state.next_due().expect("a timer");
                queue.next().expect("due")
            });
            queue.done(&job, unavailable);
        }
        assert_eq!(queue.state.unavailable, 3000, "{failures}");
    }
    let job = queue.next().unwrap_or_else(|| {
        queue.now = queue.state.next_due().expect("a timer");
        queue.next().expect("due")
    });
    queue.done(&job, unavailable);
    let entry_due = queue.entry("a", job.key).due.expect("a time").0;
    assert_eq!((entry_due - queue.now).as_secs(), 60);
}

#[test]
fn r13_retry_after_is_honoured() {
    let mut queue = Harness::new();
    queue.add("a", 1, Trigger::Event);
    let job = queue.next().expect("ready");
    queue.done(&job, Requeue::Backoff(Duration::from_secs(30)));
    queue.pass(Duration::from_secs(29));
    assert_eq!(queue.next(), None);
    queue.pass(Duration::from_secs(1));
    assert_eq!(queue.key(), Some(1));
}

#[test]
fn r13_converged_key_runs_again_after_the_plugins_requeue_time_or_the_resync() {
    let mut queue = Harness::new();
    for (requested, wait) in [(Some(Duration::from_secs(7)), 7), (None, 600)] {
        queue.add("a", 1, Trigger::Event);
        let job = queue.next().expect("ready");
        queue.done(&job, Requeue::Settled(requested));
        queue.pass(Duration::from_secs(wait - 1));
        assert_eq!(queue.next(), None);
        queue.pass(Duration::from_secs(1));
        let job = queue.next().expect("due");
        assert_eq!(job.trigger, Trigger::Resync);
        queue.done(&job, Requeue::WhenChanged);
        queue.pass(Duration::from_secs(10_000));
        assert_eq!(queue.next(), None, "only a change runs the key");
    }
}

#[test]
fn failure_and_pause_are_not_called_a_resync() {
    let second = Duration::from_secs(1);
    for (requeue, trigger) in [
        (Requeue::Backoff(second), Trigger::Retry),
        (Requeue::Unavailable(second), Trigger::Retry),
        (Requeue::Pause(second), Trigger::Pause),
        (Requeue::After(second), Trigger::Pause),
        (Requeue::Settled(Some(second)), Trigger::Resync),
        (Requeue::Settled(None), Trigger::Resync),
    ] {
        let mut queue = Harness::new();
        queue.add("a", 1, Trigger::Event);
        let job = queue.next().expect("ready");
        queue.done(&job, requeue);
        queue.pass(Duration::from_secs(10_000));
        assert_eq!(queue.next().map(|job| job.trigger), Some(trigger), "{requeue:?}");
    }
}

#[test]
fn r13_keys_with_the_same_pause_come_back_spread_out_and_never_early() {
    let mut queue = Harness::new();
    let pause = Duration::from_mins(1);
    let mut waits = Vec::new();
    for (key, random) in [(1, 0.0), (2, 0.5), (3, 1.0)] {
        queue.add("a", key, Trigger::Event);
        let job = queue.next().expect("ready");
        queue.end(&job, Requeue::Pause(pause), random);
        waits.push(queue.entry("a", key).due.expect("a time").0 - queue.now);
    }
    assert_eq!(waits, [60, 63, 66].map(Duration::from_secs));
    queue.add("a", 4, Trigger::Event);
    let job = queue.next().expect("ready");
    queue.end(&job, Requeue::Pause(Duration::ZERO), 1.0);
    assert_eq!(queue.key(), Some(4), "a pause of zero runs at once");
}

#[test]
fn groups_take_turns_and_none_exceeds_its_concurrency() {
    let mut queue = Harness::new();
    queue.state.set_concurrency(&"big", 2);
    for key in 0..100 {
        queue.add("big", key, Trigger::Event);
    }
    queue.add("small", 7, Trigger::Event);
    let first = queue.next().expect("ready");
    assert_eq!(queue.next().map(|job| job.group), Some("small"), "one key of the big group, then the small group");
    assert!(queue.next().is_some());
    assert_eq!(queue.next(), None, "two of the big group run already");
    queue.done(&first, Requeue::WhenChanged);
    assert!(queue.next().is_some());
}

#[test]
fn fresh_events_run_before_a_resync() {
    let mut queue = Harness::new();
    queue.add("a", 1, Trigger::Resync);
    queue.add("a", 2, Trigger::Resync);
    queue.add("a", 3, Trigger::Event);
    queue.add("a", 2, Trigger::Event);
    assert_eq!([queue.key(), queue.key(), queue.key(), queue.key()], [Some(3), Some(2), Some(1), None]);
}

#[test]
fn a_resync_runs_even_while_events_never_end() {
    let mut queue = Harness::new();
    queue.add("a", 1, Trigger::Resync);
    let mut ran = Vec::new();
    for key in 2..30 {
        queue.add("a", key, Trigger::Event);
        queue.add("a", key + 100, Trigger::Event);
        let job = queue.next().expect("ready");
        ran.push(job.key);
        queue.done(&job, Requeue::WhenChanged);
    }
    assert_eq!(ran.iter().position(|key| *key == 1), Some(usize::from(AGEING) - 1), "{ran:?}");
}

#[test]
fn first_list_is_less_urgent_than_an_event_and_ends_the_backoff() {
    let mut queue = Harness::new();
    queue.add("a", 1, Trigger::Event);
    let job = queue.next().expect("ready");
    queue.done(&job, BACKOFF);
    queue.add("a", 1, Trigger::Sweep);
    queue.add("a", 2, Trigger::Event);
    assert_eq!([queue.key(), queue.key()], [Some(2), Some(1)], "the backoff has ended, and an event runs first");
}

#[test]
fn group_without_a_worker_gets_one_however_many_groups_are_busy() {
    let mut queue = Harness::new();
    let busy = ["a", "b", "c", "d", "e"];
    for group in busy {
        queue.state.set_concurrency(&group, 64);
        for key in 0..100 {
            queue.add(group, key, Trigger::Event);
        }
    }
    let mut running: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
    let of = |running: &[Job<&str, u32>], group| running.iter().filter(|job| job.group == group).count();
    let shares: Vec<_> = busy.iter().map(|group| of(&running, *group)).collect();
    assert!(shares.iter().all(|share| (9..=11).contains(share)), "an even share each: {shares:?}");
    queue.add("quiet", 1, Trigger::Event);
    assert_eq!(queue.next().map(|job| job.group), Some("quiet"));
    // A group that is alone again takes half of all workers.
    for job in running.extract_if(.., |job| job.group != "a") {
        queue.state.forget_group(&job.group);
        queue.done(&job, Requeue::WhenChanged);
    }
    running.extend(std::iter::from_fn(|| queue.next()));
    assert!((30..=32).contains(&of(&running, "a")), "{}", of(&running, "a"));
}

#[test]
fn new_component_that_arrives_during_a_run_still_runs_the_key_again() {
    let mut queue = Harness::new();
    queue.add("a", 1, Trigger::Event);
    let job = queue.next().expect("ready");
    queue.state.add_at(&"a", &1, Trigger::Changed, queue.now + Duration::from_millis(200));
    queue.done(&job, Requeue::Settled(None));
    queue.pass(Duration::from_millis(200));
    assert_eq!(queue.next().map(|job| job.trigger), Some(Trigger::Changed));
}

#[test]
fn key_that_is_added_again_while_its_forgotten_run_ends_is_not_lost() {
    let mut queue = Harness::new();
    queue.add("a", 1, Trigger::Event);
    let job = queue.next().expect("ready");
    queue.state.forget_group(&"a");
    queue.state.add_at(&"a", &1, Trigger::Changed, queue.now);
    queue.done(&job, Requeue::Settled(None));
    assert_eq!(queue.key(), Some(1));
}

#[test]
fn group_keeps_its_concurrency_when_its_last_key_is_removed() {
    let mut queue = Harness::new();
    queue.state.set_concurrency(&"a", 1);
    queue.add("a", 1, Trigger::Event);
    let job = queue.next().expect("ready");
    queue.forget("a", 1);
    queue.done(&job, BACKOFF);
    queue.add("a", 2, Trigger::Event);
    queue.add("a", 3, Trigger::Event);
    assert!(queue.next().is_some() && queue.next().is_none());
}

#[test]
fn replaced_timers_and_endless_waits_are_not_kept() {
    let mut queue = Harness::new();
    for _ in 0..10_000 {
        queue.add("a", 1, Trigger::Event);
        let job = queue.next().expect("ready");
        queue.done(&job, Requeue::Settled(Some(Duration::MAX)));
        queue.pass(Duration::from_millis(1));
    }
    assert_eq!(queue.state.timers.len(), 1);
}

#[test]
fn key_that_is_gone_after_its_run_leaves_no_entry_unless_it_was_added_again() {
    let mut queue = Harness::new();
    for comes_back in [true, false] {
        queue.add("a", 1, Trigger::Changed);
        let job = queue.next().expect("ready");
        if comes_back {
            queue.add("a", 1, Trigger::Changed);
        }
        queue.done(&job, Requeue::Gone);
        assert_eq!(queue.state.entries.len(), usize::from(comes_back));
        if comes_back {
            let again = queue.next().expect("the key was added again");
            queue.done(&again, Requeue::WhenChanged);
        }
    }
}

#[test]
fn forgotten_key_leaves_no_entry() {
    let mut queue = Harness::new();
    queue.add("a", 1, Trigger::Event);
    queue.forget("a", 1);
    assert_eq!(queue.next(), None);
    queue.add("a", 2, Trigger::Event);
    let job = queue.next().expect("ready");
    queue.forget("a", 2);
    queue.done(&job, BACKOFF);
    queue.pass(Duration::from_secs(1000));
    assert_eq!(queue.next(), None);
    assert!(queue.state.entries.is_empty());
}

#[test]
fn timer_of_a_forgotten_key_does_not_run_it() {
    let mut queue = Harness::new();
    queue.add("a", 1, Trigger::Event);
    let job = queue.next().expect("ready");
    queue.state.add_at(&"a", &1, Trigger::Sweep, queue.now + Duration::from_secs(1));
    queue.state.forget_group(&"a");
    queue.pass(Duration::from_secs(2));
    assert_eq!(queue.next(), None);
    queue.done(&job, BACKOFF);
    assert!(queue.state.entries.is_empty() && queue.state.groups.is_empty());
}

#[test]
fn forgotten_keys_place_in_a_lane_runs_no_other_key() {
    let mut queue = Harness::new();
    queue.add("a", 1, Trigger::Event);
    queue.forget("a", 1);
    queue.add("b", 2, Trigger::Event);
    queue.add("a", 3, Trigger::Event);
    let mut keys = [queue.next(), queue.next()].map(|job| job.map(|job| (job.group, job.key)));
    keys.sort_unstable();
    assert_eq!(keys, [Some(("a", 3)), Some(("b", 2))]);
    assert_eq!(queue.next(), None);
}

#[test]
fn key_that_became_urgent_takes_no_turn_from_less_urgent_keys() {
    let mut queue = Harness::new();
    queue.add("a", 1, Trigger::Resync);
    queue.add("a", 2, Trigger::Resync);
    queue.add("a", 1, Trigger::Event);
    for key in 11..20 {
        queue.add("a", key, Trigger::Event);
    }
    let keys: Vec<_> = std::iter::from_fn(|| queue.key()).take(8).collect();
    assert_eq!(keys, [1, 11, 12, 13, 14, 15, 16, 2]);
}

#[test]
fn keys_spread_over_a_span_share_wake_ups_across_the_whole_span() {
    let mut queue = Harness::new();
    queue.pass(Duration::from_millis(1234));
    let span = Duration::from_secs(2);
    let moment = |nth| queue.state.moment(queue.now, span, f64::from(nth) / 10_000.0) - queue.now;
    let mut moments: Vec<_> = (0..10_000).map(moment).collect();
    assert!(moments.iter().all(|moment| *moment < span));
    assert!(moments.is_sorted(), "moments grow with the random number");
    moments.dedup();
    assert!((64..=66).contains(&moments.len()), "{}", moments.len());
    assert!(moments.windows(2).all(|pair| pair[1] <= pair[0] + span / 64));
}

#[test]
fn r13_resync_has_a_jitter_of_ten_percent() {
    let mut queue = Harness::new();
    for (key, random, early, late) in [(1, 0.0, 540, 541), (2, 0.5, 599, 600), (3, 1.0, 659, 660)] {
        queue.pass(Duration::from_millis(77));
        queue.add("a", key, Trigger::Event);
        let job = queue.next().expect("ready");
        queue.end(&job, Requeue::Settled(None), random);
        let wait = queue.entry("a", key).due.expect("a time").0 - queue.now;
        assert!((early..=late).contains(&wait.as_secs()), "{wait:?}");
    }
}

#[test]
fn waiting_keys_that_no_worker_takes_are_noticed() {
    let mut queue = Harness::new();
    assert_eq!(queue.state.stalled(queue.now), None, "no key waits");
    queue.add("a", 1, Trigger::Event);
    queue.add("a", 2, Trigger::Event);
    assert_eq!(queue.state.stalled(queue.now), Some(0));
    let job = queue.next().expect("ready");
    assert_eq!(queue.state.stalled(queue.now), None, "a worker has taken a key, and may take the other one later");
    queue.done(&job, Requeue::WhenChanged);
    assert_eq!(queue.state.stalled(queue.now), Some(1));
    let job = queue.next().expect("ready");
    queue.done(&job, Requeue::After(Duration::from_secs(1)));
    assert_eq!(queue.state.stalled(queue.now), None, "no key is due");
    queue.pass(Duration::from_secs(2));
    assert_eq!(queue.state.stalled(queue.now), Some(2), "a timer did not wake a worker");
}
