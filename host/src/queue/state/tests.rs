use super::*;

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

    fn end(&mut self, job: &Job<&'static str, u32>, requeue: Requeue, chance: f64) {
        self.state.done(job, End { requeue, resync: RESYNC, aside: false }, self.now, chance);
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
fn r02_a_key_never_runs_twice_at_once_and_a_change_during_a_run_queues_one_more() {
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
    assert_eq!(queue.next(), None, "not two more");
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
        queue.add("a", 1, Trigger::Fresh);
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
fn r13_keys_that_the_api_server_made_fail_come_back_within_seconds_unless_there_are_thousands() {
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
    assert_eq!(fail(&mut queue, Requeue::Unavailable(Duration::from_secs(40))), 40, "as the API server asked");
    assert_eq!(fail(&mut queue, BACKOFF), 256, "what is the key's own fault waits as ever");
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
fn r13_a_retry_after_is_honoured() {
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
fn r13_a_settled_key_comes_back_after_what_the_plugin_asked_or_the_resync() {
    let mut queue = Harness::new();
    for (asked, wait) in [(Some(Duration::from_secs(7)), 7), (None, 600)] {
        queue.add("a", 1, Trigger::Event);
        let job = queue.next().expect("ready");
        queue.done(&job, Requeue::Settled(asked));
        queue.pass(Duration::from_secs(wait - 1));
        assert_eq!(queue.next(), None);
        queue.pass(Duration::from_secs(1));
        let job = queue.next().expect("due");
        assert_eq!(job.trigger, Trigger::Resync);
        queue.done(&job, Requeue::WhenChanged);
        queue.pass(Duration::from_secs(10_000));
        assert_eq!(queue.next(), None, "only a change wakes it");
    }
}

#[test]
fn r13_keys_that_pause_for_the_same_moment_do_not_come_back_in_it_nor_before() {
    let mut queue = Harness::new();
    let pause = Duration::from_mins(1);
    let mut waits = Vec::new();
    for (key, chance) in [(1, 0.0), (2, 0.5), (3, 1.0)] {
        queue.add("a", key, Trigger::Event);
        let job = queue.next().expect("ready");
        queue.end(&job, Requeue::Pause(pause), chance);
        waits.push(queue.entry("a", key).due.expect("a time").0 - queue.now);
    }
    assert_eq!(waits, [60, 63, 66].map(Duration::from_secs));
    queue.add("a", 4, Trigger::Event);
    let job = queue.next().expect("ready");
    queue.end(&job, Requeue::Pause(Duration::ZERO), 1.0);
    assert_eq!(queue.key(), Some(4), "no pause is none");
}

#[test]
fn groups_take_turns_and_none_runs_more_than_its_share() {
    let mut queue = Harness::new();
    queue.state.set_concurrency(&"big", 2);
    for key in 0..100 {
        queue.add("big", key, Trigger::Event);
    }
    queue.add("small", 7, Trigger::Event);
    let first = queue.next().expect("ready");
    assert_eq!(queue.next().map(|job| job.group), Some("small"), "one key of a flood, then the neighbour");
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
fn a_first_list_is_not_urgent_and_forgets_failures() {
    let mut queue = Harness::new();
    queue.add("a", 1, Trigger::Event);
    let job = queue.next().expect("ready");
    queue.done(&job, BACKOFF);
    queue.add("a", 1, Trigger::Sweep);
    queue.add("a", 2, Trigger::Event);
    assert_eq!([queue.key(), queue.key()], [Some(2), Some(1)], "no backoff holds it, and an event is served first");
}

#[test]
fn however_many_groups_are_busy_a_group_that_has_no_worker_finds_one() {
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
fn new_logic_that_comes_while_a_key_runs_is_not_lost_to_the_runs_end() {
    let mut queue = Harness::new();
    queue.add("a", 1, Trigger::Event);
    let job = queue.next().expect("ready");
    queue.state.add_at(&"a", &1, Trigger::Fresh, queue.now + Duration::from_millis(200));
    queue.done(&job, Requeue::Settled(None));
    queue.pass(Duration::from_millis(200));
    assert_eq!(queue.next().map(|job| job.trigger), Some(Trigger::Fresh));
}

#[test]
fn a_key_that_comes_back_while_its_forgotten_run_ends_is_not_lost() {
    let mut queue = Harness::new();
    queue.add("a", 1, Trigger::Event);
    let job = queue.next().expect("ready");
    queue.state.forget_group(&"a");
    queue.state.add_at(&"a", &1, Trigger::Fresh, queue.now);
    queue.done(&job, Requeue::Settled(None));
    assert_eq!(queue.key(), Some(1));
}

#[test]
fn a_group_keeps_its_concurrency_when_its_last_key_goes() {
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
fn overtaken_timers_and_endless_waits_cost_nothing() {
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
fn a_key_whose_run_finds_it_gone_leaves_nothing_behind_unless_it_came_back_meanwhile() {
    let mut queue = Harness::new();
    for comes_back in [true, false] {
        queue.add("a", 1, Trigger::Fresh);
        let job = queue.next().expect("ready");
        if comes_back {
            queue.add("a", 1, Trigger::Fresh);
        }
        queue.done(&job, Requeue::Gone);
        assert_eq!(queue.state.entries.len(), usize::from(comes_back));
        if comes_back {
            let again = queue.next().expect("it came back");
            queue.done(&again, Requeue::WhenChanged);
        }
    }
}

#[test]
fn a_forgotten_key_leaves_nothing_behind() {
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
fn a_time_that_was_set_for_a_forgotten_key_does_not_bring_it_back() {
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
fn a_forgotten_keys_place_in_a_lane_serves_nobody_else() {
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
fn a_key_that_became_urgent_uses_up_no_turn_of_those_that_are_not() {
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
fn keys_that_come_back_at_some_moment_of_a_span_come_in_crowds_all_over_it() {
    let mut queue = Harness::new();
    queue.pass(Duration::from_millis(1234));
    let span = Duration::from_secs(2);
    let moment = |nth| queue.state.moment(queue.now, span, f64::from(nth) / 10_000.0) - queue.now;
    let mut moments: Vec<_> = (0..10_000).map(moment).collect();
    assert!(moments.iter().all(|moment| *moment < span));
    assert!(moments.is_sorted(), "as chance has it");
    moments.dedup();
    assert!((64..=66).contains(&moments.len()), "{}", moments.len());
    assert!(moments.windows(2).all(|pair| pair[1] <= pair[0] + span / 64));
}

#[test]
fn r13_a_resync_comes_at_its_time_give_or_take_a_tenth() {
    let mut queue = Harness::new();
    for (key, chance, early, late) in [(1, 0.0, 540, 541), (2, 0.5, 599, 600), (3, 1.0, 659, 660)] {
        queue.pass(Duration::from_millis(77));
        queue.add("a", key, Trigger::Event);
        let job = queue.next().expect("ready");
        queue.end(&job, Requeue::Settled(None), chance);
        let wait = queue.entry("a", key).due.expect("a time").0 - queue.now;
        assert!((early..=late).contains(&wait.as_secs()), "{wait:?}");
    }
}
