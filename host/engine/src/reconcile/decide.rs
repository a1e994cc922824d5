//! Gets the plugin's response for a parent and carries it out, unless nothing has changed since the last response.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::contract::Phase;
use windlass_core::contract::related::{Next, ReadProblem, Rounds};
use windlass_core::contract::snapshot::Snapshot;
use windlass_core::object::observed_status::observed;
use windlass_core::reconcile::next_step::is_in_terminating_namespace;
use windlass_core::reconcile::outcome::{FinalizerEnd, NAMESPACE_PATIENCE, Problem, Progress, Requeue};
use windlass_core::reconcile::plan::Plan;
use windlass_core::value::digest::Digest;

use super::call::CallResult;
use super::carry_out::{is_current, unread};
use super::ending::{Attempt, Ending, Report};
use super::journal::Journal;
use super::selection::Selected;
use super::{CACHE_LAG, Reconciler, id_of_parent};
use crate::clock;
use crate::live::Live;
use crate::live::steady::Inputs;
use crate::queue::{Trigger, Turn};

impl Reconciler {
    /// Brings the children and status of a parent to the desired state.
    pub(super) async fn call_and_carry_out(
        &self,
        live: &Arc<Live>,
        mut snapshot: Snapshot,
        (phase, trigger): (Phase, Trigger),
        turn: &Turn<'_>,
        journal: &mut Journal,
    ) -> Ending {
        let is_sweep = trigger == Trigger::Sweep;
        let (rounds, Selected { objects, took }) = self.related.begin(live, &snapshot.parent_ref).await;
        snapshot.related = objects;
        snapshot.fit(live.limits.request_bytes);
        let key = snapshot.parent.key.clone();
        snapshot.namespace_terminating = phase == Phase::Finalize
            && live.records.with(&key, |record| record.is_namespace_terminating(&snapshot.parent.uid));
        let call_hash = snapshot.hash(&live.call_inputs, phase);
        let (compares, unchanged) = live.records.with(&key, |record| {
            // managedFields show changes by other managers; a change under the host's own field manager shows in the values alone.
            let is_due = || record.steady.is_comparison_due(live.resync, clock::now());
            let compares = phase == Phase::Sync && (trigger == Trigger::Resync || is_due());
            (compares, record.steady.before_call(live.state.id, call_hash, compares))
        });
        if let Some(requeue) = unchanged {
            return Ending::Unchanged(None, requeue);
        }
        if phase == Phase::Finalize
            && let Some(ending) = outdated(live, &snapshot).await
        {
            return ending;
        }
        let (result, call_hash) =
            match self.response(live, &mut snapshot, (phase, turn), (rounds, call_hash, took), journal).await {
                Ok(result) => result,
                Err(problem) => return no_response(snapshot, is_sweep, &problem),
            };
        let may_repeat = result.response.events.is_empty() && phase == Phase::Sync;
        let response = may_repeat.then(|| snapshot.hash_response(&live.rules, phase, &result.response));
        let call = result.is_pure.then_some((live.state.id, call_hash));
        let inputs = Inputs { call, response, is_compared: compares };
        let same = |response| live.records.with(&key, |record| record.steady.before_plan(response, compares));
        if let Some(requeue) = response.and_then(same) {
            // The deletions of other parents may wait for this response.
            self.guard(live, &snapshot, (Phase::Sync, true), &mut Plan::default());
            return Ending::Unchanged(Some(inputs), requeue);
        }
        let attempt = self.validate_and_carry_out(live, &snapshot, (phase, compares), result.response).await;
        if let Some(end) = finalizer_end(live, &snapshot, phase, &attempt) {
            let Attempt { part, applied, events, .. } = attempt;
            journal.note_writes(&applied);
            if !applied.written.is_empty() {
                live.records.with(&key, |record| record.own_writes().add(applied.written, clock::now()));
            }
            return self.end_clean_up(live, snapshot, (end, events), part.as_ref()).await;
        }
        Ending::Report(Box::new(Report { is_sweep, inputs, ..Report::new(snapshot, attempt) }))
    }

