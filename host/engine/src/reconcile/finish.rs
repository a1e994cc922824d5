//! Finishes a reconcile: writes the status, emits events, and updates the parent's record, the span and the log.

use std::time::Duration;

use tracing::field::Empty;
use tracing::{Instrument, Span};
use windlass_core::contract::snapshot::Snapshot;
use windlass_core::guard::deletions::blocked_in_status;
use windlass_core::object::child::ChildId;
use windlass_core::object::reason::ParentReason;
use windlass_core::reconcile::applied::Applied;
use windlass_core::reconcile::carry_out::FinalizerWrite;
use windlass_core::reconcile::events::Changes;
use windlass_core::reconcile::outcome::{BACKOFF, FinalizerEnd, Outcome, Problem, Progress, Requeue, WriteProblem};
use windlass_core::reconcile::recent::{Decision, StatusResult};
use windlass_core::value::ids::ObjectKey;
use windlass_core::value::json::Map;

use super::Reconciler;
use super::ask::note_observed;
use super::ending::{Attempt, Ending, FinalizerChanged, NothingToDo, Report, at_the_latest, outcome_of};
use super::journal::Journal;
use super::report::{Happened, Reported};
use crate::clock;
use crate::live::unselected::GOOD_FOR;
use crate::live::{Live, StatusWriter};
use crate::queue::Trigger;
use crate::telemetry::{self, FAILURE, TRACE};

impl Reconciler {
    /// Reports and remembers how a reconcile ended. Returns when to reconcile the parent again.
    pub(super) async fn finish(&self, live: &Live, key: &ObjectKey, ending: Ending, journal: &mut Journal) -> Requeue {
        tracing::trace!(ending = ending.name());
        match ending {
            Ending::Gone => {
                end(journal, "gone");
                live.shared.records.forget(key);
                live.shared.measures.forget(key);
                live.shared.state.contended.note(key, None);
                self.queue_consequences(live, live.shared.state.forget(key));
                Requeue::Gone
            }
            Ending::NothingToDo { why, is_unshown } => {
                self.finish_nothing_to_do(live, key, why, journal);
                if is_unshown { Requeue::After(GOOD_FOR) } else { Requeue::WhenChanged }
            }
            Ending::Waits { outcome, failure, requeue } => {
                end(journal, outcome);
                if let Some((_, message)) = failure {
                    journal.fail(outcome, message);
                    live.shared.records.note_unsteady(key, failure);
                }
                requeue
            }
            Ending::Unreported { outcome, reason, message, requeue } => {
                set_span_outcome(outcome);
                journal.fail(outcome, &message);
                self.queue_consequences(live, live.shared.state.unplanned(key));
                log_failure(live, key, reason, &message);
                live.shared.records.note_unsteady(key, Some((reason, &message)));
                requeue
            }
            Ending::Unchanged(inputs, requeue) => {
                end(journal, "unchanged");
                if let Some(inputs) = inputs {
                    live.shared.records.note_result(key, None);
                    live.shared.records.with(key, |record| record.steady.keep_after_call(inputs));
                } else {
                    live.shared.controller.skipped_call();
                }
                requeue
            }
            Ending::FinalizerChanged(changed) => self.finish_finalizer(live, *changed, journal),
            Ending::Report(report) => self.finish_report(live, *report, journal).await,
        }
    }

    fn finish_nothing_to_do(&self, live: &Live, key: &ObjectKey, why: NothingToDo, journal: &mut Journal) {
        let (outcome, consequences) = match why {
            NothingToDo::Deleting => ("deleting", Some(live.shared.state.forget_deletions(key))),
            NothingToDo::DeselectedWhileSuspended => ("suspended", Some(live.shared.state.unplanned(key))),
            NothingToDo::PluginSuspended => ("suspended", None),
            NothingToDo::InHostNamespace => ("host_namespace", None),
            NothingToDo::NotSelected => {
                live.shared.records.note_unsteady(key, None);
                ("not_selected", Some(live.shared.state.forget_deletions(key)))
            }
        };
        end(journal, outcome);
        if let Some(consequences) = consequences {
            self.queue_consequences(live, consequences);
        }
    }

    fn finish_finalizer(&self, live: &Live, changed: FinalizerChanged, journal: &mut Journal) -> Requeue {
        let FinalizerChanged { snapshot, write, removed } = changed;
        let (outcome, noted) = match &removed {
            None => ("finalizer_added", "finalizer_added"),
            Some((FinalizerEnd::CleanedUp, _)) => ("finalizer_removed", "finalizer_removed"),
            Some((FinalizerEnd::Skipped, _)) => ("finalizer_removed", "finalizer_skipped"),
            Some((FinalizerEnd::Unneeded, _)) => ("finalizer_removed", "finalizer_unneeded"),
            Some((FinalizerEnd::NotCalled, _)) => ("finalizer_removed", "finalizer_not_called"),
            Some((FinalizerEnd::NamespaceTerminating(_), _)) => ("finalizer_removed", "finalizer_abandoned"),
        };
        set_span_outcome(outcome);
        journal.end(noted, "");
        let (written, is_gone) = match write {
            FinalizerWrite::Done(written) => (written, false),
            FinalizerWrite::Gone(written) => (written, true),
        };
        let was_removed = removed.is_some();
        if let Some((end, last_events)) = removed.filter(|_| snapshot.parent.deleting && !is_gone) {
            if let FinalizerEnd::NamespaceTerminating(parent) = &end {
                tracing::warn!(plugin = %live.terms.name, %parent, "finalizer removed: the namespace is being deleted");
            }
            self.reporter.emit_finalized(live, &snapshot, &last_events, &end);
        }
        if was_removed {
            // Nothing is left to do for the parent.
            live.shared.records.note_unsteady(&snapshot.parent.key, None);
        }
        live.shared.records.with(&snapshot.parent.key, |record| record.own_writes().add([written], clock::now()));
        Requeue::Pause(Duration::ZERO)
    }

