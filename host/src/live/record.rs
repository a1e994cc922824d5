//! What the host remembers of the parents of one Plugin: one record for each parent, behind one lock. All components of the Plugin share
//! the records, because a new component must not forget what was written or blocked under the last one.
//!
//! A parent in steady state has only two hashes and two times in its record; everything else is rare and boxed. A parent of which nothing
//! is to be remembered has no record.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use windlass_core::guard::{BlockReason, ParentDeletions};
use windlass_core::ids::{ObjectKey, Uid};
use windlass_core::object::Object;
use windlass_core::reason::ParentReason;

use super::failures::{Failures, Sums};
use super::kept_values::KeptValues;
use super::own_writes::OwnWrites;
use super::steady::Steady;

/// The records of a Plugin's parents.
pub struct Records {
    all: Mutex<All>,
    /// The live values of children that an apply could not change.
    pub kept_values: KeptValues,
    /// Makes hashes of failures.
    hasher: RandomState,
    /// Queues the Plugin after this time, so that its status is written. Must not block.
    wake: Box<dyn Fn(Duration) + Send + Sync>,
}

#[derive(Debug, Default)]
struct All {
    parents: HashMap<ObjectKey, Record>,
    failures: Failures,
}

/// What is remembered of one parent.
#[derive(Debug, Default)]
pub struct Record {
    /// Whether the parent is in steady state (rule R17).
    pub steady: Steady,
    rare: Option<Box<Rare>>,
}

/// The failure of a parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Failing {
    reason: ParentReason,
    /// A hash of the message: the texts of thousands would take megabytes.
    message: u64,
}

/// How many parents fail.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FailureCounts {
    /// Failing parents.
    pub failing: usize,
    /// Those of them whose deletions are blocked until a user allows them.
    pub blocked: usize,
}

#[derive(Debug, Default)]
struct Rare {
    own_writes: OwnWrites,
    deletions: ParentDeletions,
    /// Since when the API server refuses children of the parent with this UID, because its namespace is being deleted.
    namespace_terminating: Option<(Uid, Instant)>,
    failure: Option<Failing>,
    /// A hash of the parent's invalid annotation `windlass.dev/traceparent` that was logged.
    invalid_traceparent: Option<u64>,
}

impl Rare {
    fn is_empty(&self) -> bool {
        let Self { own_writes, deletions, namespace_terminating, failure, invalid_traceparent } = self;
        let is_unmarked = namespace_terminating.is_none() && failure.is_none() && invalid_traceparent.is_none();
        own_writes.is_empty() && deletions.is_empty() && is_unmarked
    }
}

impl Record {
    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// The host's own writes that the caches do not show yet (rule R3).
    pub fn own_writes(&mut self) -> &mut OwnWrites {
        &mut self.rare().own_writes
    }

    /// Whether own writes are awaited. Unlike [`own_writes`](Self::own_writes), it allocates nothing.
    pub fn has_own_writes(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| !rare.own_writes.is_empty())
    }

    /// Takes the blocked and allowed deletions of the parent's children (rule R9) out of the record.
    pub fn take_deletions(&mut self) -> ParentDeletions {
        self.rare.as_mut().map(|rare| std::mem::take(&mut rare.deletions)).unwrap_or_default()
    }

    /// Puts them back.
    pub fn put_deletions(&mut self, deletions: ParentDeletions) {
        if !deletions.is_empty() {
            self.rare().deletions = deletions;
        }
    }

    /// Why the deletions of the parent's children are blocked, according to the last plan of this process.
    pub fn blocked(&self, parent: &Object) -> Option<BlockReason> {
        self.rare.as_ref().and_then(|rare| rare.deletions.decided(parent))
    }

    /// Whether the API server refused a child of this parent, because its namespace is being deleted.
    pub fn is_namespace_terminating(&self, parent: &Uid) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.namespace_terminating.as_ref().is_some_and(|(uid, _)| uid == parent))
    }

    /// Records that the API server refused a child of this parent, because its namespace is being deleted. Returns the time since the first
    /// refused child.
    pub fn note_namespace_terminating(&mut self, parent: &Uid, now: Instant) -> Duration {
        let before = self.rare().namespace_terminating.take().filter(|(uid, _)| uid == parent);
        let (uid, since) = before.unwrap_or_else(|| (parent.clone(), now));
        self.rare().namespace_terminating = Some((uid, since));
        now.saturating_duration_since(since)
    }

    /// Records a failure, or none. Returns whether it is another one than before.
    fn note_result(&mut self, failure: Option<Failing>) -> bool {
        let before = self.rare.as_ref().and_then(|rare| rare.failure);
        if before == failure {
            return false;
        }
        self.rare().failure = failure;
        true
    }

    fn is_failing(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.failure.is_some())
    }

    /// Whether writes were sent so lately that a parent which the caches do not show may still be there.
    fn has_recent_writes(&self, now: Instant) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.own_writes.is_recent(now))
    }

    fn tidy(&mut self) {
        self.rare.take_if(|rare| rare.is_empty());
    }

    fn is_empty(&self) -> bool {
        self.steady.is_empty() && self.rare.is_none()
    }
}

