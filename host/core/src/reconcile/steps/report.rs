//! Writes a parent's status if the outcome changes it, and emits events. Reports only writes that were sent.

use std::time::Duration;

use jiff::Timestamp;
use tracing::Instrument;
use tracing::field::Empty;

use super::ending::{Last, Reporting, outcome_of};
use super::{Reconcile, TRACE};
use crate::contract::Event;
use crate::contract::snapshot::Snapshot;
use crate::guard::breaker::{PACE, ParentRevision, StatusPass};
use crate::object::child::ChildId;
use crate::reconcile::applied::Applied;
use crate::reconcile::carry_out::status_written;
use crate::reconcile::events::{Before, Note, Occasion, note, of_warnings};
use crate::reconcile::outcome::{FinalizerEnd, Outcome, Problem, WriteProblem};
use crate::reconcile::status;
use crate::reconcile::trigger::Trigger;
use crate::reconcile::world::{About, ApiRequest};
use crate::reconcile::written::Written;
use crate::value::json::Map;

/// The result of reporting a status.
#[derive(Debug, Default)]
pub(super) struct Reported {
    /// The write of the status, if it was executed, or may have been.
    pub written: Option<Written>,
    /// Why the write of the status failed, if it did.
    pub failed: Option<WriteProblem>,
    /// Time until the next reconcile, if the status was written too often (rule R18).
    pub again: Option<Duration>,
    /// The outcome that the status reports instead of the real one, if the status was written too often.
    pub instead: Option<Outcome>,
}

/// A reconcile with an outcome, after its status was reported.
pub(super) struct Finished<'a> {
    pub snapshot: &'a Snapshot,
    pub outcome: &'a Outcome,
    pub reporting: Reporting,
    pub applied: &'a Applied,
    /// The events of the response.
    pub events: &'a [Event],
    pub reported: &'a Reported,
    /// The outcome of a failed write of the status.
    pub unwritten: Option<&'a Outcome>,
}

impl Reported {
    /// Whether the parent is gone, so that there is no status to write.
    pub fn is_gone(&self) -> bool {
        self.written.as_ref().is_some_and(Written::is_parent_gone)
    }
}

impl Reconcile<'_> {
    /// Writes the parent's status. If the API server rejects the plugin's part, the status is written without it, and reports that.
    pub(super) async fn report(&self, snapshot: &Snapshot, part: Option<&Map>, outcome: &mut Outcome) -> Reported {
        let span = tracing::debug_span!(target: TRACE, "report", windlass.status_written = Empty);
        let mut reported = self.write_status(snapshot, part, outcome).instrument(span.clone()).await;
        if let (Some(_), Some(WriteProblem::Rejected { message, .. })) = (part, &reported.failed)
            && !reported.is_gone()
        {
            if outcome.progress.is_applied() {
                *outcome = outcome_of(&Problem::StatusRejected(message.clone()));
            } else {
                // The other problem stays the first: a block of deletions must survive a restart.
                outcome.add_rejected_status(message);
            }
            reported = self.write_status(snapshot, None, outcome).instrument(span.clone()).await;
        }
        span.record("windlass.status_written", reported.failed.is_none() && reported.written.is_some());
        reported
    }

    /// Writes the parent's status if the outcome changes it, and the breaker admits the write.
    async fn write_status(&self, snapshot: &Snapshot, part: Option<&Map>, outcome: &Outcome) -> Reported {
        let parent = &snapshot.parent;
        let at = |outcome: &Outcome, now| status::next(parent, part, outcome, self.terms.shape, now);
        let next = |outcome: &Outcome| at(outcome, self.shared.clock.date());
        let Some(changed) = next(outcome) else { return Reported::default() };
        let thrashing = || {
            let itself = ChildId::of(parent);
            Outcome { blocked: outcome.blocked, ..Outcome::from(&Problem::Thrashing(vec![(itself, PACE)])) }
        };
        let desired = || {
            let says_all = next(&thrashing()).is_none();
            // With a fixed time, so that the time of a reconcile makes no difference.
            says_all.then(|| at(outcome, Timestamp::UNIX_EPOCH)).flatten()
        };
        let (revision, now) = (ParentRevision::of(parent), self.shared.clock.now());
        let pass = self.shared.breaker.lock().admit_status(revision, snapshot, desired, now);
        let (status, again, instead) = match pass {
            StatusPass::Write => (Some(changed), None, None),
            StatusPass::WriteThrashing => {
                let thrashing = thrashing();
                (next(&thrashing), Some(PACE), Some(thrashing))
            }
            StatusPass::Wait(wait) => (None, Some(wait), None),
        };
        let reported = Reported { written: None, failed: None, again, instead };
        let Some(status) = status else { return reported };
        let response = self.world.send(ApiRequest::Status { parent, status }).await;
        let (written, failed) = status_written(self.world, parent, response);
        Reported { written, failed, ..reported }
    }

    /// Emits events on the parent: the host's about changes, and those of the response. An outcome that is left out of the status, for good
    /// or for now, is reported by no event either.
    pub(super) fn emit(&self, result: &Finished<'_>) {
        let Finished { snapshot, reporting, applied, events, reported, .. } = *result;
        let (outcome, changes) = (reported.instead.as_ref().unwrap_or(result.outcome), &applied.changes);
        // A status that was written too often reports the outcome later.
        let is_later = reported.again.is_some() && reported.instead.is_none();
        let status_differs = reported.written.is_some() || reported.failed.is_some();
        let has_conditions = self.terms.shape.subresource && self.terms.shape.conditions;
        let unknown = || match (has_conditions, status_differs) {
            (false, _) => Before::unknown(outcome),
            (true, true) => Before::in_status(&snapshot.parent, outcome),
            (true, false) => Before::Same,
        };
        let before = if reporting == Reporting::WritesOnly || is_later {
            Before::Same
        } else {
            self.world.reported_before(&snapshot.parent.uid, outcome, &unknown)
        };
        let own = note(snapshot, changes, &before, outcome);
        let occasion = match (status_differs || !changes.is_empty() || before != Before::Same, self.trigger) {
            (true, _) => Occasion::Changed,
            (false, Trigger::Sweep) => Occasion::Sweep,
            (false, _) => Occasion::Steady,
        };
        let warnings = of_warnings(&applied.warnings, snapshot.parent.key.namespace.as_deref());
        let notes = own.into_iter().chain(warnings).chain(events.iter().map(Note::of_plugin)).collect();
        self.world.emit(About::Parent(&snapshot.parent_ref), notes, occasion);
    }

    /// Emits the plugin's last events, and one that says why the parent's finalizer was removed.
    pub(super) fn emit_finalized(&self, snapshot: &Snapshot, last: &Last, why: &FinalizerEnd) {
        let notes = last.events.iter().map(Note::of_plugin).chain([Note::finalized(why)]).collect();
        let about = match why {
            FinalizerEnd::NamespaceTerminating(_) => About::PluginOf(&snapshot.parent_ref),
            FinalizerEnd::CleanedUp
            | FinalizerEnd::ChildrenDeleted
            | FinalizerEnd::Skipped
            | FinalizerEnd::Unneeded
            | FinalizerEnd::NotCalled => About::Parent(&snapshot.parent_ref),
        };
        self.world.emit(about, notes, Occasion::Changed);
    }
}
