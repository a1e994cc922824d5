//! Gets the plugin's response for a parent and carries it out, unless nothing has changed since the last response.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::contract::related::{Need, Needs, ReadProblem, Refusal};
use windlass_core::contract::snapshot::{Served, Snapshot};
use windlass_core::contract::{Phase, Requirement, Response};
use windlass_core::guard::deletions::SpecHash;
use windlass_core::object::Object;
use windlass_core::object::child::ChildId;
use windlass_core::object::observed_status::observed;
use windlass_core::object::parent::ParentRef;
use windlass_core::reconcile::next_step::is_in_terminating_namespace;
use windlass_core::reconcile::outcome::{FinalizerEnd, NAMESPACE_PATIENCE, Problem, Progress, Requeue};
use windlass_core::reconcile::plan::Plan;
use windlass_core::reconcile::record::steady::Inputs;
use windlass_core::reconcile::rounds::{Ask, respond};
use windlass_core::value::digest::Digest;

use super::carry_out::{is_current, unread};
use super::ending::{Attempt, Ending, Report};
use super::journal::Journal;
use super::selection::Selected;
use super::{CACHE_LAG, Reconciler};
use crate::clock;
use crate::live::Live;
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
        snapshot.fit(live.terms.limits.request_bytes);
        let key = snapshot.parent.key.clone();
        snapshot.namespace_terminating = phase == Phase::Finalize
            && live.shared.records.with(&key, |record| record.is_namespace_terminating(&snapshot.parent.uid));
        let call_hash = snapshot.hash(&live.terms.call_inputs, phase);
        let (compares, unchanged) = live.shared.records.with(&key, |record| {
            // managedFields show changes by other managers; a change under the host's own field manager shows in the values alone.
            let is_due = || record.steady.is_comparison_due(live.terms.resync, clock::now());
            let compares = phase == Phase::Sync && (trigger == Trigger::Resync || is_due());
            (compares, record.steady.before_call(live.shared.state.id, call_hash, compares))
        });
        if let Some(requeue) = unchanged {
            return Ending::Unchanged(None, requeue);
        }
        if phase == Phase::Finalize
            && let Some(ending) = outdated(live, &snapshot).await
        {
            return ending;
        }
        if let Err(problem) = self.related.review_parent(live, &snapshot.parent_ref).await {
            return no_response(snapshot, is_sweep, &Problem::Reads(problem));
        }
        let parent = snapshot.parent_ref.clone();
        let (selection, hash) = (took, Some(call_hash));
        let mut asking =
            Asking { reconciler: self, live, parent, phase, turn, journal, hash, selection, is_pure: false };
        let (response, needs) = match respond(&mut asking, &mut snapshot, rounds, live.terms.limits.request_bytes).await
        {
            Ok(result) => result,
            Err(problem) => return no_response(snapshot, is_sweep, &problem),
        };
        let call = asking.is_pure.then(|| (live.shared.state.id, asking.hash(&snapshot)));
        self.related.keep(&live.terms.name, &key, &needs);
        let may_repeat = response.events.is_empty() && phase == Phase::Sync;
        let hash = may_repeat.then(|| snapshot.hash_response(&live.terms.rules, phase, &response));
        let inputs = Inputs { call, response: hash, is_compared: compares };
        let same = |hash| live.shared.records.with(&key, |record| record.steady.before_plan(hash, compares));
        if let Some(requeue) = hash.and_then(same) {
            // Tells the rollout that this parent was called and deletes nothing: other parents may wait for that.
            self.guard(live, &snapshot, (Phase::Sync, true), &mut Plan::default());
            note_observed(live, &snapshot.parent);
            return Ending::Unchanged(Some(inputs), requeue);
        }
        let attempt = self.validate_and_carry_out(live, &snapshot, (phase, compares), response).await;
        if let Some(end) = finalizer_end(live, &snapshot, phase, &attempt) {
            let Attempt { part, applied, events, .. } = attempt;
            journal.note_writes(&applied);
            if !applied.written.is_empty() {
                live.shared.records.with(&key, |record| record.own_writes().add(applied.written, clock::now()));
            }
            return self.end_clean_up(live, snapshot, (end, events), part.as_ref()).await;
        }
        Ending::Report(Box::new(Report { is_sweep, inputs, ..Report::new(snapshot, attempt) }))
    }
}

/// The calls of one reconcile.
struct Asking<'a> {
    reconciler: &'a Reconciler,
    live: &'a Arc<Live>,
    parent: ParentRef,
    phase: Phase,
    turn: &'a Turn<'a>,
    journal: &'a mut Journal,
    /// Hash of a call with the snapshot as it is; none once it has changed.
    hash: Option<Digest>,
    /// The time that the selection of related objects took: work that the plugin causes, like its call.
    selection: Duration,
    /// Whether the last response depends on nothing but the snapshot.
    is_pure: bool,
}

impl Asking<'_> {
    fn hash(&self, snapshot: &Snapshot) -> Digest {
        self.hash.unwrap_or_else(|| snapshot.hash(&self.live.terms.call_inputs, self.phase))
    }
}

impl Ask for Asking<'_> {
    type Problem = Problem;

    async fn call(&mut self, snapshot: &Snapshot) -> Result<Response, Problem> {
        let hash = self.hash(snapshot);
        self.hash = Some(hash);
        let deadline = self.live.terms.limits.deadline.saturating_sub(self.selection);
        let how = (self.phase, self.turn, deadline);
        let result = self.reconciler.caller.call(self.live, snapshot, how, &hash, self.journal).await?;
        self.is_pure = result.is_pure;
        Ok(result.response)
    }

    fn resolve(&self, required: &[Requirement]) -> Result<Vec<Need>, Refusal> {
        let terms = &self.live.terms;
        terms.reads.resolve(required, &self.parent.key, terms.limits.requirements)
    }

    async fn serve(&mut self, needs: &Needs) -> Result<Vec<Served>, Problem> {
        let Selected { objects, took } = self.reconciler.related.serve(self.live, &self.parent, needs).await?;
        (self.selection, self.hash) = (took, None);
        Ok(objects)
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
            Some(Ending::problem(snapshot.clone(), &Problem::Writes(vec![(ChildId::of(&snapshot.parent), unread)])))
        }
    }
}

/// Ends a reconcile without a response, and reports why.
fn no_response(snapshot: Snapshot, is_sweep: bool, problem: &Problem) -> Ending {
    let silent = is_omitted_from_status(problem) && is_observed(&snapshot);
    let attempt = Attempt { silent, ..Attempt::from(problem) };
    Ending::Report(Box::new(Report { is_sweep, ..Report::new(snapshot, attempt) }))
}

/// Remembers the spec of a parent, as `status.observedGeneration` does for a kind whose status the host writes.
pub(super) fn note_observed(live: &Live, parent: &Object) {
    let observed = (!live.terms.shape.has_generation()).then(|| SpecHash::of(parent));
    live.shared.records.with(&parent.key, |record| record.observed = observed);
}

/// Why the finalizer of a parent is removed after this attempt, if it is. Records a rejection because of a terminating namespace, since the
/// finalizer is removed only if they last.
fn finalizer_end(live: &Live, snapshot: &Snapshot, phase: Phase, attempt: &Attempt) -> Option<FinalizerEnd> {
    let parent = &snapshot.parent;
    let is_namespace_terminating =
        phase == Phase::Finalize && parent.deleting && is_in_terminating_namespace(parent, &attempt.applied.problems);
    if is_namespace_terminating {
        let since = live
            .shared
            .records
            .with(&parent.key, |record| record.note_namespace_terminating(&parent.uid, clock::now()));
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