impl All {
    /// Gives access to one record, and drops it if nothing is left in it.
    fn with<T>(&mut self, parent: &ObjectKey, access: impl FnOnce(&mut Record) -> T) -> T {
        if let Some(record) = self.parents.get_mut(parent) {
            let result = access(record);
            record.tidy();
            if record.is_empty() {
                self.parents.remove(parent);
            }
            return result;
        }
        let mut record = Record::default();
        let result = access(&mut record);
        record.tidy();
        if !record.is_empty() {
            self.parents.insert(parent.clone(), record);
        }
        result
    }
}

impl Records {
    /// With a function that queues the Plugin after a time.
    pub fn new(wake: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        let kept_values = KeptValues::default();
        Self { all: Mutex::default(), kept_values, hasher: RandomState::new(), wake: Box::new(wake) }
    }

    /// Gives access to the record of one parent. The lock is held meanwhile.
    pub fn with<T>(&self, parent: &ObjectKey, access: impl FnOnce(&mut Record) -> T) -> T {
        self.all.lock().with(parent, access)
    }

    /// Forgets a parent that is gone.
    pub fn forget(&self, parent: &ObjectKey) {
        let mut all = self.all.lock();
        if all.parents.remove(parent).is_some_and(|record| record.is_failing()) {
            self.changed(all);
        }
    }

    /// Records that another host reconciles a parent. The writes of this host are remembered: it may get the parent back
    /// before the caches show them. Its blocked deletions are not: the parent's status carries them to the other host and back.
    pub fn let_go(&self, parent: &ObjectKey) {
        let mut all = self.all.lock();
        let is_known = all.parents.contains_key(parent);
        if is_known {
            all.with(parent, |record| drop(record.take_deletions()));
        }
        drop(all);
        if is_known {
            self.note_unsteady(parent, None);
        }
    }

    /// Forgets the parents that no longer exist. They may have been deleted while no component of the Plugin was live. Writes for a
    /// parent that the cache does not show are remembered for some time: it may have left the label selector. Returns these parents.
    pub fn forget_unless(&self, exists: impl Fn(&ObjectKey) -> bool, now: Instant) -> Vec<ObjectKey> {
        let mut unshown = Vec::new();
        self.all.lock().parents.retain(|parent, record| {
            if exists(parent) {
                return true;
            }
            let is_kept = record.has_recent_writes(now);
            if is_kept {
                unshown.push(parent.clone());
            }
            is_kept
        });
        unshown
    }

    /// Forgets everything but the host's own writes: the Plugin is gone, and may come back before the caches show them.
    pub fn forget_all_but_writes(&self, now: Instant) {
        let mut all = self.all.lock();
        all.failures = Failures::default();
        all.parents.retain(|_, record| {
            record.steady = Steady::default();
            if let Some(rare) = &mut record.rare {
                **rare = Rare { own_writes: std::mem::take(&mut rare.own_writes), ..Rare::default() };
            }
            record.has_recent_writes(now)
        });
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.all.lock().parents.is_empty()
    }

    /// Records the end of a parent's reconcile for the Plugin's status: a failure with its reason and message, or a success (none).
    pub fn note_result(&self, parent: &ObjectKey, failure: Option<(ParentReason, &str)>) {
        let mut all = self.all.lock();
        let failing = failure.map(|(reason, message)| Failing { reason, message: self.hasher.hash_one(message) });
        if all.with(parent, |record| record.note_result(failing)) {
            all.failures.note(parent, failure, Timestamp::now());
            self.changed(all);
        }
    }

    /// Records a parent's annotation `windlass.dev/traceparent` if it is invalid, and forgets it if it is valid (none). Returns whether an
    /// invalid value is a new one, which is to be logged.
    pub fn note_traceparent(&self, parent: &ObjectKey, invalid: Option<&str>) -> bool {
        let hash = invalid.map(|value| self.hasher.hash_one(value));
        self.with(parent, |record| {
            let before = record.rare.as_ref().and_then(|rare| rare.invalid_traceparent);
            if before != hash {
                record.rare().invalid_traceparent = hash;
            }
            hash.is_some() && before != hash
        })
    }

