//! The plugin's finalizer on a parent (rule R14).

use std::sync::Arc;

use tracing::Instrument;

use super::ending::{Attempt, Ending, FinalizerChanged, Last, outcome_of};
use super::{CACHE_LAG, Follows, Reconcile, TRACE};
use crate::contract::snapshot::Snapshot;
use crate::guard::breaker::ParentRevision;
use crate::object::Object;
use crate::object::child::ChildId;
use crate::object::names::ANNOTATION_SKIP_FINALIZE;
use crate::reconcile::api_response::Refused;
use crate::reconcile::applied::Failed;
use crate::reconcile::carry_out::set_finalizer;
use crate::reconcile::next_step::{
    FinalizerChange, NextStep, finalizers_with, has_finalizer, is_in_terminating_namespace, is_ordered_after,
};
use crate::reconcile::outcome::{
    FinalizerEnd, NAMESPACE_PATIENCE, Problem, Progress, Requeue, UNAVAILABLE, WriteProblem,
};
use crate::reconcile::terms::Terms;
use crate::reconcile::world::Read;
use crate::reconcile::written::Written;

/// How often the removal of a finalizer is tried at once.
const ATTEMPTS: usize = 4;

impl Reconcile<'_> {
    /// Removes the finalizer of a parent that is being deleted and has the annotation to skip it, even if the caches
    /// are out of date. While the watch of the parents is rejected or stalled, the annotation is read from the API
    /// server. None if the finalizer stays.
    pub(super) async fn skip_clean_up_unobserved(&self) -> Option<Ending> {
        let cached = self.world.cached_parent(self.key)?;
        let is_asked = cached.deleting && cached.marks.is_true(ANNOTATION_SKIP_FINALIZE);
        let is_unknown = || self.world.follows() == Follows::NotParents && has_finalizer(&cached, &self.terms.name);
        if !(is_asked || is_unknown()) {
            return None;
        }
        let parent = self.world.read(Read::Parent(self.key)).await.ok()??;
        let snapshot = self.around(Arc::new(parent));
        if !snapshot.parent.deleting || self.terms.next_step(&snapshot.parent, true) != NextStep::RemoveFinalizer {
            return None;
        }
        Some(self.skip_clean_up(snapshot).await)
    }

    /// Sets the finalizer, if the plugin may have one on this parent.
    pub(super) async fn add_finalizer(&self, snapshot: Snapshot) -> Ending {
        match self.world.may_finalize(&snapshot.parent_ref).await {
            Ok(()) => self.set_finalizer(snapshot, None, Last::default()).await,
            Err(problem) => of_write(snapshot, problem),
        }
    }

    /// Removes the finalizer, because the plugin does not finalize (any more), or a user set the annotation to skip it.
    pub(super) async fn skip_clean_up(&self, snapshot: Snapshot) -> Ending {
        if snapshot.parent.marks.is_true(ANNOTATION_SKIP_FINALIZE) {
            return self.end_clean_up(snapshot, FinalizerEnd::Skipped, Last::default()).await;
        }
        self.set_finalizer(snapshot, Some(FinalizerEnd::Unneeded), Last::default()).await
    }

    /// Reads a parent before its plugin cleans up, and ends the reconcile if the cache shows another version. A clean-up must not be
    /// repeated, and this host may not know of it: another host may have ended it while this one stood by or had other parents.
    pub(super) async fn outdated_before_clean_up(&self, snapshot: &Snapshot) -> Option<Ending> {
        match self.is_current(snapshot).await {
            Ok(true) => None,
            Ok(false) => Some(Ending::waits("waiting_for_watch", Requeue::Pause(CACHE_LAG))),
            Err(refused) => Some(of_write(snapshot.clone(), unread(&refused, "before the plugin cleans up"))),
        }
    }

    /// Why the finalizer of a parent is removed after this attempt to clean up, if it is. Records a rejection because of a terminating namespace, since
    /// the finalizer is removed only if they last.
    /// `end`: what a complete attempt is called.
    pub(super) fn end_of_finalizer(
        &self,
        snapshot: &Snapshot,
        attempt: &Attempt,
        end: FinalizerEnd,
    ) -> Option<FinalizerEnd> {
        let parent = &snapshot.parent;
        let is_namespace_terminating =
            parent.deleting && is_in_terminating_namespace(parent, &attempt.applied.problems);
        if !is_namespace_terminating {
            let has_cleaned_up = attempt.finalized && attempt.outcome.progress == Progress::Applied;
            return has_cleaned_up.then_some(end);
        }
        let now = self.shared.clock.now();
        let since = self.record(|record| record.note_namespace_terminating(&parent.uid, now));
        // Retained children cannot be kept in a namespace that is being deleted.
        if attempt.finalized {
            Some(end)
        } else {
            (since >= NAMESPACE_PATIENCE).then(|| FinalizerEnd::NamespaceTerminating(snapshot.parent_ref.to_string()))
        }
    }

    /// Removes the finalizer of a parent for which there will be no further call. If the parent stays, because it has other finalizers or
    /// is only deselected, its last status is written before. A parent that is about to be gone needs none.
    /// If its children are to be deleted by stage now, another reconcile does that and ends the clean-up.
    pub(super) async fn end_clean_up(&self, mut snapshot: Snapshot, end: FinalizerEnd, last: Last) -> Ending {
        if self.change_to(&snapshot.parent, Some(&end)) == FinalizerChange::CleanedUp {
            return self.set_finalizer(snapshot, Some(end), last).await;
        }
        let others = finalizers_with(&snapshot.parent, &self.terms.name, FinalizerChange::Remove);
        let problem = if !snapshot.parent.deleting {
            // Without a clean-up, its children are deleted next, which is reported then.
            matches!(end, FinalizerEnd::CleanedUp | FinalizerEnd::ChildrenDeleted)
                .then(|| Problem::Released(self.terms.name.clone()))
        } else if others.is_empty() {
            None
        } else {
            Some(Problem::FinalizerRemoved { end: end.clone(), others })
        };
        if let Some(problem) = problem {
            let reported = self.report(&snapshot, last.part.as_ref(), &mut outcome_of(&problem)).await;
            if let Some(written) = reported.written {
                self.add_own_writes([written]);
                snapshot.parent = self.unchanged_but_for_status(snapshot.parent).await;
            }
        }
        self.set_finalizer(snapshot, Some(end), last).await
    }

    /// What happens to the finalizers of a parent, if they are removed for a reason, or set.
    fn change_to(&self, parent: &Object, removed: Option<&FinalizerEnd>) -> FinalizerChange {
        let Terms { name, clean_up, .. } = self.terms;
        match removed {
            None => FinalizerChange::Set(*clean_up),
            Some(FinalizerEnd::CleanedUp) if is_ordered_after(parent, name, *clean_up) => FinalizerChange::CleanedUp,
            Some(_) => FinalizerChange::Remove,
        }
    }

    /// Sets the finalizers, or removes them for a reason. This is the reconcile's last write.
    pub(super) async fn set_finalizer(&self, snapshot: Snapshot, removed: Option<FinalizerEnd>, last: Last) -> Ending {
        let parent = &snapshot.parent;
        let (revision, now) = (ParentRevision::of(parent), self.shared.clock.now());
        let admitted = self.shared.breaker.lock().admit(revision, &parent.kind, &parent.key, now);
        let problem = if let Err(wait) = admitted {
            // Another manager undoes the write each time.
            Problem::Thrashing(vec![(ChildId::of(parent), wait)])
        } else {
            let written = self.write_finalizer(parent, self.change_to(parent, removed.as_ref()));
            match written.instrument(tracing::debug_span!(target: TRACE, "apply")).await {
                Ok(written) => {
                    return Ending::FinalizerChanged(Box::new(FinalizerChanged { snapshot, written, removed, last }));
                }
                Err(Failed { problem, awaited }) => {
                    self.add_own_writes(awaited.map(|awaited| *awaited));
                    if problem == WriteProblem::Outdated {
                        // The parent has changed, and the cache will show the change.
                        return Ending::waits("finalizer_outdated", UNAVAILABLE);
                    }
                    Problem::Writes(vec![(ChildId::of(parent), problem)])
                }
            }
        };
        Ending::outcome(snapshot, Attempt { applied: last.applied, ..Attempt::from(&problem) })
    }

    /// Writes the finalizers. If a parent that is being deleted has changed since the plugin has cleaned up, its finalizer is removed from
    /// the newer version: another call would clean up again.
    async fn write_finalizer(&self, parent: &Arc<Object>, change: FinalizerChange) -> Result<Written, Failed> {
        let mut parent = parent.clone();
        let is_repeated = !matches!(change, FinalizerChange::Set(_)) && parent.deleting;
        for _ in 1..ATTEMPTS {
            let failed = match set_finalizer(self.world, &self.terms.name, &parent, change).await {
                Err(failed) if failed.problem == WriteProblem::Outdated && is_repeated => failed,
                result => return result,
            };
            match self.world.read(Read::Parent(self.key)).await {
                Ok(Some(now)) if now.uid == parent.uid && has_finalizer(&now, &self.terms.name) => {
                    parent = Arc::new(now);
                }
                _ => return Err(failed),
            }
        }
        set_finalizer(self.world, &self.terms.name, &parent, change).await
    }

    /// A parent after a write of its status: as the API server has it, unless it cannot be read or is another one.
    async fn unchanged_but_for_status(&self, parent: Arc<Object>) -> Arc<Object> {
        match self.world.read(Read::Parent(self.key)).await {
            Ok(Some(now)) if (&now.uid, now.deleting) == (&parent.uid, parent.deleting) => Arc::new(now),
            _ => parent,
        }
    }

    /// Whether the cache shows the parent as the API server does. Another host may just have handed it over, and have blocked
    /// deletions in its status. If not, the watch shows the change, and the parent is reconciled again.
    pub(super) async fn is_current(&self, snapshot: &Snapshot) -> Result<bool, Refused> {
        let parent = &snapshot.parent;
        let now = self.world.read(Read::Parent(self.key)).await?;
        Ok(now.is_some_and(|now| now.uid == parent.uid && now.resource_version <= parent.resource_version))
    }
}

/// Why a reconcile goes no further: the parent could not be read, as is due before this.
pub(super) fn unread(refused: &Refused, before: &str) -> WriteProblem {
    let message = format!("it cannot be read, and is read {before}: {refused}");
    WriteProblem::Unavailable { message, retry_after: None }
}

/// Ends a reconcile in which the parent could not be read or written.
fn of_write(snapshot: Snapshot, problem: WriteProblem) -> Ending {
    let problem = Problem::Writes(vec![(ChildId::of(&snapshot.parent), problem)]);
    Ending::problem(snapshot, &problem)
}
