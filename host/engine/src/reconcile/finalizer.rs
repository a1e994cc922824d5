//! The plugin's finalizer on a parent (rule R14).

use std::sync::Arc;

use tracing::Instrument;
use windlass_core::contract::Event;
use windlass_core::contract::snapshot::Snapshot;
use windlass_core::guard::breaker::ParentRevision;
use windlass_core::object::Object;
use windlass_core::object::child::ChildId;
use windlass_core::object::names::ANNOTATION_SKIP_FINALIZE;
use windlass_core::reconcile::applied::Failed;
use windlass_core::reconcile::carry_out::{FinalizerWrite, set_finalizer};
use windlass_core::reconcile::next_step::{NextStep, finalizer_of, finalizers_with, has_finalizer};
use windlass_core::reconcile::outcome::{FinalizerEnd, Problem, UNAVAILABLE, WriteProblem};
use windlass_core::value::ids::ObjectKey;
use windlass_core::value::json::Map;

use super::Reconciler;
use super::ending::{Ending, FinalizerChanged, outcome_of};
use super::observe::around;
use crate::clock;
use crate::live::Live;
use crate::telemetry::TRACE;

/// How often the removal of a finalizer is tried at once.
const ATTEMPTS: usize = 4;

impl Reconciler {
    /// Removes the finalizer of a parent that is being deleted and has the annotation to skip it, even if the caches
    /// are out of date. While the watch of the parents is rejected or stalled, the annotation is read from the API
    /// server. None if the finalizer stays.
    pub(super) async fn skip_clean_up_unobserved(&self, live: &Arc<Live>, key: &ObjectKey) -> Option<Ending> {
        let cached = live.caches.parents.store.get(key)?;
        let is_asked = cached.deleting && cached.marks.is_true(ANNOTATION_SKIP_FINALIZE);
        let has_finalizer = || cached.finalizers.iter().any(|name| **name == *finalizer_of(&live.terms.name));
        if !(is_asked || !live.caches.parents.is_followed() && has_finalizer()) {
            return None;
        }
        let parent = live.caches.parents.read(key).await.ok()??;
        let snapshot = around(live, Arc::new(parent));
        match live.terms.next_step(&snapshot.parent, true) {
            NextStep::RemoveFinalizer if snapshot.parent.deleting => Some(self.skip_clean_up(live, snapshot).await),
            NextStep::RemoveFinalizer
            | NextStep::Call(_)
            | NextStep::AddFinalizer
            | NextStep::Suspended
            | NextStep::Leave
            | NextStep::DeleteChildren => None,
        }
    }

    /// Sets the finalizer, if the plugin's ServiceAccount may have one on this parent.
    pub(super) async fn add_finalizer(&self, live: &Live, snapshot: Snapshot) -> Ending {
        match self.related.review_finalizer(live, &snapshot.parent_ref).await {
            Ok(()) => self.set_finalizer(live, snapshot, None).await,
            Err(problem) => of_write(snapshot, problem),
        }
    }

    /// Removes the finalizer, because the plugin does not finalize (any more), or a user set the annotation to skip it.
    pub(super) async fn skip_clean_up(&self, live: &Live, snapshot: Snapshot) -> Ending {
        let is_asked = snapshot.parent.marks.is_true(ANNOTATION_SKIP_FINALIZE);
        if is_asked {
            return self.end_clean_up(live, snapshot, (FinalizerEnd::Skipped, Vec::new()), None).await;
        }
        self.remove_finalizer(live, snapshot, FinalizerEnd::Unneeded, Vec::new()).await
    }

