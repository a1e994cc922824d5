//! Handles a key whose object the watch does not show: the object is gone, or has left the label selector and still has
//! children.

use std::sync::Arc;
use std::time::Duration;

use super::Reconcile;
use super::ending::{Ending, NothingToDo};
use super::without_call::leave;
use crate::object::reason::ParentReason;
use crate::reconcile::next_step::NextStep;
use crate::reconcile::outcome::{Requeue, UNAVAILABLE};
use crate::reconcile::world::{Happened, Read};

/// How long an object that has left the label selector stays known after it was read. No watch shows changes of the object, so it is read
/// again after this time, until its children are deleted.
pub const GOOD_FOR: Duration = Duration::from_secs(30);

impl Reconcile<'_> {
    /// Forgets a parent that is gone. If it has left the label selector, deletes its children, or removes the plugin's finalizer.
    pub(super) async fn not_shown(&self) -> Ending {
        self.record(|record| record.steady.end());
        self.world.remember_required(self.key, None);
        if !self.world.is_former_parent(self.key) {
            self.world.forget_former_parent(self.key);
            return Ending::Gone;
        }
        if self.terms.settings.suspended {
            // Its children stay. When the Plugin is no longer suspended, all parents are queued.
            return Ending::NothingToDo(NothingToDo::DeselectedWhileSuspended);
        }
        let snapshot = match self.world.read(Read::FormerParent(self.key)).await {
            Ok(Some(parent)) => self.around(Arc::new(parent)),
            // It is being deleted, or selected again.
            Ok(None) => return Ending::Gone,
            Err(refused) => {
                let message =
                    format!("whether the object has left the label selector could not be looked up: {refused}");
                let reason = ParentReason::ApiError;
                return Ending::Unreported { outcome: reason.as_str(), reason, message, requeue: UNAVAILABLE };
            }
        };
        self.world.note(Happened::Seen(&snapshot));
        let ending = match self.terms.next_step(&snapshot.parent, false) {
            NextStep::DeleteChildren => self.delete_children(snapshot).await,
            NextStep::RemoveFinalizer => self.skip_clean_up(snapshot).await,
            NextStep::Leave => leave(&snapshot.parent),
            // The watch shows every parent that must be finalized, and is about to show this one.
            NextStep::Call(_) | NextStep::AddFinalizer | NextStep::DeleteInOrder | NextStep::Suspended => {
                Ending::waits("waiting_for_watch", Requeue::After(GOOD_FOR))
            }
        };
        Ending::Unshown(Box::new(ending))
    }
}
