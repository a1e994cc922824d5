//! Gets the plugin's response for a parent and carries it out, unless nothing has changed since the last response.

use super::{Attempt, Ending, Reconciler};
use crate::live::Live;
use crate::live::memo::Names;
use crate::live::terminating::{self};
use crate::queue::{Trigger, Turn};
use crate::reconcile::call::Answered;
use std::sync::Arc;
use std::time::Instant;
use windlass_core::contract::Phase;
use windlass_core::digest::Digest;
use windlass_core::events::FinalizerEnd;
use windlass_core::observed_status::observed;
use windlass_core::outcome::{NAMESPACE_PATIENCE, Problem, Progress, Requeue};
use windlass_core::plan::Plan;
use windlass_core::related::{Next, ReadProblem, Rounds};
use windlass_core::snapshot::Snapshot;

impl Reconciler {
    /// Brings the children and status of a parent to the desired state.
    pub(super) async fn decide(
        &self,
        live: &Arc<Live>,
        mut snapshot: Snapshot,
        phase: Phase,
        trigger: Trigger,
        turn: &Turn<'_>,
    ) -> Requeue {
        let sweep = trigger == Trigger::Sweep;
        snapshot.namespace_terminating =
            phase == Phase::Finalize && self.terminating.is_known(&live.name, &snapshot.parent);
        let (rounds, related) = self.related.begin(live, &snapshot.parent_ref).await;
        snapshot.related = related;
        snapshot.fit(live.limits.request_bytes);
        let first = snapshot.hash(&live.logic, phase);
        // managedFields show changes by other managers; a change under the host's own field manager shows in the values alone.
        let is_due = || live.memo.is_comparison_due(&snapshot.parent.key, live.resync, Instant::now());
        let compares = phase == Phase::Sync && (trigger == Trigger::Resync || is_due());
        if let Some(requeue) = live.memo.settled(&snapshot.parent.key, live.state.id, first, compares) {
            tracing::Span::current().record("windlass.outcome", "unchanged");
            return requeue;
        }
        let (answered, call) = match self.response(live, &mut snapshot, phase, (rounds, first), turn).await {
            Ok(answered) => answered,
            Err(problem) => return self.no_response(live, &snapshot, phase, sweep, &problem).await,
        };
        let key = &snapshot.parent.key;
        let answer = answered.response.events.is_empty() && phase == Phase::Sync;
        let answer = answer.then(|| snapshot.hash_answer(&live.rules, phase, &answered.response));
        let names = Names { call: answered.pure.then_some((live.state.id, call)), answer };
        if let Some(requeue) = answer.and_then(|answer| live.memo.answered(key, answer, compares)) {
            return self.same_response(live, &snapshot, names, requeue);
        }
        let attempt = self.attempt(live, &snapshot, (phase, compares), answered.response).await;
        let is_refused = phase == Phase::Finalize
            && snapshot.parent.deleting
            && terminating::refuses(&snapshot.parent, &attempt.applied.problems);
        let refused_for = is_refused.then(|| self.terminating.refused(&live.name, &snapshot.parent, Instant::now()));
        let end = match refused_for {
            _ if attempt.finalized && attempt.verdict.progress == Progress::Applied => Some(FinalizerEnd::CleanedUp),
            // Retained children cannot be kept in a namespace that is being deleted.
            Some(_) if attempt.finalized => Some(FinalizerEnd::CleanedUp),
            Some(time) if time >= NAMESPACE_PATIENCE => {
                Some(FinalizerEnd::NamespaceTerminating(snapshot.parent_ref.to_string()))
            }
            Some(_) | None => None,
        };
        if let Some(end) = end {
            self.own_writes.add(&live.name, key, attempt.applied.written);
            return self.remove_finalizer(live, &snapshot, &attempt.events, &end).await;
        }
        let (is_final, is_applied) = (attempt.is_final, attempt.verdict.progress == Progress::Applied);
        let Ending { requeue, wrote, .. } = self.finish(live, &snapshot, (phase, sweep), attempt).await;
        if compares && is_applied {
            live.memo.note_compared(key, Instant::now());
        }
        live.memo.keep(key, if is_final && !wrote { names } else { Names::default() }, requeue, compares);
        requeue
    }

