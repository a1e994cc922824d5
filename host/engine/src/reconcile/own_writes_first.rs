//! Own writes first (rule R3): a parent gets no new plan before the caches show the host's writes for it.

use std::sync::Arc;

use windlass_core::object::child::ChildId;
use windlass_core::object::reason::ParentReason;
use windlass_core::reconcile::carry_out::look_up;
use windlass_core::reconcile::next_step::NextStep;
use windlass_core::reconcile::outcome::{LOOK_AGAIN, Outcome, Problem, Requeue, UNAVAILABLE, WriteProblem};
use windlass_core::reconcile::record::own_writes::Wait;
use windlass_core::reconcile::written::Subject;
use windlass_core::value::ids::ObjectKey;

use super::Reconciler;
use super::ending::{Ending, outcome_of};
use super::observe::around;
use crate::clock;
use crate::live::Live;
use crate::live::own_writes::Shown;

impl Reconciler {
    /// Reads the objects of writes with unknown outcome, and ends the reconcile if the caches do not show all writes
    /// for the parent yet (rule R3). None if they do.
    pub(super) async fn own_writes_first(&self, live: &Arc<Live>, key: &ObjectKey) -> Option<Ending> {
        let mut wait = awaited(live, key);
        if let Wait::ForLookups(subjects) = wait {
            for subject in subjects {
                match look_up(&self.worlds.of(live), key, &subject).await {
                    Ok(fact) => live.shared.records.with(key, |record| {
                        record.own_writes().looked_up(&subject, fact, clock::now());
                    }),
                    Err(problem) => return Some(self.not_looked_up(live, key, subject, problem).await),
                }
            }
            wait = awaited(live, key);
        }
        let waiting = |requeue| Some(Ending::waits("waiting_for_own_writes", requeue));
        match wait {
            Wait::Over => None,
            Wait::ForWatch(wait) => waiting(Requeue::Pause(wait)),
            // Not expected: a parent has one run at a time, and this run has read all these objects.
            Wait::ForLookups(_) => waiting(UNAVAILABLE),
            Wait::Long { is_reported: true, .. } => waiting(Requeue::Pause(LOOK_AGAIN)),
            Wait::Long { kinds, .. } => match self.without_cache(live, key, &Problem::CacheBehind(kinds)).await {
                Some(Ending::Report(mut report)) => {
                    // A finalizer that could not be removed is another outcome, and is tried again.
                    report.is_long_wait = report.attempt.outcome.reason == ParentReason::CacheBehind;
                    Some(Ending::Report(report))
                }
                Some(ending) => Some(ending),
                None => waiting(Requeue::Pause(LOOK_AGAIN)),
            },
        }
    }

    /// Ends a reconcile that could not read the object of a write with unknown outcome.
    async fn not_looked_up(&self, live: &Arc<Live>, key: &ObjectKey, of: Subject, problem: WriteProblem) -> Ending {
        let subject = match of {
            Subject::Parent => ChildId { kind: live.terms.parents.clone(), key: key.clone() },
            Subject::Child(child) => child,
        };
        // A rejection stays until a user changes something, so the parent's status reports it. Any other failure is
        // temporary, and would also keep the host from reading the parent.
        let is_refused = matches!(problem, WriteProblem::Rejected { .. });
        let problem = Problem::Writes(vec![(subject, problem)]);
        if is_refused && let Some(ending) = self.without_cache(live, key, &problem).await {
            return ending;
        }
        let Outcome { reason, message, requeue, .. } = outcome_of(&problem);
        Ending::Unreported { outcome: "unknown_write", reason, message, requeue }
    }

    /// Reports a problem that prevents a plan for the parent. The status is based on the parent in the API server: the
    /// cache may be behind, and a status based on it would overwrite newer fields of the plugin. None if the parent
    /// could not be read, or its status must not change.
    async fn without_cache(&self, live: &Arc<Live>, key: &ObjectKey, problem: &Problem) -> Option<Ending> {
        let parent = live.caches.parents.read(key).await.ok()??;
        let snapshot = around(live, Arc::new(parent));
        match live.terms.next_step(&snapshot.parent, true) {
            // A user's annotation to skip the finalizer counts first.
            NextStep::RemoveFinalizer => Some(self.skip_clean_up(live, snapshot).await),
            NextStep::Leave | NextStep::Suspended | NextStep::DeleteChildren => None,
            NextStep::Call(_) | NextStep::AddFinalizer => Some(Ending::problem(snapshot, problem)),
        }
    }
}

/// What the parent waits for. Most parents have no writes to wait for.
fn awaited(live: &Live, key: &ObjectKey) -> Wait {
    live.shared.records.with(key, |record| {
        if record.has_own_writes() {
            record.own_writes().wait(&Shown(&live.caches), key, clock::now())
        } else {
            Wait::Over
        }
    })
}
