//! A key whose object the watch does not show: the object is gone, or it has left the label selector and still has children.

use super::{How, Reconciler};
use crate::live::Live;
use crate::live::unselected::GOOD_FOR;
use crate::reconcile::observe::around;
use std::sync::Arc;
use windlass_core::contract::Phase;
use windlass_core::desired::Desired;
use windlass_core::ids::ObjectKey;
use windlass_core::next_step::{NextStep, next_step};
use windlass_core::object::Object;
use windlass_core::outcome::{Problem, Progress, Requeue, UNAVAILABLE, Verdict};
use windlass_core::reason::ParentReason;
use windlass_core::snapshot::Snapshot;

/// What happened to an object that the watch does not show.
enum Unshown {
    /// It does not exist, or has no children of the plugin.
    Gone,
    /// It has left the label selector, and has children.
    Left(Arc<Object>),
    /// It may have left the label selector. While the Plugin is suspended, its children stay.
    Suspended,
}

impl Reconciler {
    /// Forgets a parent that is gone, or releases one that has left the label selector.
    pub(super) async fn not_shown(&self, live: &Arc<Live>, key: &ObjectKey) -> Requeue {
        let span = tracing::Span::current();
        live.memo.forget(key);
        self.related.forget(&live.name, key);
        match self.unshown(live, key).await {
            Ok(Unshown::Suspended) => {
                // When the Plugin is no longer suspended, all parents are queued.
                span.record("windlass.outcome", "suspended");
                self.follow(live, live.state.unanswered(key));
                Requeue::WhenChanged
            }
            Ok(Unshown::Left(parent)) => {
                let snapshot = around(live, parent);
                span.record("windlass.parent.uid", tracing::field::display(&snapshot.parent.uid));
                let requeue = match next_step(&snapshot.parent, &live.name, live.finalizes, live.suspended, false) {
                    NextStep::Release => self.release(live, &snapshot).await,
                    NextStep::RemoveFinalizer => self.skip_finalizer(live, &snapshot).await,
                    NextStep::Leave => self.leave(live, &snapshot.parent),
                    // The watch shows every parent that must be finalized, and is about to show this one.
                    NextStep::Ask(_) | NextStep::AddFinalizer | NextStep::Suspended => Requeue::WhenChanged,
                };
                match requeue {
                    // No watch shows its changes.
                    Requeue::WhenChanged | Requeue::Settled(_) => Requeue::After(GOOD_FOR),
                    requeue => requeue,
                }
            }
            Ok(Unshown::Gone) => {
                self.own_writes.forget(&live.name, key);
                self.terminating.forget(&live.name, key);
                live.memo.forget_gone(key);
                live.held.lock().forget(key);
                self.follow(live, live.state.gone(key));
                live.failures.record(key, None);
                span.record("windlass.outcome", "gone");
                Requeue::Gone
            }
            Err(error) => {
                span.record("windlass.outcome", ParentReason::ApiError.as_str());
                let message = format!("whether the object has left the label selector could not be looked up: {error}");
                tracing::warn!(plugin = %live.name, object = %key, message, "reconcile failed");
                live.failures.record(key, Some((ParentReason::ApiError, &message)));
                self.follow(live, live.state.unanswered(key));
                UNAVAILABLE
            }
        }
    }

    /// What happened to an object that the watch does not show.
    async fn unshown(&self, live: &Live, key: &ObjectKey) -> kube::Result<Unshown> {
        let Some(uid) = live.unselected.uid(key) else { return Ok(Unshown::Gone) };
        if !live.has_children(&uid) {
            live.unselected.forget(key);
            return Ok(Unshown::Gone);
        }
        if live.suspended {
            return Ok(Unshown::Suspended);
        }
        Ok(live.unselected.read(key, &live.parents).await?.map_or(Unshown::Gone, Unshown::Left))
    }

    /// Deletes the children of an object that is no longer a parent, as far as the guard lets it (rule R9).
    pub(super) async fn release(&self, live: &Arc<Live>, snapshot: &Snapshot) -> Requeue {
        live.memo.forget(&snapshot.parent.key);
        if !snapshot.children.iter().any(|child| child.controller.is_some()) {
            // The object may be a parent of another plugin: the host reports nothing on it, and its deletions are not waited for.
            self.follow(live, live.state.forget(&snapshot.parent.key));
            tracing::Span::current().record("windlass.outcome", "not_selected");
            live.failures.record(&snapshot.parent.key, None);
            return Requeue::WhenChanged;
        }
        let how = How { phase: Phase::Sync, is_selected: false, compares: false };
        let mut attempt = self.carry_out(live, snapshot, how, Desired::default()).await;
        if attempt.verdict.progress == Progress::Applied {
            attempt.verdict = Verdict::from(&Problem::Released(live.name.clone()));
        }
        self.finish(live, snapshot, (Phase::Sync, false), attempt).await.requeue
    }
}