    /// Removes the finalizer of a parent for which there will be no further call. If the parent stays, because it has other finalizers or
    /// is only deselected, its last status is written before. A parent that is about to be gone needs none.
    pub(super) async fn end_clean_up(
        &self,
        live: &Live,
        mut snapshot: Snapshot,
        (end, last_events): (FinalizerEnd, Vec<Event>),
        part: Option<&Map>,
    ) -> Ending {
        let others = finalizers_with(&snapshot.parent, &live.terms.name, false);
        let last = if !snapshot.parent.deleting {
            // Without a clean-up, its children are deleted next, which is reported then.
            (end == FinalizerEnd::CleanedUp).then(|| Problem::Released(live.terms.name.clone()))
        } else if others.is_empty() {
            None
        } else {
            Some(Problem::FinalizerRemoved { end: end.clone(), others })
        };
        if let Some(last) = last {
            let reported = self.report(live, &snapshot, part, &mut outcome_of(&last)).await;
            if let Some(written) = reported.written {
                live.shared
                    .records
                    .with(&snapshot.parent.key, |record| record.own_writes().add([written], clock::now()));
                snapshot.parent = unchanged_but_for_status(live, snapshot.parent).await;
            }
        }
        self.remove_finalizer(live, snapshot, end, last_events).await
    }

    /// Removes the finalizer. An event says why, after the plugin's last events.
    pub(super) async fn remove_finalizer(
        &self,
        live: &Live,
        snapshot: Snapshot,
        end: FinalizerEnd,
        last_events: Vec<Event>,
    ) -> Ending {
        self.set_finalizer(live, snapshot, Some((end, last_events))).await
    }

    /// Sets the finalizer, or removes it for a reason. This is the reconcile's last write.
    async fn set_finalizer(
        &self,
        live: &Live,
        snapshot: Snapshot,
        removed: Option<(FinalizerEnd, Vec<Event>)>,
    ) -> Ending {
        let admitted = {
            let parent = &snapshot.parent;
            let revision = ParentRevision::of(parent);
            self.breaker.lock().admit(revision, &parent.kind, &parent.key, clock::now())
        };
        if let Err(wait) = admitted {
            // Another manager undoes the write each time.
            let thrashing = Problem::Thrashing(vec![(ChildId::of(&snapshot.parent), wait)]);
            return Ending::problem(snapshot, &thrashing);
        }
        let set = self.write_finalizer(live, &snapshot.parent, removed.is_none());
        match set.instrument(tracing::debug_span!(target: TRACE, "apply")).await {
            Ok(write) => Ending::FinalizerChanged(Box::new(FinalizerChanged { snapshot, write, removed })),
            Err(Failed { problem, awaited }) => {
                if let Some(awaited) = awaited {
                    let now = clock::now();
                    live.shared.records.with(&snapshot.parent.key, |record| record.own_writes().add([*awaited], now));
                }
                if problem == WriteProblem::Outdated {
                    // The parent has changed, and the cache will show the change.
                    return Ending::waits("finalizer_outdated", UNAVAILABLE);
                }
                of_write(snapshot, problem)
            }
        }
    }

    /// Writes the finalizers. If a parent that is being deleted has changed since the plugin has cleaned up, its finalizer is removed from
    /// the newer version: another call would clean up again.
    async fn write_finalizer(&self, live: &Live, parent: &Arc<Object>, wanted: bool) -> Result<FinalizerWrite, Failed> {
        let world = self.worlds.of(live);
        let mut parent = parent.clone();
        for _ in 1..ATTEMPTS {
            let failed = match set_finalizer(&world, &live.terms.name, &parent, wanted).await {
                Err(failed) if failed.problem == WriteProblem::Outdated && !wanted && parent.deleting => failed,
                result => return result,
            };
            match live.caches.parents.read(&parent.key).await {
                Ok(Some(now)) if now.uid == parent.uid && has_finalizer(&now, &live.terms.name) => {
                    parent = Arc::new(now);
                }
                _ => return Err(failed),
            }
        }
        set_finalizer(&world, &live.terms.name, &parent, wanted).await
    }
}

/// A parent after a write of its status: as the API server has it, unless it cannot be read or is another one.
async fn unchanged_but_for_status(live: &Live, parent: Arc<Object>) -> Arc<Object> {
    match live.caches.parents.read(&parent.key).await {
        Ok(Some(now)) if (&now.uid, now.deleting) == (&parent.uid, parent.deleting) => Arc::new(now),
        _ => parent,
    }
}

/// Ends a reconcile in which the finalizer could not be set or removed.
fn of_write(snapshot: Snapshot, problem: WriteProblem) -> Ending {
    let problem = Problem::Writes(vec![(ChildId::of(&snapshot.parent), problem)]);
    Ending::problem(snapshot, &problem)
}