    /// Records the end of a reconcile after which the parent is not in steady state: the next reconcile must not be skipped (rule R17),
    /// because its failure would stay counted.
    pub fn note_unsteady(&self, parent: &ObjectKey, failure: Option<(ParentReason, &str)>) {
        self.with(parent, |record| record.steady.end());
        self.note_result(parent, failure);
    }

    /// Schedules a write of the Plugin's status, because the number of parents changed.
    pub fn parents_changed(&self) {
        self.changed(self.all.lock());
    }

    /// Records that a parent is gone. One more reconcile of it [forgets](Self::forget) the rest.
    pub fn removed(&self, parent: &ObjectKey) {
        let mut all = self.all.lock();
        all.with(parent, |record| record.note_result(None));
        self.changed(all);
    }

    fn changed(&self, mut all: MutexGuard<'_, All>) {
        let wait = all.failures.schedule(Instant::now());
        drop(all);
        if let Some(wait) = wait {
            (self.wake)(wait);
        }
    }

    /// How many of these parents fail.
    pub fn failure_counts(&self, counts: impl Fn(&ObjectKey) -> bool) -> FailureCounts {
        let mut sums = FailureCounts::default();
        for (parent, record) in &self.all.lock().parents {
            if let Some(failing) = record.rare.as_ref().and_then(|rare| rare.failure)
                && counts(parent)
            {
                sums.failing += 1;
                sums.blocked += usize::from(failing.reason == ParentReason::DeletionBlocked);
            }
        }
        sums
    }

    /// The failing parents.
    pub fn failing(&self) -> Vec<ObjectKey> {
        let all = self.all.lock();
        all.parents.iter().filter(|(_, record)| record.is_failing()).map(|(parent, _)| parent.clone()).collect()
    }