    /// Ends a reconcile whose response is the one before about the same objects: there is nothing to write.
    pub(super) fn same_response(
        &self,
        live: &Arc<Live>,
        snapshot: &Snapshot,
        names: Names,
        requeue: Requeue,
    ) -> Requeue {
        let key = &snapshot.parent.key;
        // The deletions of other parents may wait for this response.
        self.guard(live, snapshot, (Phase::Sync, true), &mut Plan::default());
        live.failures.record(key, None);
        live.memo.keep_answered(key, names, requeue);
        tracing::Span::current().record("windlass.outcome", "unchanged");
        requeue
    }

    /// Ends a reconcile without a response, and reports why.
    pub(super) async fn no_response(
        &self,
        live: &Arc<Live>,
        snapshot: &Snapshot,
        phase: Phase,
        sweep: bool,
        problem: &Problem,
    ) -> Requeue {
        live.memo.forget(&snapshot.parent.key);
        let silent = passes_unsaid(problem) && is_observed(snapshot);
        let attempt = Attempt { silent, ..self.without_plan(live, snapshot, problem) };
        self.finish(live, snapshot, (phase, sweep), attempt).await.requeue
    }

    /// Calls the plugin until it has seen all objects that its response requires. Returns the response and the call's hash.
    pub(super) async fn response(
        &self,
        live: &Arc<Live>,
        snapshot: &mut Snapshot,
        phase: Phase,
        (mut rounds, mut name): (Rounds, Digest),
        turn: &Turn<'_>,
    ) -> Result<(Answered, Digest), Problem> {
        let parent = snapshot.parent_ref.clone();
        self.related.review_parent(live, &parent).await.map_err(Problem::Reads)?;
        let answered = loop {
            let answered = self.caller.call(live, snapshot, phase, &name, turn).await?;
            let required =
                live.reads.grants.resolve(&answered.response.requirements, &parent.key, live.limits.requirements);
            match rounds.answered(required.map_err(|refusal| Problem::Reads(refusal.into()))?) {
                Next::Final => break answered,
                Next::Again => {
                    let served = self.related.serve(live, &parent, rounds.served()).await;
                    snapshot.related = served.map_err(Problem::Reads)?;
                    snapshot.fit(live.limits.request_bytes);
                    name = snapshot.hash(&live.logic, phase);
                }
                Next::Unsettled => return Err(Problem::Reads(ReadProblem::Unsettled)),
            }
        };
        self.related.keep(&live.name, &parent.key, rounds.served());
        Ok((answered, name))
    }
}

/// Whether a problem is left out of the status of a parent whose status is about its current generation.
fn passes_unsaid(problem: &Problem) -> bool {
    // The Plugin's status reports a quarantine; ten thousand parents need not repeat it. After a start, a large cache takes a
    // while to fill, which harms no parent. A watch that fails or is silent is another problem.
    matches!(problem, Problem::Quarantined(_) | Problem::Reads(ReadProblem::NotFilled { .. }))
}

/// Whether the status is about the parent's current generation.
fn is_observed(snapshot: &Snapshot) -> bool {
    let observed = observed(&snapshot.parent).get("observedGeneration").cloned();
    observed.is_some() && observed == snapshot.parent.generation.map(Into::into)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use windlass_core::ids::Gvk;

    use super::*;

    #[test]
    fn parent_does_not_become_unready_while_a_related_cache_is_filled_after_a_start() {
        let kind = || Gvk::from_api_version("v1", "Secret");
        assert!(passes_unsaid(&Problem::Reads(ReadProblem::NotFilled {
            kind: kind(),
            waited: Duration::from_secs(10)
        })));
        let refused = ReadProblem::NotWatched { kind: kind(), code: 403, message: String::new() };
        for said in [refused, ReadProblem::Stalled { kind: kind(), message: String::new() }, ReadProblem::Unsettled] {
            assert!(!passes_unsaid(&Problem::Reads(said)));
        }
    }
}
