//! Which parents of a Plugin fail, for its status: the only place where those show whose own status is not ours.
//!
//! A parent that does well costs nothing here, a failing one its name and a hash. What changes is written together, at
//! most every [`PAUSE`]; what does not change is not written at all.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::Mutex;
use windlass_core::ids::ObjectKey;

/// Least time between two writes of the counts.
const PAUSE: Duration = Duration::from_secs(10);
/// Time in which changes gather before the first write after a quiet time: parents come in crowds.
const GATHER: Duration = Duration::from_secs(1);

/// The newest failure of a parent that did well before, or failed otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastFailure {
    /// One of [`windlass_core::names::parent_reason`].
    pub reason: String,
    /// Namespace and name of the parent.
    pub object: String,
    /// What its condition says, or would say.
    pub message: String,
    /// Since when.
    pub time: Timestamp,
}

/// Failing parents of one Plugin. It outlives the logic: what is live may change, the parents stay.
pub struct FailureCounts {
    ledger: Mutex<Ledger>,
    /// Has the Plugin's status written after so long; must not block.
    wake: Box<dyn Fn(Duration) + Send + Sync>,
}

impl FailureCounts {
    /// With what has the Plugin's status written after a time.
    pub fn new(wake: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        Self { ledger: Mutex::default(), wake: Box::new(wake) }
    }

    /// How a parent's reconcile ended: with nothing to say, or with a reason and a message. Called after each.
    pub fn record(&self, parent: &ObjectKey, failure: Option<(&str, &str)>) {
        let mut ledger = self.ledger.lock();
        if ledger.record(parent, failure, Timestamp::now()) {
            self.changed(ledger);
        }
    }

    /// A parent appeared.
    pub fn added(&self) {
        self.changed(self.ledger.lock());
    }

    /// A parent is gone.
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

    /// The parents that fail.
    pub fn failing(&self) -> Vec<ObjectKey> {
        self.ledger.lock().failing.keys().cloned().collect()
    }

    /// What a status written now says. `before` is how many fail by the last status, which may be of an earlier run of
    /// the host: it stands until the parents had the time to be reconciled once. A parent that no longer `exists` is
    /// left out for good: it may have gone while its last reconcile was under way, or while nothing was live.
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

/// What a Plugin's status says of its failing parents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sums {
    pub failing: u64,
    /// Nothing if none failed since the host started.
    pub last: Option<LastFailure>,
}

#[derive(Debug, Default)]
struct Ledger {
    /// Each with a hash of its reason and message: the texts of thousands would cost megabytes.
    failing: HashMap<ObjectKey, u64>,
    last: Option<LastFailure>,
    /// When the status was written last, or looked at for it.
    told: Option<Instant>,
    /// Whether a write is due already.
    due: bool,
    /// When the status was written for the first time since the host started.
    since: Option<Instant>,
}

impl Ledger {
    /// Takes the end of a reconcile in; answers whether the sums changed.
    fn record(&mut self, parent: &ObjectKey, failure: Option<(&str, &str)>, now: Timestamp) -> bool {
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
        self.last = Some(LastFailure {
            reason: reason.to_owned(),
            object: parent.to_string(),
            message: message.to_owned(),
            time: now,
        });
        true
    }

    /// When the change should be written, unless a write is due already.
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

    const CONFLICT: Option<(&str, &str)> = Some(("Conflict", "taken"));

    #[test]
    fn r12_only_failing_parents_are_kept_and_the_same_failure_again_changes_nothing() {
        let mut ledger = Ledger::default();
        assert!(!ledger.record(&key("a"), None, at(1)), "a parent that does well is no news");
        assert!(ledger.record(&key("a"), CONFLICT, at(2)));
        assert!(!ledger.record(&key("a"), CONFLICT, at(3)), "each retry says the same");
        assert!(ledger.record(&key("a"), Some(("Conflict", "taken by another")), at(4)));
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
        // Its last reconcile ends after it has gone.
        tally.record(&key("a"), CONFLICT);
        tally.record(&key("b"), CONFLICT);
        assert_eq!(tally.read(None, |parent| *parent == key("b")).failing, 1);
        assert_eq!(tally.failing(), [key("b")]);
    }
}