    /// Calls the plugin until it has seen all objects that its response requires. Returns the response and the call's hash.
    pub(super) async fn response(
        &self,
        live: &Arc<Live>,
        snapshot: &mut Snapshot,
        (phase, turn): (Phase, &Turn<'_>),
        (mut rounds, mut call_hash, mut selection): (Rounds, Digest, Duration),
        journal: &mut Journal,
    ) -> Result<(CallResult, Digest), Problem> {
        let parent = snapshot.parent_ref.clone();
        self.related.review_parent(live, &parent).await.map_err(Problem::Reads)?;
        let result = loop {
            // The selection of related objects is work that the plugin causes, like its call.
            let deadline = live.limits.deadline.saturating_sub(selection);
            let result = self.caller.call(live, snapshot, (phase, turn, deadline), &call_hash, journal).await?;
            let required =
                live.reads.grants.resolve(&result.response.requirements, &parent.key, live.limits.requirements);
            match rounds.answered(required.map_err(|refusal| Problem::Reads(refusal.into()))?) {
                Next::Final => break result,
                Next::Again => {
                    let served = self.related.serve(live, &parent, rounds.served()).await;
                    Selected { objects: snapshot.related, took: selection } = served.map_err(Problem::Reads)?;
                    snapshot.fit(live.limits.request_bytes);
                    call_hash = snapshot.hash(&live.call_inputs, phase);
                }
                Next::Unsettled => return Err(Problem::Reads(ReadProblem::Unsettled)),
            }
        };
        self.related.keep(&live.name, &parent.key, rounds.served());
        Ok((result, call_hash))
    }
}

/// Reads a parent before its plugin cleans up, and ends the reconcile if the cache shows another version. A clean-up must not be repeated,
/// and this host may not know of it: another host may have ended it while this one stood by or had other parents.
async fn outdated(live: &Live, snapshot: &Snapshot) -> Option<Ending> {
    match is_current(live, snapshot).await {
        Ok(true) => None,
        Ok(false) => Some(Ending::waits("waiting_for_watch", Requeue::Pause(CACHE_LAG))),
        Err(error) => {
            let unread = unread(&error, "before the plugin cleans up");
            Some(Ending::problem(snapshot.clone(), &Problem::Writes(vec![(id_of_parent(snapshot), unread)])))
        }
    }
}

/// Ends a reconcile without a response, and reports why.
fn no_response(snapshot: Snapshot, is_sweep: bool, problem: &Problem) -> Ending {
    let silent = is_omitted_from_status(problem) && is_observed(&snapshot);
    let attempt = Attempt { silent, ..Attempt::from(problem) };
    Ending::Report(Box::new(Report { is_sweep, ..Report::new(snapshot, attempt) }))
}

/// Why the finalizer of a parent is removed after this attempt, if it is. Records a rejection because of a terminating namespace, since the
/// finalizer is removed only if they last.
fn finalizer_end(live: &Live, snapshot: &Snapshot, phase: Phase, attempt: &Attempt) -> Option<FinalizerEnd> {
    let parent = &snapshot.parent;
    let is_namespace_terminating =
        phase == Phase::Finalize && parent.deleting && is_in_terminating_namespace(parent, &attempt.applied.problems);
    if is_namespace_terminating {
        let since =
            live.records.with(&parent.key, |record| record.note_namespace_terminating(&parent.uid, clock::now()));
        // Retained children cannot be kept in a namespace that is being deleted.
        return if attempt.finalized {
            Some(FinalizerEnd::CleanedUp)
        } else if since >= NAMESPACE_PATIENCE {
            Some(FinalizerEnd::NamespaceTerminating(snapshot.parent_ref.to_string()))
        } else {
            None
        };
    }
    (attempt.finalized && attempt.outcome.progress == Progress::Applied).then_some(FinalizerEnd::CleanedUp)
}

/// Whether the status is left as it is for this problem, if it already has the current generation.
fn is_omitted_from_status(problem: &Problem) -> bool {
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
    use windlass_core::value::ids::Gvk;

    use super::*;

    #[test]
    fn parent_does_not_become_unready_while_a_related_cache_is_filled_after_a_start() {
        let kind = || Gvk::from_api_version("v1", "Secret");
        assert!(is_omitted_from_status(&Problem::Reads(ReadProblem::NotFilled {
            kind: kind(),
            waited: Duration::from_secs(10)
        })));
        let refused = ReadProblem::NotWatched { kind: kind(), code: 403, message: String::new() };
        for reported in [refused, ReadProblem::Stalled { kind: kind(), message: String::new() }, ReadProblem::Unsettled]
        {
            assert!(!is_omitted_from_status(&Problem::Reads(reported)));
        }
    }
}
