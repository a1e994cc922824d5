//! The plugin's finalizer on a parent (rule R14).

use super::{CACHE_LAG, Reconciler, id_of_parent};
use crate::live::Live;
use crate::reconcile::apply::Failed;
use crate::reconcile::observe::around;
use crate::telemetry::TRACE;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::Instrument;
use windlass_core::contract::{Event, Phase};
use windlass_core::events::FinalizerEnd;
use windlass_core::ids::ObjectKey;
use windlass_core::names::ANNOTATION_SKIP_FINALIZE;
use windlass_core::next_step::{NextStep, finalizer_of, next_step};
use windlass_core::outcome::{Problem, Requeue, UNAVAILABLE, WriteProblem};
use windlass_core::snapshot::Snapshot;

impl Reconciler {
    /// Removes the finalizer of a parent that is being deleted and has the annotation to skip it, also while the caches are out of
    /// date. While the parents' own watch is refused, the annotation is read from the API server.
    pub(super) async fn given_up(&self, live: &Arc<Live>, key: &ObjectKey) -> Option<Requeue> {
        let cached = live.parents.store.get(key)?;
        let is_asked = cached.deleting && cached.marks.is_true(ANNOTATION_SKIP_FINALIZE);
        let has_finalizer = || cached.finalizers.iter().any(|name| **name == *finalizer_of(&live.name));
        if !(is_asked || !live.parents.is_followed() && has_finalizer()) {
            return None;
        }
        let parent = live.parents.read(key).await.ok()??;
        let snapshot = around(live, Arc::new(parent));
        match next_step(&snapshot.parent, &live.name, live.finalizes, live.suspended, true) {
            NextStep::RemoveFinalizer if snapshot.parent.deleting => Some(self.skip_finalizer(live, &snapshot).await),
            _ => None,
        }
    }

    /// Sets the finalizer, if the plugin's ServiceAccount may have one on this parent.
    pub(super) async fn add_finalizer(&self, live: &Live, snapshot: &Snapshot) -> Requeue {
        match self.related.review_finalizer(live, &snapshot.parent_ref).await {
            Ok(()) => self.set_finalizer(live, snapshot, None).await,
            Err(problem) => {
                let problem = Problem::Writes(vec![(id_of_parent(snapshot), problem)]);
                self.finalizer_not_set(live, snapshot, &problem).await
            }
        }
    }

    /// Removes the finalizer, because the plugin does not finalize (any more) or a user asked for that.
    pub(super) async fn skip_finalizer(&self, live: &Live, snapshot: &Snapshot) -> Requeue {
        let is_asked = snapshot.parent.marks.is_true(ANNOTATION_SKIP_FINALIZE);
        let end = if is_asked { FinalizerEnd::Skipped } else { FinalizerEnd::CleanedUp };
        self.remove_finalizer(live, snapshot, &[], &end).await
    }

    /// Removes the finalizer, and emits an event that says why.
    pub(super) async fn remove_finalizer(
        &self,
        live: &Live,
        snapshot: &Snapshot,
        last_words: &[Event],
        end: &FinalizerEnd,
    ) -> Requeue {
        self.set_finalizer(live, snapshot, Some((last_words, end))).await
    }

    /// Sets the finalizer, or removes it for a reason, after the plugin's last events. This is the reconcile's only write: the
    /// parent's own event queues the next one.
    pub(super) async fn set_finalizer(
        &self,
        live: &Live,
        snapshot: &Snapshot,
        removed: Option<(&[Event], &FinalizerEnd)>,
    ) -> Requeue {
        let wanted = removed.is_none();
        let outcome = if wanted { "finalizer_added" } else { "finalizer_removed" };
        tracing::Span::current().record("windlass.outcome", outcome);
        let parent = &snapshot.parent;
        let admitted = self.breaker.lock().admit(parent, &parent.kind, &parent.key, Instant::now());
        if let Err(wait) = admitted {
            // Another manager undoes the write each time.
            let thrashing = Problem::Thrashing(vec![(id_of_parent(snapshot), wait)]);
            return self.finalizer_not_set(live, snapshot, &thrashing).await;
        }
        let set = self.applier.set_finalizer(live, parent, wanted);
        match set.instrument(tracing::debug_span!(target: TRACE, "apply")).await {
            Ok(written) => {
                if let (Some(_), true, Some((last_words, end))) = (&written, parent.deleting, removed) {
                    if let FinalizerEnd::NamespaceTerminating(parent) = end {
                        tracing::warn!(plugin = %live.name, %parent, "finalizer removed: the namespace is being deleted");
                    }
                    self.reporter.tell_finalized(live, snapshot, last_words, end);
                }
                // Nothing was written: the parent is gone, and the cache will show it.
                let again = if written.is_some() { Duration::ZERO } else { CACHE_LAG };
                self.own_writes.add(&live.name, &parent.key, written.into_iter().collect());
                Requeue::Pause(again)
            }
            // The parent has changed, as its event will show.
            Err(Failed { problem: WriteProblem::Outdated, .. }) => UNAVAILABLE,
            Err(Failed { problem, awaited }) => {
                self.own_writes.add(&live.name, &parent.key, awaited.map(|awaited| *awaited).into_iter().collect());
                let problem = Problem::Writes(vec![(id_of_parent(snapshot), problem)]);
                self.finalizer_not_set(live, snapshot, &problem).await
            }
        }
    }

    /// Reports why the finalizer could not be set or removed.
    pub(super) async fn finalizer_not_set(&self, live: &Live, snapshot: &Snapshot, problem: &Problem) -> Requeue {
        let phase = if snapshot.parent.deleting { Phase::Finalize } else { Phase::Sync };
        let attempt = self.without_plan(live, snapshot, problem);
        self.finish(live, snapshot, (phase, false), attempt).await.requeue
    }
}
