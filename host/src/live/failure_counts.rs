//! Counts the failing parents of a Plugin for its status. Parents whose own status the host does not write show their failures
//! only there.
//!
//! A parent that does not fail takes no memory here, a failing one takes its name and a hash. Changes are written together, at
//! most every [`PAUSE`].

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::Mutex;
use windlass_core::ids::ObjectKey;
use windlass_core::reason::ParentReason;

/// Shortest time between two writes of the counts.
const PAUSE: Duration = Duration::from_secs(10);
/// How long the first write after a quiet time waits for further changes: many parents often change together.
const GATHER: Duration = Duration::from_secs(1);

/// The newest failure of a parent that did not fail before, or failed for another reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastFailure {
    /// The reason of its condition.
    pub reason: ParentReason,
    /// Namespace and name of the parent.
    pub object: String,
    /// The message of its condition, also if the host does not write its status.
    pub message: String,
    /// When it began to fail like this.
    pub time: Timestamp,
}

/// The failing parents of one Plugin. All components of the Plugin share it.
pub struct FailureCounts {
    ledger: Mutex<Ledger>,
    /// Queues the Plugin after this time, so that its status is written. Must not block.
    wake: Box<dyn Fn(Duration) + Send + Sync>,
}

impl FailureCounts {
    /// With a function that queues the Plugin after a time.
    pub fn new(wake: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        Self { ledger: Mutex::default(), wake: Box::new(wake) }
    }

    /// Records the end of a parent's reconcile: a success, or a failure with its reason and message.
    pub fn record(&self, parent: &ObjectKey, failure: Option<(ParentReason, &str)>) {
        let mut ledger = self.ledger.lock();
        if ledger.record(parent, failure, Timestamp::now()) {
            self.changed(ledger);
        }
    }

    /// Records a new parent.
    pub fn added(&self) {
        self.changed(self.ledger.lock());
    }

    /// Forgets a parent that is gone.
    pub fn removed(&self, parent: &ObjectKey) {
        let mut ledger = self.ledger.lock();
        ledger.failing.remove(parent);
        self.changed(ledger);
    }

    fn changed(&self, mut ledger: parking_lot::MutexGuard<'_, Ledger>) {
        let wait = ledger.schedule(Instant::now());
        drop(ledger);
        if let Some(wait) = wait {
            (self.wake)(wait);
        }
    }

    /// The failing parents.
    pub fn failing(&self) -> Vec<ObjectKey> {
        self.ledger.lock().failing.keys().cloned().collect()
    }

    /// The counts for a status that is written now. `before` is the count in the last status, perhaps of an earlier process: it stays
    /// until the parents had the time to be reconciled once. Forgets parents that no longer `exists`: a parent may have gone while its
    /// last reconcile ran, or while no component was live.
    pub fn read(&self, before: Option<u64>, exists: impl Fn(&ObjectKey) -> bool) -> Sums {
        let mut ledger = self.ledger.lock();
        ledger.failing.retain(|parent, _| exists(parent));
        let (sums, wait) = ledger.read(before, Instant::now());
        drop(ledger);
        if let Some(wait) = wait {
            (self.wake)(wait);
        }
        sums
    }
}

/// The failing parents, as a Plugin's status reports them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sums {
    pub failing: u64,
    /// None if no parent failed since the host started.
    pub last: Option<LastFailure>,
}

#[derive(Debug, Default)]
struct Ledger {
    /// The failing parents, each with a hash of its reason and message: the texts of thousands would take megabytes.
    failing: HashMap<ObjectKey, u64>,
    last: Option<LastFailure>,
    /// When the status was last written or compared.
    told: Option<Instant>,
    /// Whether a write is scheduled.
    due: bool,
    /// When the status was first written since the host started.
    since: Option<Instant>,
}

impl Ledger {
    /// Records the end of a reconcile. Returns whether the counts changed.
    fn record(&mut self, parent: &ObjectKey, failure: Option<(ParentReason, &str)>, now: Timestamp) -> bool {
        let Some((reason, message)) = failure else {
            return !self.failing.is_empty() && self.failing.remove(parent).is_some();
        };
        let mut hasher = DefaultHasher::new();
        (reason, message).hash(&mut hasher);
        let hash = hasher.finish();
        match self.failing.get_mut(parent) {
            Some(known) if *known == hash => return false,
            Some(known) => *known = hash,
            None => drop(self.failing.insert(parent.clone(), hash)),
        }
        self.last = Some(LastFailure { reason, object: parent.to_string(), message: message.to_owned(), time: now });
        true
    }

