//! The last failure of a Plugin's parents, and the times at which the Plugin's status reports failing parents. The
//! failure of a parent whose own status the host does not write shows only there.
//!
//! Changes are written together, at most every ten seconds.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::object::reason::ParentReason;
use crate::value::ids::ObjectKey;

/// Shortest time between two reports.
const PAUSE: Duration = Duration::from_secs(10);
/// How long the first write after a quiet time waits for further changes: many parents often change together.
const GATHER: Duration = Duration::from_secs(1);

/// The newest failure of a parent that did not fail before, or failed with another reason or message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastFailure {
    /// Reason of the parent's condition.
    pub reason: ParentReason,
    /// Namespace and name of the parent.
    pub object: String,
    /// Message of the parent's condition, even if the host does not write the parent's status.
    pub message: String,
    /// When the parent began to fail with this reason and message.
    pub time: Timestamp,
}

/// The failing parents, as a Plugin's status reports them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sums {
    /// Number of failing parents.
    pub failing: u64,
    /// The newest failure; none if no parent failed since these records began: at the start of the host, or when the Plugin was created.
    pub last: Option<LastFailure>,
}

/// The report of failures in one Plugin's status.
#[derive(Debug, Default)]
pub struct Failures {
    last: Option<LastFailure>,
    /// When the status was last written or compared.
    written: Option<Instant>,
    /// Whether a write is scheduled.
    is_due: bool,
    /// When this process first wrote the status.
    since: Option<Instant>,
}

impl Failures {
    /// Records a parent's new failure, if there is one.
    pub fn note(&mut self, parent: &ObjectKey, failure: Option<(ParentReason, &str)>, now: Timestamp) {
        if let Some((reason, message)) = failure {
            let (object, message) = (parent.to_string(), message.to_owned());
            self.last = Some(LastFailure { reason, object, message, time: now });
        }
    }

    /// Time until a change should be written; none if a write is scheduled already.
    pub fn schedule(&mut self, now: Instant) -> Option<Duration> {
        if std::mem::replace(&mut self.is_due, true) {
            return None;
        }
        let since = self.written.map_or(Duration::MAX, |written| now.saturating_duration_since(written));
        Some(PAUSE.saturating_sub(since).max(GATHER))
    }

    /// The report for a status that is written now, with this many failing parents, and the time until the next report,
    /// if one is due. `before` is the count in the last status; soon after the start of the host, a lower count is not
    /// reported yet.
    pub fn read(&mut self, failing: u64, before: Option<u64>, now: Instant) -> (Sums, Option<Duration>) {
        self.is_due = false;
        self.written = Some(now);
        let started = *self.since.get_or_insert(now);
        let before = before.unwrap_or_default();
        let is_early = now.saturating_duration_since(started) < PAUSE && failing < before;
        let sums = Sums { failing: if is_early { before } else { failing }, last: self.last.clone() };
        (sums, if is_early { self.schedule(now) } else { None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r12_failure_counts_are_written_together_and_at_most_every_ten_seconds() {
        let start = Instant::now();
        let later = |seconds| start + Duration::from_secs(seconds);
        let mut failures = Failures::default();
        failures.read(0, None, start);
        assert_eq!(failures.schedule(later(3)), Some(Duration::from_secs(7)));
        assert_eq!(failures.schedule(later(4)), None, "a write is due already");
        failures.read(0, None, later(10));
        assert_eq!(failures.schedule(later(100)), Some(GATHER), "after a quiet time the write follows almost at once");
    }

    #[test]
    fn r07_failure_count_from_before_a_restart_stands_until_the_parents_are_reconciled() {
        let start = Instant::now();
        let mut failures = Failures::default();
        let (sums, wait) = failures.read(0, Some(2), start);
        assert_eq!((sums.failing, wait), (2, Some(PAUSE)));
        assert_eq!(
            failures.read(1, Some(2), start + PAUSE / 2).0.failing,
            2,
            "a read in between does not change the count"
        );
        let (sums, wait) = failures.read(2, Some(2), start + PAUSE);
        assert_eq!((sums.failing, wait), (2, None), "nothing to write");

        let mut recovered = Failures::default();
        recovered.read(0, Some(2), start);
        assert_eq!(recovered.read(0, Some(2), start + PAUSE).0.failing, 0);
    }
}
