//! Keys of several tenants in one group.

use super::*;

/// A key of a tenant, as the queue's tests number them.
fn of_tenant(tenant: u32, key: u32) -> u32 {
    tenant * 10_000 + key
}

#[test]
fn tenant_whose_runs_do_not_end_leaves_a_place_to_the_other_tenants_of_its_group() {
    let mut queue = Harness::new();
    let (hanging, other, third) = (1, 2, 3);
    for key in 0..100 {
        queue.add("a", of_tenant(hanging, key), Trigger::Changed);
    }
    queue.add("a", of_tenant(other, 0), Trigger::Resync);
    let mut running: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
    let hang = |running: &[Job<&str, u32>]| running.iter().filter(|job| job.key / 10_000 == hanging).count();
    assert_eq!((running.len(), hang(&running)), (15, 14), "the last place is for a tenant that has none");
    for (tenant, key) in [(other, 1), (third, 0), (third, 1), (other, 2)] {
        queue.add("a", of_tenant(tenant, key), Trigger::Event);
    }
    let mut ran = Vec::new();
    while let Some(at) = running.iter().position(|job| job.key / 10_000 != hanging) {
        let job = running.remove(at);
        ran.push(job.key);
        queue.done(&job, Requeue::WhenChanged);
        running.extend(std::iter::from_fn(|| queue.next()));
        assert!(!queue.state.wants_worker(), "no worker is woken in vain");
    }
    let keys = [(other, 0), (other, 1), (third, 0), (other, 2), (third, 1)].map(|(tenant, key)| of_tenant(tenant, key));
    assert_eq!(ran, keys, "each tenant in its turn");
    assert_eq!((queue.key(), hang(&running)), (None, 15));
    let job = running.pop().expect("running");
    queue.done(&job, Requeue::WhenChanged);
    assert_eq!(queue.key(), Some(of_tenant(hanging, 15)), "the keys of the tenant have kept their order");
}

#[test]
fn tenant_that_is_alone_in_its_group_takes_all_its_places() {
    let mut queue = Harness::new();
    for key in 0..100 {
        queue.add("a", key, Trigger::Event);
    }
    assert_eq!(std::iter::from_fn(|| queue.next()).count(), 16);
    // A tenant whose last key was removed leaves nothing.
    let mut queue = Harness::new();
    queue.add("a", of_tenant(1, 0), Trigger::Event);
    queue.forget("a", of_tenant(1, 0));
    let gone = of_tenant(2, 0);
    queue.add("a", gone, Trigger::Event);
    let job = queue.next().expect("ready");
    queue.done(&job, Requeue::Gone);
    for key in 0..100 {
        queue.add("a", key, Trigger::Event);
    }
    assert_eq!(std::iter::from_fn(|| queue.next()).count(), 16);
}

#[test]
fn group_with_one_place_runs_the_keys_of_all_its_tenants() {
    let mut queue = Harness::new();
    queue.state.set_concurrency(&"a", 1);
    for tenant in [1, 2, 1] {
        queue.add("a", of_tenant(tenant, tenant), Trigger::Event);
    }
    for tenant in [1, 2] {
        let job = queue.next().expect("ready");
        assert_eq!((job.key, queue.next()), (of_tenant(tenant, tenant), None));
        queue.done(&job, Requeue::WhenChanged);
    }
}

#[test]
fn group_whose_lanes_have_only_stale_places_waits_for_no_worker() {
    let mut queue = Harness::new();
    queue.state.set_concurrency(&"a", 1);
    queue.add("a", of_tenant(2, 1), Trigger::Event);
    let other = queue.next().expect("ready");
    queue.add("a", of_tenant(1, 1), Trigger::Sweep);
    queue.add("a", of_tenant(1, 1), Trigger::Event);
    queue.done(&other, Requeue::WhenChanged);
    let job = queue.next().expect("ready");
    queue.done(&job, Requeue::WhenChanged);
    assert_eq!((queue.key(), queue.state.stalled(queue.now)), (None, None));
}

