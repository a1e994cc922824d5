//! Limits writes to an object to one per minute if the object is written too often, until five minutes pass without an
//! attempted write (rule R18). Without the limit, the host and another writer would undo each other's changes forever.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

use crate::ids::{Gvk, ObjectKey};
use crate::json::{Map, Value};
use crate::object::Object;
use crate::plan::{ChildId, Plan};
use crate::snapshot::Snapshot;

/// Number of writes to one object that are allowed within one [`WINDOW`]; the next one trips the breaker.
const WRITES: usize = 10;
const WINDOW: Duration = Duration::from_mins(1);
/// Minimum time between two writes to an object whose breaker is tripped.
pub const PACE: Duration = Duration::from_mins(1);
/// A tripped breaker is reset after this time without an attempted write.
const QUIET: Duration = Duration::from_mins(5);
/// Maximum number of objects in each of `younger` and `older`. When `younger` is full, it becomes `older`, and the
/// former `older` is dropped. An object that thrashes is written so often that it
/// returns to `younger` before `older` is dropped.
const OBJECTS_MAX: usize = 1 << 16;

/// Counts the recent writes to each object, separately for each generation of its parent.
///
/// Writes are counted per parent: the same object, written as a child of another parent, is counted separately. Objects
/// are identified by name, since an object that is deleted and created again and again has a new UID each time.
#[derive(Debug, Default)]
pub struct Breaker {
    /// Makes keys small, and unpredictable from outside.
    hasher: RandomState,
    /// Objects written in this window.
    younger: HashMap<u64, Writes>,
    /// Objects written in the previous window, and not since.
    older: HashMap<u64, Writes>,
    /// Start of this window.
    since: Option<Instant>,
    /// Objects whose breaker is tripped. The map needs no limit: an object is here only after more than [`WRITES`]
    /// writes in one minute, so the host's write rate bounds the number of entries.
    tripped: HashMap<u64, Tripped>,
}

/// Whether a status may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusPass {
    /// Write it unchanged.
    Write,
    /// Write it with the reason `Thrashing`.
    WriteThrashing,
    /// Do not write it before this time has passed.
    Wait(Duration),
}

#[derive(Debug)]
struct Writes {
    last: Instant,
    /// Earlier writes, oldest first, fewer than [`WRITES`]. Most objects have none, which costs no allocation.
    before: Vec<Instant>,
}

#[derive(Debug)]
struct Tripped {
    /// Time of the last admitted write.
    last_write: Instant,
    /// Time of the last attempted write, admitted or not.
    last_attempt: Instant,
    /// Hash of the desired status at the last attempt that counted; `None` before the first, or if another writer removed
    /// the reason `Thrashing`.
    desired_status: Option<u64>,
}

impl Breaker {
    /// Admits and counts a write to a child of this parent, or to the parent itself (its finalizers).
    ///
    /// # Errors
    /// The object is written too often; returns the time until the write is allowed.
    pub fn admit(&mut self, parent: &Object, kind: &Gvk, key: &ObjectKey, now: Instant) -> Result<(), Duration> {
        self.admit_subject(self.hasher.hash_one((&parent.uid, parent.generation, &kind.group, &kind.kind, key)), now)
    }

    /// Counts a write to a parent's own status.
    ///
    /// A status that reflects its children may be written as often as the children change, so each state of the
    /// children is counted separately. The breaker trips on a status that keeps changing while nothing else does.
    ///
    /// While the breaker is tripped, the status in the API server has the reason `Thrashing`, so it never equals the
    /// desired status. Then, and only then, `desired_status` is called. It returns the status that would be written
    /// without the reason `Thrashing`, or `None` if the present status does not have that reason (another writer
    /// removed it). If it equals the one of the previous attempt, nothing changes any more, so this attempt does not
    /// restart the quiet period.
    pub fn admit_status(
        &mut self,
        snapshot: &Snapshot,
        desired_status: impl FnOnce() -> Option<Map>,
        now: Instant,
    ) -> StatusPass {
        let parent = &snapshot.parent;
        let seen: Vec<_> = snapshot.children.iter().map(|child| child.content).collect();
        let subject = self.hasher.hash_one((&parent.uid, parent.generation, "status", seen));
        let tripped = self.tripped.get_mut(&subject).filter(|tripped| !tripped.is_quiet(now));
        let was_tripped = tripped.is_some();
        if let Some(tripped) = tripped {
            let desired_hash = desired_status().map(|status| self.hasher.hash_one(Value::from(status).to_string()));
            if desired_hash.is_some() && desired_hash == tripped.desired_status {
                // Check again at least once a minute: a flipping status that is checked only at the end of the quiet
                // period could match by chance.
                return StatusPass::Wait(PACE.min(tripped.quiet_in(now)));
            }
            tripped.desired_status = desired_hash;
        }
        match (self.admit_subject(subject, now), was_tripped) {
            (Ok(()), false) => StatusPass::Write,
            // The first excessive status is written nevertheless, to report the thrashing.
            (Ok(()), true) | (Err(_), false) => StatusPass::WriteThrashing,
            (Err(wait), true) => StatusPass::Wait(wait),
        }
    }