    /// The counts for a status that is written now; ends the scheduled write. `before` is the count in the Plugin's status, perhaps by an earlier process: after a
    /// start, it is reported until every parent could be reconciled once. Forgets failing parents that no longer exist: a parent may have
    /// gone while its last reconcile ran, or while no component was live.
    pub fn begin_report(&self, before: Option<u64>, exists: impl Fn(&ObjectKey) -> bool) -> Sums {
        let mut all = self.all.lock();
        let mut failing = 0;
        all.parents.retain(|parent, record| {
            if record.is_failing() {
                if exists(parent) {
                    failing += 1;
                } else {
                    record.note_result(None);
                    record.tidy();
                }
            }
            !record.is_empty()
        });
        let (sums, wait) = all.failures.read(failing, before, Instant::now());
        drop(all);
        if let Some(wait) = wait {
            (self.wake)(wait);
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use windlass_core::digest::Digest;

    use super::*;
    use crate::cluster::writer::Written;
    use crate::live::own_writes::FORGOTTEN;
    use crate::live::steady::Inputs;

    const CONFLICT: Option<(ParentReason, &str)> = Some((ParentReason::Conflict, "taken"));

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(Some("n"), name)
    }

    fn records() -> (Records, Arc<Mutex<Vec<Duration>>>) {
        let woken = Arc::new(Mutex::new(Vec::new()));
        let waits = woken.clone();
        (Records::new(move |wait| waits.lock().push(wait)), woken)
    }

    fn known(records: &Records) -> usize {
        records.all.lock().parents.len()
    }

    fn keep_steady(record: &mut Record) {
        let inputs = Inputs { call: Some((1, Digest::of(b"call"))), ..Inputs::default() };
        record.steady.keep(inputs, None);
    }

    #[test]
    fn parent_without_remembered_state_has_no_record() {
        let (records, _) = records();
        assert!(
            !records
                .with(&key("a"), |record| record.has_own_writes() || record.is_namespace_terminating(&Uid::from("1")))
        );
        records.with(&key("a"), |record| record.own_writes().is_empty() && record.take_deletions().is_empty());
        assert_eq!(known(&records), 0);
        records.with(&key("a"), keep_steady);
        records.note_result(&key("b"), CONFLICT);
        records.with(&key("c"), |record| write(record, Instant::now()));
        assert_eq!(known(&records), 3);
        records.with(&key("a"), |record| record.steady.end());
        records.note_result(&key("b"), None);
        records.forget(&key("c"));
        assert_eq!(known(&records), 0);
    }

    #[test]
    fn record_of_a_parent_in_steady_state_is_small() {
        let size = size_of::<ObjectKey>() + size_of::<Record>();
        assert!(size <= 168, "{size} bytes, for each of a hundred thousand parents");
    }

    fn write(record: &mut Record, now: Instant) {
        record.own_writes().add([Written::Parent { resource_version: 7 }], now);
    }

    #[test]
    fn parents_deleted_while_no_component_was_live_are_forgotten_once_their_writes_are_old() {
        let ((records, _), now) = (records(), Instant::now());
        for name in ["gone", "there"] {
            records.with(&key(name), keep_steady);
        }
        records.with(&key("unselected"), |record| write(record, now));
        assert_eq!(records.forget_unless(|parent| *parent == key("there"), now), [key("unselected")]);
        let is_steady = |name: &str| records.with(&key(name), |record| !record.steady.is_empty());
        assert_eq!((is_steady("gone"), is_steady("there")), (false, true));
        assert!(records.with(&key("unselected"), |record| record.has_own_writes()), "its children may still be coming");
        assert_eq!(records.forget_unless(|parent| *parent == key("there"), now + FORGOTTEN), []);
        assert_eq!(known(&records), 1);
    }

    #[test]
    fn r03_plugin_that_is_deleted_and_created_again_waits_for_the_writes_before() {
        let ((records, _), now) = (records(), Instant::now());
        records.with(&key("a"), keep_steady);
        records.note_result(&key("b"), CONFLICT);
        records.with(&key("c"), |record| {
            keep_steady(record);
            write(record, now);
        });
        records.note_result(&key("c"), CONFLICT);
        records.forget_all_but_writes(now);
        assert_eq!((known(&records), records.failing()), (1, Vec::new()));
        assert_eq!(records.begin_report(None, |_| true).last, None, "the failure was one of the deleted Plugin");
        assert!(records.with(&key("c"), |record| record.has_own_writes() && record.steady.is_empty()));
        records.forget_all_but_writes(now + FORGOTTEN);
        assert!(records.is_empty());
    }

    #[test]
    fn r03_failure_of_a_parent_that_is_gone_is_forgotten_and_its_writes_are_not() {
        let (records, _) = records();
        records.with(&key("a"), |record| write(record, Instant::now()));
        records.note_result(&key("a"), CONFLICT);
        assert_eq!(records.begin_report(None, |_| false).failing, 0);
        assert!(records.with(&key("a"), |record| record.has_own_writes()) && records.failing().is_empty());
        records.note_result(&key("b"), CONFLICT);
        records.begin_report(None, |_| false);
        assert_eq!(known(&records), 1, "nothing is left of a parent without writes");
    }

    #[test]
    fn r14_time_of_a_parent_in_a_terminating_namespace_runs_from_the_first_rejected_write() {
        let (mut web, begin) = (Record::default(), Instant::now());
        let (first, namesake) = (Uid::from("1"), Uid::from("2"));
        assert!(!web.is_namespace_terminating(&first));
        for seconds in [0, 10, 40].map(Duration::from_secs) {
            assert_eq!(web.note_namespace_terminating(&first, begin + seconds), seconds);
            assert!(web.is_namespace_terminating(&first) && !web.is_namespace_terminating(&namesake));
        }
        assert_eq!(web.note_namespace_terminating(&namesake, begin + Duration::from_secs(50)), Duration::ZERO);
    }

    #[test]
    fn r12_repeated_failure_needs_no_write_and_another_message_does() {
        let (records, woken) = records();
        let read = || {
            woken.lock().clear();
            records.begin_report(None, |_| true)
        };
        records.note_result(&key("a"), None);
        assert!(woken.lock().is_empty(), "a parent that does not fail changes nothing");
        records.note_result(&key("a"), CONFLICT);
        assert_eq!(woken.lock().len(), 1);
        assert_eq!(read().failing, 1);
        records.note_result(&key("a"), CONFLICT);
        assert!(woken.lock().is_empty(), "the same failure needs no new write");
        records.note_result(&key("a"), Some((ParentReason::Conflict, "taken by another")));
        assert_eq!(woken.lock().len(), 1);
        let last = read().last.expect("a failure");
        assert_eq!((last.object.as_str(), last.message.as_str()), ("n/a", "taken by another"));
        records.note_result(&key("a"), None);
        let sums = read();
        assert_eq!((sums.failing, sums.last), (0, Some(last)), "the last failure can be read after it has passed");
    }

    #[test]
    fn deleted_parent_no_longer_counts_as_failing_and_needs_one_write() {
        let (records, woken) = records();
        records.note_result(&key("a"), CONFLICT);
        records.removed(&key("a"));
        assert_eq!(woken.lock().len(), 1, "one write covers both");
        assert_eq!(records.begin_report(None, |_| true).failing, 0);
        records.note_result(&key("b"), None);
        assert_eq!(woken.lock().len(), 1);
        // Its last reconcile ends after it is gone.
        records.note_result(&key("a"), CONFLICT);
        records.note_result(&key("b"), CONFLICT);
        assert_eq!(records.begin_report(None, |_| true).failing, 2);
        woken.lock().clear();
        records.forget(&key("a"));
        assert_eq!((woken.lock().len(), records.failing()), (1, vec![key("b")]));
    }
}