#[test]
fn tenants_of_a_group_take_turns() {
    let mut queue = Harness::new();
    queue.state.set_concurrency(&"a", 1);
    for (tenant, key) in (0..100).map(|key| (1, key)).chain((0..3).map(|key| (2, key))).chain([(3, 0)]) {
        queue.add("a", of_tenant(tenant, key), Trigger::Changed);
    }
    let mut ran = Vec::new();
    while ran.len() < 8 {
        let job = queue.next().expect("ready");
        ran.push((job.key / 10_000, job.key % 10_000));
        queue.done(&job, Requeue::WhenChanged);
    }
    assert_eq!(ran, [(1, 0), (2, 0), (3, 0), (1, 1), (2, 1), (1, 2), (2, 2), (1, 3)]);
}

/// The keys of a group with this concurrency by the rules.
#[derive(Default)]
struct Model {
    concurrency: usize,
    /// The keys that are ready, and whether they are urgent.
    ready: HashMap<u32, bool>,
    /// Of the keys that are not urgent, and of those that are: the tenants in turn, each with its keys in their order.
    lanes: [Vec<(u32, Vec<u32>)>; 2],
    running: Vec<u32>,
    urgent_in_row: u8,
}

impl Model {
    fn add(&mut self, key: u32, is_urgent: bool) {
        let (tenant, lane) = (key / 10_000, &mut self.lanes[usize::from(is_urgent)]);
        self.ready.insert(key, is_urgent);
        match lane.iter_mut().find(|(known, _)| *known == tenant) {
            Some((_, keys)) => keys.push(key),
            None => lane.push((tenant, vec![key])),
        }
    }

    fn take(&mut self, is_urgent: bool) -> Option<u32> {
        let is_for_others = self.running.len() + 1 >= self.concurrency;
        let is_busy = |tenant: u32| self.running.iter().any(|running| running / 10_000 == tenant);
        let lane = &mut self.lanes[usize::from(is_urgent)];
        loop {
            let at = lane.iter().position(|(tenant, _)| !(is_for_others && is_busy(*tenant)))?;
            let (tenant, mut keys) = lane.remove(at);
            let key = keys.iter().position(|key| self.ready.get(key) == Some(&is_urgent));
            let key = key.map(|at| keys.drain(..=at).next_back().expect("it was found"));
            if key.is_some() && !keys.is_empty() {
                lane.push((tenant, keys));
            }
            if key.is_some() {
                return key;
            }
        }
    }

    fn next(&mut self) -> Option<u32> {
        if self.running.len() >= self.concurrency {
            return None;
        }
        let ages = self.urgent_in_row >= AGEING - 1;
        let key = self.take(!ages).or_else(|| self.take(ages))?;
        let is_urgent = self.ready.remove(&key)?;
        self.urgent_in_row = if is_urgent { self.urgent_in_row.saturating_add(1) } else { 0 };
        self.running.push(key);
        Some(key)
    }

    fn end(&mut self, key: u32) {
        self.running.retain(|running| *running != key);
    }
}

#[test]
fn keys_of_tenants_that_come_and_go_run_in_the_order_of_the_rules() {
    for concurrency in [1, 2, 4] {
        let mut random = fastrand::Rng::with_seed(7);
        let (mut queue, mut model) = (Harness::new(), Model { concurrency, ..Model::default() });
        queue.state.set_concurrency(&"a", concurrency);
        let mut jobs = Vec::new();
        for key in 0..9000 {
            // The first keys are of all tenants; then the first tenant has most of them.
            let tenant = if key < 5 { key } else { random.u32(0..9).saturating_sub(4) };
            let urgent = random.bool();
            queue.add("a", of_tenant(tenant, key), if urgent { Trigger::Event } else { Trigger::Resync });
            model.add(of_tenant(tenant, key), urgent);
            let mut patient: Vec<_> = model.ready.iter().filter(|(_, urgent)| !**urgent).map(|(key, _)| *key).collect();
            patient.sort_unstable();
            if let Some(key) = patient.get(random.usize(0..50)).filter(|_| key % 5 == 0) {
                model.add(*key, true);
                queue.add("a", *key, Trigger::Event);
            }
            let job = queue.next();
            assert_eq!(job.as_ref().map(|job| job.key), model.next(), "concurrency {concurrency}, after key {key}");
            jobs.extend(job);
            if !jobs.is_empty() && random.bool() {
                let job = jobs.swap_remove(random.usize(0..jobs.len()));
                model.end(job.key);
                queue.done(&job, Requeue::WhenChanged);
            }
        }
    }
}