    fn admit_subject(&mut self, id: u64, now: Instant) -> Result<(), Duration> {
        self.expire(now);
        if let Some(tripped) = self.tripped.get_mut(&id) {
            if !tripped.is_quiet(now) {
                return tripped.admit(now);
            }
            self.tripped.remove(&id);
        }
        let mut writes = Writes { last: now, before: Vec::new() };
        if let Some(known) = self.younger.remove(&id).or_else(|| self.older.remove(&id)) {
            writes.before = known.before;
            writes.before.push(known.last);
            writes.before.retain(|at| now.saturating_duration_since(*at) < WINDOW);
            if writes.before.len() >= WRITES {
                let mut tripped = Tripped { last_write: known.last, last_attempt: now, desired_status: None };
                let outcome = tripped.admit(now);
                self.tripped.insert(id, tripped);
                return outcome;
            }
        }
        if self.younger.len() >= OBJECTS_MAX {
            self.begin_window(now);
        }
        self.younger.insert(id, writes);
        Ok(())
    }

    /// Counts the writes and deletes of a plan, and removes those that must wait. Returns the removed ones with their
    /// waits. While a write waits, nothing is pruned (rule R8). Only operations that are carried out may be counted, so
    /// deletes that are not due are removed as well.
    pub fn admit_plan(&mut self, parent: &Object, plan: &mut Plan, now: Instant) -> Vec<(ChildId, Duration)> {
        self.expire(now);
        plan.put_off_prunes();
        let mut waiting = Vec::new();
        let mut passes = |child: ChildId| match self.admit(parent, &child.kind, &child.key, now) {
            Ok(()) => true,
            Err(wait) => {
                waiting.push((child, wait));
                false
            }
        };
        let writes = plan.writes.len();
        plan.writes.retain(|write| passes(write.child()));
        if plan.writes.len() < writes {
            plan.prunes.clear();
        }
        plan.prunes.retain(|delete| passes(delete.child.clone()));
        waiting
    }

    /// Drops expired entries.
    fn expire(&mut self, now: Instant) {
        let age = now.saturating_duration_since(*self.since.get_or_insert(now));
        if age >= WINDOW {
            self.begin_window(now);
        }
        if age >= 2 * WINDOW {
            self.older = HashMap::new();
        }
    }

    /// Begins a new window. Writes before the previous window are dropped as a whole, so no entry needs to expire on
    /// its own, except tripped ones.
    fn begin_window(&mut self, now: Instant) {
        self.older = std::mem::take(&mut self.younger);
        self.since = Some(now);
        self.tripped.retain(|_, tripped| !tripped.is_quiet(now));
        self.tripped.shrink_to_fit();
    }
}

impl Tripped {
    fn is_quiet(&self, now: Instant) -> bool {
        self.quiet_in(now).is_zero()
    }

    fn quiet_in(&self, now: Instant) -> Duration {
        QUIET.saturating_sub(now.saturating_duration_since(self.last_attempt))
    }

