//! What the host remembers of the parents of one Plugin: one record for each parent, behind one lock. All components of the Plugin share
//! the records, because a new component must not forget what was written or blocked under the last one.
//!
//! A parent of which nothing is to be remembered has no record.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::{Mutex, MutexGuard};

use super::failures::{Failures, Sums};
use super::kept_values::KeptValues;
use crate::object::reason::ParentReason;
use crate::reconcile::record::{Failing, Record};
use crate::value::clock::Clock;
use crate::value::ids::ObjectKey;

/// The records of a Plugin's parents.
pub struct Records {
    all: Mutex<All>,
    clock: Clock,
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

/// How many parents fail.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FailureCounts {
    /// Failing parents.
    pub failing: usize,
    /// Those of them whose deletions are blocked until a user allows them.
    pub blocked: usize,
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
    pub fn new(clock: Clock, wake: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        let kept_values = KeptValues::default();
        Self { all: Mutex::default(), clock, kept_values, hasher: RandomState::new(), wake: Box::new(wake) }
    }

    /// Gives access to the record of one parent. The lock is held meanwhile.
    pub fn with<T>(&self, parent: &ObjectKey, access: impl FnOnce(&mut Record) -> T) -> T {
        self.all.lock().with(parent, access)
    }

    /// Forgets a parent that is gone.
    pub fn forget(&self, parent: &ObjectKey) {
        let mut all = self.all.lock();
        if all.parents.remove(parent).is_some_and(|record| record.failure().is_some()) {
            self.changed(all);
        }
    }

    /// Records that another host reconciles a parent. The writes of this host are remembered: it may get the parent back
    /// before the caches show them. Its blocked deletions are not: the parent's status carries them to the other host and back.
    pub fn let_go(&self, parent: &ObjectKey) {
        let mut all = self.all.lock();
        let is_known = all.parents.contains_key(parent);
        if is_known {
            all.with(parent, |record| {
                drop((record.take_deletions(), record.take_stored()));
                // The other host may carry out what its user wants next.
                record.observed = None;
            });
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
        unshown.sort_unstable();
        unshown
    }

    /// Forgets everything but the host's own writes: the Plugin is gone, and may come back before the caches show them.
    pub fn forget_all_but_writes(&self, now: Instant) {
        let mut all = self.all.lock();
        all.failures = Failures::default();
        all.parents.retain(|_, record| {
            record.forget_all_but_writes();
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
            all.failures.note(parent, failure, self.clock.date());
            self.changed(all);
        }
    }

    /// Records a parent's annotation `windlass.dev/traceparent` if it is invalid, and forgets it if it is valid (none). Returns whether an
    /// invalid value is a new one, which is to be logged.
    pub fn note_traceparent(&self, parent: &ObjectKey, invalid: Option<&str>) -> bool {
        let hash = invalid.map(|value| self.hasher.hash_one(value));
        self.with(parent, |record| record.note_traceparent(hash))
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
        let wait = all.failures.schedule(self.clock.now());
        drop(all);
        if let Some(wait) = wait {
            (self.wake)(wait);
        }
    }

    /// How many of these parents fail.
    pub fn failure_counts(&self, counts: impl Fn(&ObjectKey) -> bool) -> FailureCounts {
        let mut sums = FailureCounts::default();
        for (parent, record) in &self.all.lock().parents {
            if let Some(failing) = record.failure()
                && counts(parent)
            {
                sums.failing += 1;
                sums.blocked += usize::from(failing.reason == ParentReason::DeletionBlocked);
            }
        }
        sums
    }

    /// The failing parents, sorted.
    pub fn failing(&self) -> Vec<ObjectKey> {
        let all = self.all.lock();
        let failing = all.parents.iter().filter(|(_, record)| record.failure().is_some());
        let mut parents: Vec<_> = failing.map(|(parent, _)| parent.clone()).collect();
        drop(all);
        parents.sort_unstable();
        parents
    }

    /// The counts for a status that is written now; ends the scheduled write. `before` is the count in the Plugin's status, perhaps by an earlier process: after a
    /// start, it is reported until every parent could be reconciled once. Forgets failing parents that no longer exist: a parent may have
    /// gone while its last reconcile ran, or while no component was live.
    pub fn begin_report(&self, before: Option<u64>, exists: impl Fn(&ObjectKey) -> bool) -> Sums {
        let mut all = self.all.lock();
        let mut failing = 0;
        all.parents.retain(|parent, record| {
            if record.failure().is_some() {
                if exists(parent) {
                    failing += 1;
                } else {
                    record.note_result(None);
                    record.tidy();
                }
            }
            !record.is_empty()
        });
        let (sums, wait) = all.failures.read(failing, before, self.clock.now());
        drop(all);
        if let Some(wait) = wait {
            (self.wake)(wait);
        }
        sums
    }
}

#[cfg(test)]
mod tests;
