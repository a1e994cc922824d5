//! Finishes a reconcile: writes the status, emits events, updates the parent's record, and tells how it ended.

use std::time::Duration;

use super::Reconcile;
use super::ending::{Attempt, Ending, FinalizerChanged, NothingToDo, Report, Reporting, at_the_latest, outcome_of};
use super::not_shown::GOOD_FOR;
use super::report::{Finished, Reported};
use crate::contract::snapshot::Snapshot;
use crate::guard::deletions::blocked_in_status;
use crate::object::child::ChildId;
use crate::reconcile::events::is_trouble;
use crate::reconcile::outcome::{BACKOFF, FinalizerEnd, Outcome, Problem, Progress, Requeue, WriteProblem};
use crate::reconcile::recent::StatusResult;
use crate::reconcile::record::steady::Compared;
use crate::reconcile::terms::StatusWriter;
use crate::reconcile::world::{Ended, Happened, Wake};

impl Reconcile<'_> {
    /// Reports and remembers how a reconcile ended. Returns when to reconcile the parent again.
    pub(super) async fn finish(&self, ending: Ending) -> Requeue {
        tracing::trace!(ending = <&str>::from(&ending));
        let (key, records, state) = (self.key, &self.shared.records, &self.shared.state);
        let ended = |outcome| self.ended(Ended { outcome, ..Ended::default() });
        match ending {
            Ending::Gone => {
                ended("gone");
                records.forget(key);
                state.contended.note(key, None);
                self.wake(&state.forget(key));
                Requeue::Gone
            }
            Ending::NothingToDo(why) => {
                ended(self.finish_nothing_to_do(why));
                Requeue::WhenChanged
            }
            Ending::Waits { outcome, failure: None, requeue } => {
                ended(outcome);
                requeue
            }
            Ending::Waits { outcome, failure: Some((reason, message)), requeue } => {
                // The watch's own line in the log is enough: all its parents end so.
                self.ended(Ended { outcome, message, is_notable: true, ..Ended::default() });
                records.note_unsteady(key, Some((reason, message)));
                requeue
            }
            Ending::Unreported { outcome, reason, message, requeue } => {
                let failure = Some((reason, &*message));
                self.ended(Ended { outcome, message: &message, failure, is_notable: true, ..Ended::default() });
                self.wake(&state.unplanned(key));
                records.note_unsteady(key, failure);
                requeue
            }
            Ending::Unchanged(inputs, requeue) => {
                ended("unchanged");
                if let Some(inputs) = inputs {
                    records.note_result(key, None);
                    self.record(|record| record.steady.keep_after_call(inputs));
                } else {
                    self.world.note(Happened::CallSkipped);
                }
                requeue
            }
            Ending::FinalizerChanged(changed) => self.finish_finalizer(*changed),
            Ending::Report(report) => self.finish_report(*report).await,
            Ending::Unshown(ending) => at_the_latest(Box::pin(self.finish(*ending)).await, GOOD_FOR),
        }
    }

    fn ended(&self, ended: Ended<'_>) {
        self.world.note(Happened::Ended(&ended));
    }

    /// Returns the outcome.
    fn finish_nothing_to_do(&self, why: NothingToDo) -> &'static str {
        let state = &self.shared.state;
        let (outcome, consequences) = match why {
            NothingToDo::Deleting => ("deleting", state.forget_deletions(self.key)),
            NothingToDo::DeselectedWhileSuspended => ("suspended", state.unplanned(self.key)),
            NothingToDo::PluginSuspended => return "suspended",
            NothingToDo::InHostNamespace => return "host_namespace",
            NothingToDo::NotSelected => {
                self.shared.records.note_unsteady(self.key, None);
                ("not_selected", state.forget_deletions(self.key))
            }
        };
        self.wake(&consequences);
        outcome
    }

    fn finish_finalizer(&self, changed: FinalizerChanged) -> Requeue {
        let FinalizerChanged { snapshot, written, removed, last } = changed;
        let outcome = match &removed {
            None => "finalizer_added",
            Some(FinalizerEnd::CleanedUp | FinalizerEnd::ChildrenDeleted) => "finalizer_removed",
            Some(FinalizerEnd::Skipped) => "finalizer_skipped",
            Some(FinalizerEnd::Unneeded) => "finalizer_unneeded",
            Some(FinalizerEnd::NotCalled) => "finalizer_not_called",
            Some(FinalizerEnd::NamespaceTerminating(_)) => "finalizer_abandoned",
        };
        self.ended(Ended { outcome, applied: Some(&last.applied), ..Ended::default() });
        if removed.is_some() {
            // Nothing is left to do for the parent.
            self.shared.records.note_unsteady(self.key, None);
        }
        if let Some(end) = removed.filter(|_| snapshot.parent.deleting && !written.is_parent_gone()) {
            if let FinalizerEnd::NamespaceTerminating(parent) = &end {
                tracing::warn!(plugin = %self.terms.name, %parent, "finalizer removed: the namespace is being deleted");
            }
            self.emit_finalized(&snapshot, &last, &end);
        }
        self.add_own_writes([written]);
        Requeue::Pause(Duration::ZERO)
    }

    /// Writes the status, emits the events, and remembers what need not be repeated.
    async fn finish_report(&self, report: Report) -> Requeue {
        let Report { snapshot, attempt, inputs, is_long_wait } = report;
        let Attempt { part, applied, outcome, is_planned, reporting, events, .. } = attempt;
        if !is_planned {
            self.wake(&self.shared.state.unplanned(self.key));
        }
        let mut outcome = self.completed(&snapshot, outcome, is_planned);
        let is_applied = outcome.progress.is_applied();
        let reported = match reporting {
            Reporting::Full => self.report(&snapshot, part.as_ref(), &mut outcome).await,
            Reporting::WritesOnly => Reported::default(),
        };
        let unwritten = reported.failed.as_ref().filter(|_| !reported.is_gone());
        let unwritten = unwritten
            .map(|problem| outcome_of(&Problem::Writes(vec![(ChildId::of(&snapshot.parent), problem.clone())])));
        let result = Finished {
            snapshot: &snapshot,
            outcome: &outcome,
            reporting,
            applied: &applied,
            events: &events,
            reported: &reported,
            unwritten: unwritten.as_ref(),
        };
        self.emit(&result);
        self.wake_plugin(part.is_some());
        if reporting == Reporting::Full {
            self.note_result(&result);
        }
        self.ended_with(&result);
        let requeue = match unwritten {
            // It is always tried again, because nothing else may ever happen to the parent.
            Some(unwritten) => unwritten.requeue,
            // The event usually ends the retries; they cover an event that was missed.
            None if reported.is_gone() => BACKOFF,
            None => reported.again.map_or(outcome.requeue, Requeue::After),
        };
        let is_reported = reporting == Reporting::Full && reported.failed.is_none() && reported.again.is_none();
        self.add_own_writes(reported.written);
        self.record(|record| {
            match requeue {
                // Remember only an applied state. Blocked deletions and omitted children also requeue as `Settled`, but must be reconciled
                // again: a user may allow the deletions by an annotation on the Plugin, which the hash of the snapshot does not cover.
                Requeue::Settled(asked) if is_applied && !record.has_own_writes() => record.steady.keep(inputs, asked),
                _ => record.steady.end(),
            }
            if inputs.compared == Compared::Values && is_applied {
                record.steady.note_compared(self.shared.clock.now());
            }
            if is_long_wait && is_reported {
                record.own_writes().note_reported();
            }
        });
        requeue
    }

    /// The outcome as the status of this parent reports it, after a reconcile that made a plan (`is_planned`) or none.
    fn completed(&self, snapshot: &Snapshot, outcome: Outcome, is_planned: bool) -> Outcome {
        let parent = &snapshot.parent;
        if parent.deleting {
            return outcome.while_finalizing();
        }
        let decided = self.record(|record| record.blocked_by_last_plan(parent));
        // A plan decides about deletions; without one, an earlier block stays.
        let blocked = if is_planned { decided } else { decided.or_else(|| blocked_in_status(parent)) };
        Outcome { blocked, ..outcome }
    }

    /// Tells how a reconcile ended that has an outcome to report.
    fn ended_with(&self, result: &Finished<'_>) {
        let Finished { snapshot, outcome, applied, reported, unwritten, .. } = *result;
        let is_told = result.reporting == Reporting::Full && is_failing(outcome);
        let failure = is_told.then_some((outcome.reason, &*outcome.message));
        self.ended(Ended {
            outcome: outcome.reason.as_str(),
            progress: Some(outcome.progress),
            message: &outcome.message,
            applied: Some(applied),
            status: match (&reported.failed, &reported.written) {
                (Some(_), _) => StatusResult::Failed,
                (None, Some(_)) => StatusResult::Written,
                (None, None) => StatusResult::Unchanged,
            },
            parent: Some(&snapshot.parent_ref),
            failure,
            unwritten: unwritten.map(|unwritten| &*unwritten.message),
            is_notable: true,
        });
    }

    /// Wakes the Plugin if its status must report something new of this reconcile.
    fn wake_plugin(&self, has_status: bool) {
        let is_unwritten = has_status && self.terms.status_writer == StatusWriter::Nobody;
        if is_unwritten && self.shared.state.note_unwritten_status() {
            self.world.wake(Wake::PluginLater);
        }
        if self.shared.budget.lock().take_newly_empty() {
            self.world.wake(Wake::Plugin);
        }
    }

    /// Remembers the failure of a parent, or none, and the name of a child for which the parent waits. The failure that the Plugin's status
    /// counts is the outcome of the reconcile, or else that of a refused write of the status.
    fn note_result(&self, result: &Finished<'_>) {
        let Finished { snapshot, outcome, applied, reported, unwritten, .. } = *result;
        let refused = unwritten.filter(|_| self.is_status_refused(reported));
        if outcome.is_of_this_generation() {
            self.note_observed(&snapshot.parent);
        }
        let failure = std::iter::once(outcome).chain(refused).find(|outcome| is_failing(outcome));
        self.shared.records.note_result(self.key, failure.map(|failed| (failed.reason, &*failed.message)));
        let taken = applied.problems.iter().find(|(_, problem)| matches!(problem, WriteProblem::Taken(_)));
        self.shared.state.contended.note(self.key, taken.map(|(child, _)| child));
    }

    /// Whether the API server refuses the status of a parent whose kind is not the plugin's own, which the parent's status cannot report.
    fn is_status_refused(&self, reported: &Reported) -> bool {
        let is_refusal = |problem: &WriteProblem| {
            matches!(
                problem,
                WriteProblem::FieldConflict(_) | WriteProblem::Rejected { code: 400..=403 | 409 | 422 | 500, .. }
            )
        };
        self.terms.status_writer == StatusWriter::Account && reported.failed.as_ref().is_some_and(is_refusal)
    }
}

/// Whether a parent does not have its desired state, and that is neither a regular step nor asked for.
fn is_failing(outcome: &Outcome) -> bool {
    match outcome.progress {
        Progress::Failed | Progress::Reconciling | Progress::Stalled => is_trouble(outcome.reason),
        Progress::Applied | Progress::Unready | Progress::Suspended => false,
    }
}
