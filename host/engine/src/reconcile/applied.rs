//! The results of a plan's writes.

use windlass_core::contract::desired::DesiredChild;
use windlass_core::object::child::ChildId;
use windlass_core::reconcile::events::Changes;
use windlass_core::reconcile::outcome::WriteProblem;

use crate::cluster::writer::response::{problem_of, unknown};
use crate::cluster::writer::{Subject, Written};

/// The results of a plan's writes. The status reports nothing else.
#[derive(Debug, Default)]
pub struct Applied {
    /// The writes that the caches must show before the parent's next plan.
    pub written: Vec<Written>,
    /// The changes of children, for events.
    pub changes: Changes,
    /// The writes that failed, each with its child.
    pub problems: Vec<(ChildId, WriteProblem)>,
    /// Whether an object was marked as a child. It may be on its way out, and its content is not the desired one yet: that is for the next
    /// reconcile, which sees it.
    pub marked: bool,
}

/// The effect of a write on its child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Created,
    Updated,
    /// The desired values were restored after another manager changed them.
    Restored,
    /// Updated with forced ownership of fields that another manager owned.
    TakenOver,
    /// The child had lost the host's labels or ownerReference, and has them again.
    Marked,
    /// The object had no owner, and is the parent's child now.
    Adopted,
    /// Deleted, to be recreated.
    Replaced,
    Deleted,
    /// No effect: the child was gone already, or is left as it is.
    Nothing,
}

/// A write that succeeded.
pub(super) struct Done {
    pub effect: Effect,
    pub child: ChildId,
    /// Whether Kubernetes deletes the child once it has finished.
    pub expires: bool,
    pub written: Option<Written>,
}

/// A write that did not succeed.
#[derive(Debug)]
pub struct Failed {
    /// Why.
    pub problem: WriteProblem,
    /// The write that the cache must show, or whose object must be read, before the parent's next plan.
    pub awaited: Option<Box<Written>>,
}

impl Failed {
    /// From an error of the API server, or from a request that got no response.
    pub(super) fn of(error: &kube::Error, subject: Subject) -> Self {
        Self { problem: problem_of(error), awaited: unknown(error, subject).map(Box::new) }
    }
}

impl From<WriteProblem> for Failed {
    /// The API server executed nothing.
    fn from(problem: WriteProblem) -> Self {
        Self { problem, awaited: None }
    }
}

/// The result of the write of one child.
pub(super) type WriteResult = Result<(Effect, Option<Written>), Failed>;

impl Applied {
    pub(super) fn add(&mut self, done: Done) {
        let Done { effect, child, expires, written } = done;
        self.written.extend(written);
        self.marked |= matches!(effect, Effect::Marked | Effect::Adopted);
        let changes = &mut self.changes;
        if expires && effect == Effect::Created {
            changes.expiring.push(child.clone());
        }
        match effect {
            Effect::Created => changes.created.push(child),
            Effect::Updated => changes.updated.push(child),
            Effect::Restored | Effect::Marked => changes.restored.push(child),
            Effect::TakenOver => changes.taken_over.push(child),
            Effect::Adopted => changes.adopted.push(child),
            Effect::Replaced => changes.replaced.push(child),
            Effect::Deleted => changes.deleted.push(child),
            Effect::Nothing => {}
        }
    }

    pub(super) fn fail(&mut self, child: ChildId, failed: Failed) {
        self.written.extend(failed.awaited.map(|awaited| *awaited));
        self.problems.push((child, failed.problem));
    }
}

/// Names a desired child.
pub(super) fn id(child: &DesiredChild) -> ChildId {
    ChildId { kind: child.kind.clone(), key: child.key.clone() }
}

/// The result of a write, with its child.
pub(super) fn named(child: ChildId, expires: bool, outcome: WriteResult) -> Result<Done, (ChildId, Failed)> {
    match outcome {
        Ok((effect, written)) => Ok(Done { effect, child, expires, written }),
        Err(failed) => Err((child, failed)),
    }
}