    /// Writes the status, emits the events, and remembers what was written and what need not be repeated.
    async fn finish_report(&self, live: &Live, report: Report, journal: &mut Journal) -> Requeue {
        let Report { snapshot, is_sweep, attempt, inputs, is_long_wait, is_unshown } = report;
        let Attempt { part, applied, outcome, is_planned, silent, events, .. } = attempt;
        let key = &snapshot.parent.key;
        if !is_planned {
            self.queue_consequences(live, live.shared.state.unplanned(key));
        }
        let mut outcome = completed(live, &snapshot, outcome, is_planned);
        count(live, (&outcome, silent), &applied.changes);
        let is_applied = outcome.progress == Progress::Applied;
        let reported =
            if silent { Reported::default() } else { self.report(live, &snapshot, part.as_ref(), &mut outcome).await };
        set_span_outcome(outcome.reason.as_str());
        if !silent && is_failing(&outcome) {
            log_failure(live, &snapshot.parent_ref, outcome.reason, &outcome.message);
        }
        self.reporter.emit(
            live,
            &snapshot,
            Happened {
                changes: &applied.changes,
                outcome: reported.instead.as_ref().unwrap_or(&outcome),
                status_differs: reported.written.is_some() || reported.failed.is_some(),
                // A status that was written too often reports the outcome later.
                silent: silent || reported.again.is_some() && reported.instead.is_none(),
                events: &events,
                sweep: is_sweep,
            },
        );
        self.queue_plugin(live, part.is_some());
        if !silent {
            note_result(live, &snapshot, (&outcome, &applied, &reported));
        }
        journal.report(&snapshot.parent_ref, || decision(&outcome, &applied, &reported));
        let is_gone = reported.is_gone();
        let is_reported = !silent && reported.failed.is_none() && reported.again.is_none();
        let written: Vec<_> = applied.written.into_iter().chain(reported.written).collect();
        let requeue = match reported.failed {
            None => reported.again.map_or(outcome.requeue, Requeue::After),
            // Its event usually ends the retries; they cover an event that was missed.
            Some(_) if is_gone => BACKOFF,
            Some(problem) => status_not_written(&snapshot, problem),
        };
        live.shared.records.with(key, |record| {
            let now = clock::now();
            match requeue {
                // Remember only an applied state. Blocked deletions and omitted children also requeue as `Settled`, but must be reconciled
                // again: a user may allow the deletions by an annotation on the Plugin, which the hash of the snapshot does not cover.
                Requeue::Settled(asked) if is_applied && written.is_empty() => record.steady.keep(inputs, asked),
                _ => record.steady.end(),
            }
            if inputs.is_compared && is_applied {
                record.steady.note_compared(now);
            }
            if !written.is_empty() {
                record.own_writes().add(written, now);
            }
            if is_long_wait && is_reported {
                record.own_writes().note_reported();
            }
        });
        if is_unshown { at_the_latest(requeue, GOOD_FOR) } else { requeue }
    }

    /// Queues the Plugin if its status must report something new of this reconcile.
    fn queue_plugin(&self, live: &Live, has_status: bool) {
        if has_status && live.status_writer == StatusWriter::Nobody && live.shared.state.note_unwritten_status() {
            self.plugins.add(&(), &live.terms.name, Trigger::Resync);
        }
        if live.shared.budget.lock().take_newly_empty() {
            self.plugins.add(&(), &live.terms.name, Trigger::Changed);
        }
    }

    /// Writes the parent's status. If the API server rejects the plugin's part, the status is written without it, and reports that.
    pub(super) async fn report(
        &self,
        live: &Live,
        snapshot: &Snapshot,
        part: Option<&Map>,
        outcome: &mut Outcome,
    ) -> Reported {
        let world = self.worlds.of(live);
        let span = tracing::debug_span!(target: TRACE, "report", windlass.status_written = Empty);
        let mut reported =
            self.reporter.report(world, snapshot, part, outcome, &self.breaker).instrument(span.clone()).await;
        if let (Some(_), Some(WriteProblem::Rejected { message, .. })) = (part, &reported.failed)
            && !reported.is_gone()
        {
            if outcome.progress == Progress::Applied {
                *outcome = outcome_of(&Problem::StatusRejected(message.clone()));
            } else {
                // The other problem stays the first: a block of deletions must survive a restart.
                outcome.add_rejected_status(message);
            }
            reported =
                self.reporter.report(world, snapshot, None, outcome, &self.breaker).instrument(span.clone()).await;
        }
        span.record("windlass.status_written", reported.failed.is_none() && reported.written.is_some());
        reported
    }
}