    /// When the change should be written; none if a write is scheduled.
    fn schedule(&mut self, now: Instant) -> Option<Duration> {
        if std::mem::replace(&mut self.due, true) {
            return None;
        }
        let since = self.told.map_or(Duration::MAX, |told| now.saturating_duration_since(told));
        Some(PAUSE.saturating_sub(since).max(GATHER))
    }

    fn read(&mut self, before: Option<u64>, now: Instant) -> (Sums, Option<Duration>) {
        self.due = false;
        self.told = Some(now);
        let started = *self.since.get_or_insert(now);
        let (counted, known) = (self.failing.len() as u64, before.unwrap_or_default());
        let early = now.saturating_duration_since(started) < PAUSE && counted < known;
        let sums = Sums { failing: if early { known } else { counted }, last: self.last.clone() };
        (sums, if early { self.schedule(now) } else { None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(Some("n"), name)
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    const CONFLICT: Option<(ParentReason, &str)> = Some((ParentReason::Conflict, "taken"));

    #[test]
    fn r12_only_failing_parents_are_kept_and_the_same_failure_again_changes_nothing() {
        let mut ledger = Ledger::default();
        assert!(!ledger.record(&key("a"), None, at(1)), "a parent that does well is no news");
        assert!(ledger.record(&key("a"), CONFLICT, at(2)));
        assert!(!ledger.record(&key("a"), CONFLICT, at(3)), "each retry says the same");
        assert!(ledger.record(&key("a"), Some((ParentReason::Conflict, "taken by another")), at(4)));
        let last = ledger.last.clone().expect("a failure");
        assert_eq!((last.object.as_str(), last.message.as_str(), last.time), ("n/a", "taken by another", at(4)));
        assert!(ledger.record(&key("a"), None, at(5)) && ledger.failing.is_empty());
        assert_eq!(ledger.last, Some(last), "what failed last can still be read after it has healed");
    }

    #[test]
    fn r12_changes_are_written_together_and_at_most_every_ten_seconds() {
        let start = Instant::now();
        let later = |seconds| start + Duration::from_secs(seconds);
        let mut ledger = Ledger::default();
        ledger.read(None, start);
        assert_eq!(ledger.schedule(later(3)), Some(Duration::from_secs(7)));
        assert_eq!(ledger.schedule(later(4)), None, "a write is due already");
        ledger.read(None, later(10));
        assert_eq!(ledger.schedule(later(100)), Some(GATHER), "after a quiet time almost at once");
    }

    #[test]
    fn r07_after_a_restart_the_old_count_stands_until_the_parents_were_reconciled() {
        let start = Instant::now();
        let mut ledger = Ledger::default();
        let (sums, wait) = ledger.read(Some(2), start);
        assert_eq!((sums.failing, wait), (2, Some(PAUSE)));
        assert_eq!(ledger.read(Some(2), start + PAUSE / 2).0.failing, 2, "nor by a look in between");
        ledger.record(&key("a"), CONFLICT, at(1));
        ledger.record(&key("b"), CONFLICT, at(1));
        let (sums, wait) = ledger.read(Some(2), start + PAUSE);
        assert_eq!((sums.failing, wait), (2, None), "nothing to write");

        let mut healed = Ledger::default();
        healed.read(Some(2), start);
        assert_eq!(healed.read(Some(2), start + PAUSE).0.failing, 0);
    }

    #[test]
    fn a_parent_that_is_gone_no_longer_fails_and_is_counted_out_once() {
        let woken = std::sync::Arc::new(Mutex::new(Vec::new()));
        let heard = woken.clone();
        let tally = FailureCounts::new(move |wait| heard.lock().push(wait));
        tally.record(&key("a"), CONFLICT);
        tally.removed(&key("a"));
        assert_eq!(woken.lock().len(), 1, "one write for both");
        assert_eq!(tally.read(None, |_| true).failing, 0);
        tally.record(&key("b"), None);
        assert_eq!(woken.lock().len(), 1);
        // Its last reconcile ends after it is gone.
        tally.record(&key("a"), CONFLICT);
        tally.record(&key("b"), CONFLICT);
        assert_eq!(tally.read(None, |parent| *parent == key("b")).failing, 1);
        assert_eq!(tally.failing(), [key("b")]);
    }
}
