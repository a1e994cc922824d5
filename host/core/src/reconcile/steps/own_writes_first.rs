//! Own writes first (rule R3): a parent gets no new plan before the caches show the host's writes for it.

use std::sync::Arc;

use super::Reconcile;
use super::ending::{Ending, outcome_of};
use crate::object::child::ChildId;
use crate::object::reason::ParentReason;
use crate::reconcile::carry_out::look_up;
use crate::reconcile::next_step::NextStep;
use crate::reconcile::outcome::{LOOK_AGAIN, Outcome, Problem, Requeue, UNAVAILABLE, WriteProblem};
use crate::reconcile::record::own_writes::Wait;
use crate::reconcile::world::Read;
use crate::reconcile::written::{Subject, Written};

impl Reconcile<'_> {
    /// Reads the objects of writes with unknown outcome, and ends the reconcile if the caches do not show all writes
    /// for the parent yet (rule R3). None if they do.
    pub(super) async fn own_writes_first(&self) -> Option<Ending> {
        let mut wait = self.awaited();
        if let Wait::ForLookups(subjects) = wait {
            for subject in subjects {
                match look_up(self.world, self.key, &subject).await {
                    Ok(fact) => {
                        let now = self.shared.clock.now();
                        self.record(|record| record.own_writes().looked_up(&subject, fact, now));
                    }
                    Err(problem) => return Some(Box::pin(self.not_looked_up(subject, problem)).await),
                }
            }
            wait = self.awaited();
        }
        let waiting = |requeue| Some(Ending::waits("waiting_for_own_writes", requeue));
        match wait {
            Wait::Over => None,
            Wait::ForWatch(wait) => waiting(Requeue::Pause(wait)),
            // Not expected: a parent has one run at a time, and this run has read all these objects.
            Wait::ForLookups(_) => waiting(UNAVAILABLE),
            Wait::Long { is_reported: true, .. } => waiting(Requeue::Pause(LOOK_AGAIN)),
            Wait::Long { kinds, .. } => match Box::pin(self.without_cache(&Problem::CacheBehind(kinds))).await {
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

    /// Records writes that the caches must show before the parent's next plan.
    pub(super) fn add_own_writes(&self, written: impl IntoIterator<Item = Written>) {
        let mut written = written.into_iter().peekable();
        // Most reconciles write nothing.
        if written.peek().is_some() {
            self.record(|record| record.own_writes().add(written, self.shared.clock.now()));
        }
    }

    /// What the parent waits for. Most parents have no writes to wait for.
    fn awaited(&self) -> Wait {
        let shows = |write: &Written, at| self.world.shows(self.key, write, at);
        self.record(|record| {
            if record.has_own_writes() {
                record.own_writes().wait(&self.terms.parents, shows, self.shared.clock.now())
            } else {
                Wait::Over
            }
        })
    }

    /// Ends a reconcile that could not read the object of a write with unknown outcome.
    async fn not_looked_up(&self, of: Subject, problem: WriteProblem) -> Ending {
        let subject = match of {
            Subject::Parent => ChildId { kind: self.terms.parents.clone(), key: self.key.clone() },
            Subject::Child(child) => child,
        };
        // A rejection stays until a user changes something, so the parent's status reports it. Any other failure is
        // temporary, and would also keep the host from reading the parent.
        let is_refused = matches!(problem, WriteProblem::Rejected { .. });
        let problem = Problem::Writes(vec![(subject, problem)]);
        if is_refused && let Some(ending) = self.without_cache(&problem).await {
            return ending;
        }
        let Outcome { reason, message, requeue, .. } = outcome_of(&problem);
        Ending::Unreported { outcome: "unknown_write", reason, message, requeue }
    }

    /// Reports a problem that prevents a plan for the parent. The status is based on the parent in the API server: the
    /// cache may be behind, and a status based on it would overwrite newer fields of the plugin. None if the parent
    /// could not be read, or its status must not change.
    async fn without_cache(&self, problem: &Problem) -> Option<Ending> {
        let parent = self.world.read(Read::Parent(self.key)).await.ok()??;
        let snapshot = self.around(Arc::new(parent));
        match self.terms.next_step(&snapshot.parent, true) {
            // A user's annotation to skip the finalizer counts first.
            NextStep::RemoveFinalizer => Some(self.skip_clean_up(snapshot).await),
            NextStep::Leave | NextStep::Suspended | NextStep::DeleteChildren => None,
            NextStep::Call(_) | NextStep::AddFinalizer | NextStep::DeleteInOrder => {
                Some(Ending::problem(snapshot, problem))
            }
        }
    }
}
