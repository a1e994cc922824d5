//! The end of a reconcile: the status, the events and the record of what was written.

use super::{Attempt, Ending, Reconciler, id_of_parent};
use crate::live::{Live, StatusWriter};
use crate::queue::Trigger;
use crate::reconcile::report::{Happened, Reported};
use crate::telemetry::{self, TRACE};
use tracing::Instrument;
use tracing::field::Empty;
use windlass_core::contract::Phase;
use windlass_core::json::Map;
use windlass_core::outcome::{BACKOFF, Problem, Progress, Requeue, Verdict, WriteProblem};
use windlass_core::snapshot::Snapshot;

impl Reconciler {
    /// Writes the status and records all writes, so that the next reconcile waits for them. `sweep`: all parents of the plugin are
    /// reconciled, and not this one alone.
    pub(super) async fn finish(
        &self,
        live: &Live,
        snapshot: &Snapshot,
        (phase, sweep): (Phase, bool),
        attempt: Attempt,
    ) -> Ending {
        let Attempt { part, applied, mut verdict, silent, events, .. } = attempt;
        if phase == Phase::Finalize && snapshot.parent.deleting {
            verdict = verdict.while_finalizing();
        }
        tracing::Span::current().record("windlass.outcome", verdict.reason.as_str());
        if is_failing(verdict.progress) && !silent {
            tracing::warn!(
                plugin = %live.name,
                object = %snapshot.parent_ref,
                reason = verdict.reason.as_str(),
                message = %telemetry::one_line(&verdict.message),
                "reconcile failed"
            );
        }
        let reported =
            if silent { Reported::default() } else { self.report(live, snapshot, part.as_ref(), &mut verdict).await };
        self.reporter.tell(
            live,
            snapshot,
            Happened {
                changes: &applied.changes,
                verdict: reported.instead.as_ref().unwrap_or(&verdict),
                status_differs: reported.written.is_some() || reported.failed.is_some(),
                silent,
                events: &events,
                sweep,
            },
        );
        if part.is_some() && live.status_writer == StatusWriter::Nobody && live.state.note_unwritten_status() {
            // The Plugin's status reports it.
            self.plugins.add(&(), &live.name, Trigger::Resync);
        }
        if live.budget.lock().take_news() {
            self.plugins.add(&(), &live.name, Trigger::Fresh);
        }
        let mut written = applied.written;
        written.extend(reported.written);
        let is_reported = !silent && reported.failed.is_none() && reported.again.is_none();
        let refused = reported.failed.as_ref().filter(|problem| is_refused_status(live, problem)).cloned();
        let refused = refused.map(|problem| Verdict::from(&Problem::Writes(vec![(id_of_parent(snapshot), problem)])));
        let requeue = match reported.failed {
            None => reported.again.map_or(verdict.requeue, Requeue::After),
            Some(problem) => status_not_written(snapshot, problem),
        };
        let wrote = !written.is_empty();
        self.own_writes.add(&live.name, &snapshot.parent.key, written);
        if !silent {
            let verdict = refused.as_ref().filter(|_| !is_failing(verdict.progress)).unwrap_or(&verdict);
            let failure = is_failing(verdict.progress).then_some((verdict.reason, verdict.message.as_str()));
            live.failures.record(&snapshot.parent.key, failure);
        }
        Ending { requeue, wrote, is_reported }
    }

    pub(super) async fn report(
        &self,
        live: &Live,
        snapshot: &Snapshot,
        part: Option<&Map>,
        verdict: &mut Verdict,
    ) -> Reported {
        let span = tracing::debug_span!(target: TRACE, "report", windlass.status_written = Empty);
        let mut reported =
            self.reporter.report(live, snapshot, part, verdict, &self.breaker).instrument(span.clone()).await;
        if let (Some(_), Some(WriteProblem::Rejected { code, message, .. })) = (part, &reported.failed)
            && *code != 404
        {
            // The plugin's part does not fit the kind's schema; the host's part is written without it.
            *verdict = Verdict::from(&Problem::StatusRejected(message.clone()));
            reported =
                self.reporter.report(live, snapshot, None, verdict, &self.breaker).instrument(span.clone()).await;
        }
        span.record("windlass.status_written", reported.failed.is_none() && reported.written.is_some());
        reported
    }
}

/// Whether a parent does not have its desired state, and no user asked for that.
pub(super) fn is_failing(progress: Progress) -> bool {
    matches!(progress, Progress::Reconciling | Progress::Stalled)
}

/// Whether the API server refused a status of a kind that is not the plugin's own: the parent's status cannot report that.
fn is_refused_status(live: &Live, problem: &WriteProblem) -> bool {
    live.status_writer == StatusWriter::Account
        && matches!(problem, WriteProblem::FieldConflict { .. } | WriteProblem::Rejected { code: 400..=403 | 422, .. })
}

/// When to try again to write a status. It is always tried again, because nothing else may ever happen to the parent.
fn status_not_written(snapshot: &Snapshot, problem: WriteProblem) -> Requeue {
    if matches!(problem, WriteProblem::Rejected { code: 404, .. }) {
        // The parent is gone, as its event will show.
        return BACKOFF;
    }
    let failed = Verdict::from(&Problem::Writes(vec![(id_of_parent(snapshot), problem)]));
    tracing::warn!(object = %snapshot.parent_ref, message = failed.message, "status was not written");
    failed.requeue
}
