//! The plugin's finalizer on a parent (rule R14).

use std::sync::Arc;
use std::time::Instant;

use tracing::Instrument;
use windlass_core::contract::Event;
use windlass_core::events::FinalizerEnd;
use windlass_core::ids::ObjectKey;
use windlass_core::names::ANNOTATION_SKIP_FINALIZE;
use windlass_core::next_step::{NextStep, finalizer_of};
use windlass_core::outcome::{Problem, UNAVAILABLE, WriteProblem};
use windlass_core::snapshot::Snapshot;

use super::applied::Failed;
use super::ending::{Ending, FinalizerChanged};
use super::observe::around;
use super::{Reconciler, id_of_parent};
use crate::live::Live;
use crate::telemetry::TRACE;

impl Reconciler {
    /// Removes the finalizer of a parent that is being deleted and has the annotation to skip it, even if the caches
    /// are out of date. While the watch of the parents is rejected or stalled, the annotation is read from the API
    /// server. None if the finalizer stays.
    pub(super) async fn skip_finalizer_unobserved(&self, live: &Arc<Live>, key: &ObjectKey) -> Option<Ending> {
        let cached = live.parents.store.get(key)?;
        let is_asked = cached.deleting && cached.marks.is_true(ANNOTATION_SKIP_FINALIZE);
        let has_finalizer = || cached.finalizers.iter().any(|name| **name == *finalizer_of(&live.name));
        if !(is_asked || !live.parents.is_followed() && has_finalizer()) {
            return None;
        }
        let parent = live.parents.read(key).await.ok()??;
        let snapshot = around(live, Arc::new(parent));
        match live.next_step(&snapshot.parent, true) {
            NextStep::RemoveFinalizer if snapshot.parent.deleting => Some(self.skip_finalizer(live, snapshot).await),
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
    pub(super) async fn skip_finalizer(&self, live: &Live, snapshot: Snapshot) -> Ending {
        let is_asked = snapshot.parent.marks.is_true(ANNOTATION_SKIP_FINALIZE);
        let end = if is_asked { FinalizerEnd::Skipped } else { FinalizerEnd::CleanedUp };
        self.remove_finalizer(live, snapshot, end, Vec::new()).await
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
        let parent = &snapshot.parent;
        let admitted = self.breaker.lock().admit(parent, &parent.kind, &parent.key, Instant::now());
        if let Err(wait) = admitted {
            // Another manager undoes the write each time.
            let thrashing = Problem::Thrashing(vec![(id_of_parent(&snapshot), wait)]);
            return Ending::problem(snapshot, &thrashing);
        }
        let set = self.applier.set_finalizer(live, parent, removed.is_none());
        match set.instrument(tracing::debug_span!(target: TRACE, "apply")).await {
            Ok(written) => Ending::FinalizerChanged(Box::new(FinalizerChanged { snapshot, written, removed })),
            // The parent has changed, and the cache will show the change.
            Err(Failed { problem: WriteProblem::Outdated, .. }) => Ending::waits("finalizer_outdated", UNAVAILABLE),
            Err(Failed { problem, awaited }) => {
                if let Some(awaited) = awaited {
                    let now = Instant::now();
                    live.records.with(&parent.key, |record| record.own_writes().add([*awaited], now));
                }
                of_write(snapshot, problem)
            }
        }
    }
}

/// Ends a reconcile in which the finalizer could not be set or removed.
fn of_write(snapshot: Snapshot, problem: WriteProblem) -> Ending {
    let problem = Problem::Writes(vec![(id_of_parent(&snapshot), problem)]);
    Ending::problem(snapshot, &problem)
}