    fn admit(&mut self, now: Instant) -> Result<(), Duration> {
        self.last_attempt = now;
        let wait = PACE.saturating_sub(now.saturating_duration_since(self.last_write));
        if wait.is_zero() {
            self.last_write = now;
            Ok(())
        } else {
            Err(wait)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::desired::Desired;
    use crate::fixtures::{created, object, parent, pod, snapshot, validate};
    use crate::ids::Uid;
    use crate::plan::plan;

    /// A breaker whose time is given in seconds since its start.
    struct Clock {
        breaker: Breaker,
        start: Instant,
        parent: Object,
    }

    impl Clock {
        fn new() -> Self {
            Self { breaker: Breaker::default(), start: Instant::now(), parent: Object::clone(&parent()) }
        }

        fn at(&self, second: u64) -> Instant {
            self.start + Duration::from_secs(second)
        }

        fn write(&mut self, name: &str, second: u64) -> Result<(), u64> {
            let now = self.at(second);
            let kind = Gvk::from_api_version("v1", "Pod");
            let key = ObjectKey::new(Some("default"), name);
            self.breaker.admit(&self.parent, &kind, &key, now).map_err(|wait| wait.as_secs())
        }

        fn trip(&mut self) {
            assert_eq!((0..10).map(|second| self.write("a", second)).collect::<Vec<_>>(), [Ok(()); 10]);
            assert_eq!(self.write("a", 10), Err(59), "a minute after the last write");
        }

        fn remembered(&self) -> usize {
            self.breaker.younger.len() + self.breaker.older.len() + self.breaker.tripped.len()
        }
    }

    #[test]
    fn r18_eleventh_write_within_a_minute_waits_and_then_one_write_a_minute_is_admitted() {
        let mut clock = Clock::new();
        clock.trip();
        assert_eq!(clock.write("a", 68), Err(1));
        assert_eq!(clock.write("a", 69), Ok(()));
        assert_eq!(clock.write("a", 70), Err(59));
        assert_eq!(clock.write("a", 129), Ok(()));
    }

    #[test]
    fn r18_ten_writes_a_minute_never_trip_the_breaker() {
        let mut clock = Clock::new();
        for second in (0..3600).step_by(6) {
            assert_eq!(clock.write("a", second), Ok(()), "{second}");
        }
        assert_eq!(clock.remembered(), 1);
    }

    #[test]
    fn r18_five_minutes_without_attempted_writes_reset_the_breaker() {
        let mut clock = Clock::new();
        clock.trip();
        assert_eq!(clock.write("a", 11), Err(58));
        assert_eq!(clock.write("a", 250), Ok(()));
        assert_eq!(clock.write("a", 320), Ok(()), "five minutes since it tripped, but with attempted writes");
        assert_eq!(clock.write("a", 321), Err(59), "the breaker is still tripped");
        for second in 621..631 {
            assert_eq!(clock.write("a", second), Ok(()));
        }
        assert_eq!(clock.write("a", 631), Err(59), "after a reset, the breaker trips again");
    }

    #[test]
    fn r18_new_generation_of_the_parent_resets_the_breaker() {
        let mut clock = Clock::new();
        clock.trip();
        clock.parent.generation = Some(4);
        assert_eq!(clock.write("a", 11), Ok(()));
        // Without generations, only time resets the breaker.
        let mut plain = Clock::new();
        plain.parent.generation = None;
        plain.trip();
    }

    #[test]
    fn r18_number_of_children_never_trips_the_breaker() {
        let mut clock = Clock::new();
        for second in 0..10 {
            for child in 0..200 {
                assert_eq!(clock.write(&child.to_string(), second), Ok(()));
            }
        }
    }

    #[test]
    fn r18_writes_are_counted_by_parent_kind_namespace_and_name() {
        let mut clock = Clock::new();
        clock.trip();
        let now = clock.at(11);
        let (pod, service) = (Gvk::from_api_version("v1", "Pod"), Gvk::from_api_version("v1", "Service"));
        let (here, there) = (ObjectKey::new(Some("default"), "a"), ObjectKey::new(Some("other"), "a"));
        let mut other = Object::clone(&clock.parent);
        other.uid = Uid::from("another");
        assert!(clock.breaker.admit(&clock.parent, &pod, &here, now).is_err());
        assert!(clock.breaker.admit(&clock.parent, &service, &here, now).is_ok());
        assert!(clock.breaker.admit(&clock.parent, &pod, &there, now).is_ok());
        assert!(clock.breaker.admit(&other, &pod, &here, now).is_ok(), "another parent has a count of its own");
    }

    #[test]
    fn r18_plan_keeps_admitted_writes_and_prunes_nothing_while_a_write_waits() {
        let mut clock = Clock::new();
        clock.trip();
        let now = clock.at(11);
        let live: Vec<_> = validate(&[pod("z")]).expect("valid").children.iter().map(|child| created(child)).collect();
        let snapshot = snapshot(&live);
        let planned = |names: &[&str]| {
            let desired = names.iter().map(|name| pod(name)).collect::<Vec<_>>();
            plan(&snapshot, &validate(&desired).expect("valid"))
        };
        let mut limited = planned(&["a", "b"]);
        let waiting = clock.breaker.admit_plan(&clock.parent, &mut limited, now);
        assert_eq!(
            waiting.iter().map(|(child, wait)| (&*child.key.name, wait.as_secs())).collect::<Vec<_>>(),
            [("a", 58)]
        );
        assert_eq!(limited.counts(), (1, 0, 0));
        let mut free = planned(&["b"]);
        assert!(clock.breaker.admit_plan(&clock.parent, &mut free, now).is_empty());
        assert_eq!(free.counts(), (1, 0, 1));
    }

    #[test]
    fn r18_child_that_is_deleted_repeatedly_trips_the_breaker_although_its_uid_changes() {
        let mut clock = Clock::new();
        let desired = validate(&[pod("a")]).expect("valid");
        let mut created_at = Vec::new();
        for second in 0..60 {
            let mut plan = plan(&snapshot(&[]), &desired);
            let waiting = clock.breaker.admit_plan(&clock.parent, &mut plan, clock.start + Duration::from_secs(second));
            assert_eq!(plan.writes.len() + waiting.len(), 1);
            created_at.extend((!plan.is_empty()).then_some(second));
        }
        assert_eq!(created_at, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn r18_deletions_count_only_once_they_are_due() {
        let mut clock = Clock::new();
        let (desired, leaving) = (validate(&[pod("a")]).expect("valid"), validate(&[pod("b")]).expect("valid"));
        let mut terminating = created(&desired.children[0]);
        terminating["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let waits = snapshot(&[terminating, created(&leaving.children[0])]);
        let due = snapshot(&[created(&leaving.children[0])]);
        for second in 0..40 {
            let now = clock.at(second);
            let mut plan = plan(&waits, &desired);
            assert!(clock.breaker.admit_plan(&clock.parent, &mut plan, now).is_empty() && plan.is_empty());
        }
        for second in 40..60 {
            let now = clock.at(second);
            let mut plan = plan(&due, &Desired::default());
            let waiting = clock.breaker.admit_plan(&clock.parent, &mut plan, now);
            assert_eq!((plan.prunes.len(), waiting.len()), if second < 50 { (1, 0) } else { (0, 1) });
        }
    }

    #[test]
    fn r18_status_that_keeps_changing_is_thrashing_unless_its_children_change_too() {
        let mut clock = Clock::new();
        let still = snapshot(&[]);
        let start = clock.start;
        let mut admit = |snapshot: &Snapshot, second| {
            clock.breaker.admit_status(snapshot, || None, start + Duration::from_secs(second))
        };
        let passes: Vec<_> = (0..13).map(|second| admit(&still, second)).collect();
        assert_eq!(passes[..10], [StatusPass::Write; 10]);
        assert_eq!(passes[10], StatusPass::WriteThrashing, "the eleventh status is written to report the thrashing");
        assert!(matches!(passes[11..], [StatusPass::Wait(_), StatusPass::Wait(_)]), "{passes:?}");
        assert_eq!(admit(&still, 70), StatusPass::WriteThrashing, "one status a minute is written");
        let desired = validate(&[pod("a")]).expect("valid");
        for second in 0..50 {
            let mut child = created(&desired.children[0]);
            child["metadata"]["resourceVersion"] = json!((100 + second).to_string());
            assert_eq!(admit(&snapshot(&[child]), 70), StatusPass::Write);
        }
    }

    /// The results of `admit_status` at these seconds, for a status whose breaker tripped in second 10. Each entry has
    /// the status that would be written without the reason `Thrashing`.
    fn thrashing(statuses: impl IntoIterator<Item = (u64, Option<String>)>) -> Vec<(u64, StatusPass)> {
        let mut clock = Clock::new();
        let still = snapshot(&[]);
        for second in 0..=10 {
            clock.breaker.admit_status(&still, || None, clock.at(second));
        }
        let passes = statuses.into_iter().map(|(second, status)| {
            let status = status.map(|phase| Map::from([("phase", phase.into())]));
            (second, clock.breaker.admit_status(&still, || status, clock.start + Duration::from_secs(second)))
        });
        passes.collect()
    }

    /// The second at which the status is written without the report again.
    fn recovers_at(statuses: impl IntoIterator<Item = (u64, Option<String>)>) -> Option<u64> {
        thrashing(statuses).into_iter().find(|(_, pass)| *pass == StatusPass::Write).map(|(second, _)| second)
    }

    #[test]
    fn r18_status_that_stays_the_same_for_five_minutes_is_written_without_the_thrashing_report() {
        let each_minute = || (1..30).map(|minute| minute * 60 + 9);
        assert_eq!(recovers_at(each_minute().map(|second| (second, Some("calm".to_owned())))), Some(69 + 300));
        assert_eq!(
            recovers_at(each_minute().map(|second| (second, Some(second.to_string())))),
            None,
            "the status keeps changing"
        );
        assert_eq!(
            recovers_at(each_minute().map(|second| (second, None))),
            None,
            "another writer keeps removing the report"
        );
        let late =
            each_minute().map(|second| (second, Some(if second < 200 { second.to_string() } else { String::new() })));
        assert_eq!(recovers_at(late), Some(249 + 300));
    }

    #[test]
    fn r18_unchanged_status_is_checked_each_minute_until_the_breaker_resets() {
        let passes = thrashing([69, 70, 129, 350].map(|second| (second, Some("calm".to_owned()))));
        let passes: Vec<_> = passes.into_iter().map(|(_, pass)| pass).collect();
        let wait = |seconds| StatusPass::Wait(Duration::from_secs(seconds));
        assert_eq!(passes, [StatusPass::WriteThrashing, wait(60), wait(60), wait(19)]);
    }

    #[test]
    fn r18_breaker_remembers_a_bounded_number_of_objects_for_minutes() {
        let mut clock = Clock::new();
        clock.trip();
        for object in 0..3 * OBJECTS_MAX {
            assert_eq!(clock.write(&object.to_string(), 20), Ok(()));
        }
        assert!(clock.remembered() <= 2 * OBJECTS_MAX + 1);
        clock.breaker.expire(clock.at(81));
        clock.breaker.expire(clock.at(200));
        assert_eq!(clock.remembered(), 1, "the tripped object");
        clock.breaker.expire(clock.at(400));
        assert_eq!((clock.remembered(), clock.breaker.tripped.capacity()), (0, 0));
    }

    proptest! {
        #[test]
        fn r18_no_minute_has_more_than_ten_writes_and_no_write_waits_longer_than_a_minute(
            pauses in proptest::collection::vec(prop_oneof![30 => 0_u64..6000, 1 => Just(59_999), 1 => Just(60_000)], 1..80)
        ) {
            let mut breaker = Breaker::default();
            let (parent, start) = (parent(), Instant::now());
            let mut passed: Vec<Instant> = Vec::new();
            let mut now = start;
            for pause in pauses {
                now += Duration::from_millis(pause);
                let within = passed.iter().filter(|at| now - **at < WINDOW).count();
                match breaker.admit(&parent, &parent.kind, &parent.key, now) {
                    Ok(()) => {
                        prop_assert!(within < WRITES);
                        passed.push(now);
                    }
                    Err(wait) => {
                        prop_assert!(!wait.is_zero() && wait <= PACE);
                        prop_assert!(passed.len() >= WRITES);
                    }
                }
            }
        }

        #[test]
        fn r18_writes_below_the_limit_never_wait(pauses in proptest::collection::vec(6000_u64..200_000, 1..60)) {
            let mut breaker = Breaker::default();
            let (parent, mut now) = (object(&json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "uid": "u", "resourceVersion": "1"},
            })), Instant::now());
            for pause in pauses {
                now += Duration::from_millis(pause);
                prop_assert_eq!(breaker.admit(&parent, &parent.kind, &parent.key, now), Ok(()));
            }
        }
    }
}
