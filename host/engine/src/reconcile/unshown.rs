//! Handles a key whose object the watch does not show: the object is gone, or has left the label selector and still has
//! children.

use std::sync::Arc;

use windlass_core::contract::Phase;
use windlass_core::contract::desired::Desired;
use windlass_core::contract::snapshot::Snapshot;
use windlass_core::object::Object;
use windlass_core::object::reason::ParentReason;
use windlass_core::reconcile::next_step::NextStep;
use windlass_core::reconcile::outcome::{Problem, Progress, Requeue, UNAVAILABLE};
use windlass_core::value::ids::ObjectKey;

use super::carry_out::How;
use super::ending::{Ending, NothingToDo, outcome_of};
use super::observe::around;
use super::{Reconciler, leave};
use crate::cluster::plain;
use crate::live::Live;
use crate::live::unselected::GOOD_FOR;

/// Why the watch does not show an object.
enum Unshown {
    /// It does not exist, has no children of the plugin, is being deleted, or is selected again.
    Gone,
    /// It has left the label selector, and has children.
    Left(Arc<Object>),
    /// It is gone or has left the label selector, and has children. While the Plugin is suspended, they stay.
    Suspended,
}

impl Reconciler {
    /// Forgets a parent that is gone. If it has left the label selector, deletes its children, or removes the plugin's finalizer.
    pub(super) async fn not_shown(&self, live: &Arc<Live>, key: &ObjectKey) -> Ending {
        live.shared.records.with(key, |record| record.steady.end());
        self.related.forget(&live.terms.name, key);
        match self.unshown(live, key).await {
            Ok(Unshown::Gone) => Ending::Gone,
            // When the Plugin is no longer suspended, all parents are queued.
            Ok(Unshown::Suspended) => Ending::nothing_to_do(NothingToDo::DeselectedWhileSuspended),
            Ok(Unshown::Left(parent)) => {
                let snapshot = around(live, parent);
                let uid = tracing::field::display(&snapshot.parent.uid);
                tracing::Span::current().record("windlass.parent.uid", uid);
                let ending = match live.terms.next_step(&snapshot.parent, false) {
                    NextStep::DeleteChildren => self.delete_children(live, snapshot).await,
                    NextStep::RemoveFinalizer => self.skip_clean_up(live, snapshot).await,
                    NextStep::Leave => leave(&snapshot.parent),
                    // The watch shows every parent that must be finalized, and is about to show this one.
                    NextStep::Call(_) | NextStep::AddFinalizer | NextStep::Suspended => {
                        Ending::waits("waiting_for_watch", Requeue::After(GOOD_FOR))
                    }
                };
                ending.of_unshown()
            }
            Err(error) => Ending::Unreported {
                outcome: ParentReason::ApiError.as_str(),
                reason: ParentReason::ApiError,
                message: format!(
                    "whether the object has left the label selector could not be looked up: {}",
                    plain(&error)
                ),
                requeue: UNAVAILABLE,
            },
        }
    }

    /// Finds out why the watch does not show an object.
    async fn unshown(&self, live: &Live, key: &ObjectKey) -> kube::Result<Unshown> {
        let Some(uid) = live.shared.unselected.uid(key) else { return Ok(Unshown::Gone) };
        if !live.has_children(&uid) {
            live.shared.unselected.forget(key);
            return Ok(Unshown::Gone);
        }
        if live.terms.suspended {
            return Ok(Unshown::Suspended);
        }
        Ok(live.shared.unselected.read(key, &live.caches.parents).await?.map_or(Unshown::Gone, Unshown::Left))
    }

    /// Deletes the children of an object that is no longer a parent, as far as the deletion guard allows (rule R9).
    pub(super) async fn delete_children(&self, live: &Arc<Live>, snapshot: Snapshot) -> Ending {
        if !snapshot.children.iter().any(|child| child.controller.is_some()) {
            // The object may be a parent of another plugin: the host reports nothing on it, and does not wait for its
            // deletions.
            return Ending::nothing_to_do(NothingToDo::NotSelected);
        }
        let how = How { phase: Phase::Sync, is_selected: false, compares: false };
        let mut attempt = self.carry_out(live, &snapshot, how, Desired::default()).await;
        if attempt.outcome.progress == Progress::Applied {
            attempt.outcome = outcome_of(&Problem::Released(live.terms.name.clone()));
        }
        // The next reconcile is not skipped, because the object may become a parent again.
        Ending::outcome(snapshot, attempt)
    }
}