/// The outcome as the status of this parent reports it, after a reconcile that made a plan (`is_planned`) or none.
fn completed(live: &Live, snapshot: &Snapshot, outcome: Outcome, is_planned: bool) -> Outcome {
    let parent = &snapshot.parent;
    if parent.deleting {
        return outcome.while_finalizing();
    }
    let decided = live.shared.records.with(&parent.key, |record| record.blocked_by_last_plan(parent));
    // A plan decides about deletions; without one, an earlier block stays.
    let blocked = if is_planned { decided } else { decided.or_else(|| blocked_in_status(parent)) };
    Outcome { blocked, ..outcome }
}

/// What the host did in a reconcile with this outcome.
fn decision(outcome: &Outcome, applied: &Applied, reported: &Reported) -> Decision {
    Decision {
        outcome: outcome.reason.as_str(),
        progress: Some(outcome.progress),
        message: outcome.message.clone(),
        changes: applied.changes.clone(),
        failed: applied.problems.clone(),
        status: match (&reported.failed, &reported.written) {
            (Some(_), _) => StatusResult::Failed,
            (None, Some(_)) => StatusResult::Written,
            (None, None) => StatusResult::Unchanged,
        },
        next: None,
    }
}

/// Notes how a reconcile ended in the span and in the journal.
fn end(journal: &mut Journal, outcome: &'static str) {
    set_span_outcome(outcome);
    journal.end(outcome, "");
}

fn set_span_outcome(outcome: &'static str) {
    Span::current().record("windlass.outcome", outcome);
}

/// Counts what a reconcile did. Deletions that only wait for the rest of a rollout are silent, and not blocked.
fn count(live: &Live, (outcome, silent): (&Outcome, bool), Changes { created, replaced, deleted, .. }: &Changes) {
    if !silent && outcome.reason == ParentReason::DeletionBlocked {
        live.shared.controller.blocked_deletions();
    }
    live.shared.controller.wrote(created.len(), replaced.len() + deleted.len());
}

/// Logs and counts a failed reconcile.
fn log_failure(live: &Live, parent: &impl std::fmt::Display, reason: ParentReason, message: &str) {
    live.shared.controller.failed(reason.as_str());
    let message = telemetry::one_line(message);
    tracing::warn!(target: FAILURE, plugin = %live.terms.name, object = %parent, %reason, %message, "reconcile failed");
}

/// Whether a parent does not have its desired state, and no user asked for that.
fn is_failing(outcome: &Outcome) -> bool {
    matches!(outcome.progress, Progress::Reconciling | Progress::Stalled)
}

/// Remembers the failure of a parent, or none, and the name of a child for which the parent waits.
fn note_result(live: &Live, snapshot: &Snapshot, (outcome, applied, reported): (&Outcome, &Applied, &Reported)) {
    let key = &snapshot.parent.key;
    if matches!(outcome.progress, Progress::Applied | Progress::Stalled) {
        note_observed(live, &snapshot.parent);
    }
    let failure = failure(live, snapshot, outcome, reported);
    live.shared.records.note_result(key, failure.as_ref().map(|failed| (failed.reason, &*failed.message)));
    let taken = applied.problems.iter().find(|(_, problem)| matches!(problem, WriteProblem::Taken { .. }));
    live.shared.state.contended.note(key, taken.map(|(child, _)| child));
}

/// The failure that the Plugin's status counts: the outcome of the reconcile, or a rejected write of the status of a parent whose kind is
/// not the plugin's own, which the parent's status cannot report.
fn failure(live: &Live, snapshot: &Snapshot, outcome: &Outcome, reported: &Reported) -> Option<Outcome> {
    if is_failing(outcome) {
        return Some(outcome.clone());
    }
    let refused = reported.failed.as_ref().filter(|problem| {
        live.status_writer == StatusWriter::Account
            && matches!(
                problem,
                WriteProblem::FieldConflict { .. } | WriteProblem::Rejected { code: 400..=403 | 409 | 422 | 500, .. }
            )
    });
    let refused = outcome_of(&Problem::Writes(vec![(ChildId::of(&snapshot.parent), refused?.clone())]));
    is_failing(&refused).then_some(refused)
}

/// When to try again to write a status. It is always tried again, because nothing else may ever happen to the parent.
fn status_not_written(snapshot: &Snapshot, problem: WriteProblem) -> Requeue {
    let failed = outcome_of(&Problem::Writes(vec![(ChildId::of(&snapshot.parent), problem)]));
    tracing::warn!(target: FAILURE, object = %snapshot.parent_ref, message = failed.message, "status was not written");
    failed.requeue
}
