//! Own writes first (rule R3): a parent is not decided again before the caches show what was written for it.

use super::{Ending, Reconciler};
use crate::cluster::writer::Subject;
use crate::live::Live;
use crate::live::own_writes::Wait;
use crate::reconcile::observe::around;
use std::sync::Arc;
use windlass_core::contract::Phase;
use windlass_core::ids::ObjectKey;
use windlass_core::next_step::{NextStep, next_step};
use windlass_core::outcome::{LOOK_AGAIN, Problem, Requeue, UNAVAILABLE, Verdict, WriteProblem};
use windlass_core::plan::ChildId;

impl Reconciler {
    /// Waits until the caches show all that the host wrote for the parent (rule R3). None once they do; else when to come back.
    pub(super) async fn own_writes_first(&self, live: &Arc<Live>, key: &ObjectKey) -> Option<Requeue> {
        let span = tracing::Span::current();
        let mut wait = self.own_writes.wait(&live.name, &**live, key);
        if let Wait::ForAnswers(subjects) = wait {
            for subject in subjects {
                match self.applier.look_up(live, key, &subject).await {
                    Ok(fact) => self.own_writes.looked_up(&live.name, key, &subject, fact),
                    Err(problem) => {
                        span.record("windlass.outcome", "unknown_write");
                        return Some(self.not_looked_up(live, key, subject, problem).await);
                    }
                }
            }
            wait = self.own_writes.wait(&live.name, &**live, key);
        }
        match wait {
            Wait::Over => None,
            Wait::ForWatch(wait) => {
                span.record("windlass.outcome", "waiting_for_own_writes");
                Some(Requeue::Pause(wait))
            }
            // Another run would have to look them up, and a parent has one run at a time.
            Wait::ForAnswers(_) => Some(UNAVAILABLE),
            Wait::Long { told: true, .. } => {
                span.record("windlass.outcome", "waiting_for_own_writes");
                Some(Requeue::Pause(LOOK_AGAIN))
            }
            Wait::Long { kinds, .. } => {
                let said = self.report_without_decision(live, key, &Problem::CacheBehind(kinds)).await;
                if said.as_ref().is_some_and(|said| said.is_reported) {
                    self.own_writes.told(&live.name, key);
                }
                Some(said.map_or(Requeue::Pause(LOOK_AGAIN), |said| said.requeue))
            }
        }
    }

    /// Ends a reconcile that could not find out whether an earlier write was carried out.
    pub(super) async fn not_looked_up(
        &self,
        live: &Arc<Live>,
        key: &ObjectKey,
        of: Subject,
        problem: WriteProblem,
    ) -> Requeue {
        let subject = match of {
            Subject::Parent => ChildId { kind: live.parents.id.kind.clone(), key: key.clone() },
            Subject::Child(child) => child,
        };
        // A refusal stays until a user changes something, so the parent's status reports it. Any other failure passes, and
        // would also keep the host from reading the parent.
        let is_refused = matches!(problem, WriteProblem::Rejected { .. });
        let problem = Problem::Writes(vec![(subject, problem)]);
        let said = if is_refused { self.report_without_decision(live, key, &problem).await } else { None };
        if let Some(said) = said {
            return said.requeue;
        }
        let verdict = Verdict::from(&problem);
        let message = verdict.message.as_str();
        tracing::warn!(plugin = %live.name, object = %key, message, "reconcile failed");
        live.failures.record(key, Some((verdict.reason, message)));
        verdict.requeue
    }

    /// Reports in a parent's status why the host decides nothing for it. The status is based on the parent as the API server has
    /// it: the cache may be behind, and a status based on it would overwrite the plugin's newer part. None if the parent could not
    /// be read.
    pub(super) async fn report_without_decision(
        &self,
        live: &Arc<Live>,
        key: &ObjectKey,
        problem: &Problem,
    ) -> Option<Ending> {
        let parent = live.parents.read(key).await.ok()??;
        live.memo.forget(key);
        let snapshot = around(live, Arc::new(parent));
        match next_step(&snapshot.parent, &live.name, live.finalizes, live.suspended, true) {
            // A user's annotation to skip the finalizer counts first.
            NextStep::RemoveFinalizer => Some(Ending::unreported(self.skip_finalizer(live, &snapshot).await)),
            NextStep::Leave | NextStep::Suspended | NextStep::Release => None,
            NextStep::Ask(phase) => {
                let attempt = self.without_plan(live, &snapshot, problem);
                Some(self.finish(live, &snapshot, (phase, false), attempt).await)
            }
            NextStep::AddFinalizer => {
                let attempt = self.without_plan(live, &snapshot, problem);
                Some(self.finish(live, &snapshot, (Phase::Sync, false), attempt).await)
            }
        }
    }
}
