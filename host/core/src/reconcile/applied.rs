//! The results of a plan's writes.

use super::api_response::Refused;
use super::api_warnings::ApiWarnings;
use super::events::Changes;
use super::outcome::WriteProblem;
use super::written::{Subject, Written};
use crate::object::Object;
use crate::object::child::ChildId;
use crate::value::digest::Digest;
use crate::value::ids::Uid;

/// The results of a plan's writes.
#[derive(Debug, Default)]
pub struct Applied {
    /// The writes that the caches must show before the parent's next plan.
    pub written: Vec<Written>,
    /// The changes of children, for events.
    pub changes: Changes,
    /// The writes that failed, each with its child.
    pub problems: Vec<(ChildId, WriteProblem)>,
    /// What the API server warned about when it stored children.
    pub warnings: ApiWarnings,
    /// Whether an existing object was marked as a child, restored or adopted. The object may be on its way out, and its content is not the
    /// desired one yet: that is for the next reconcile, which sees it.
    pub marked: bool,
    /// The live values that an apply could not change, each with its child.
    pub kept: Vec<(ChildId, Kept)>,
    /// Children that were deleted because others need what they held. Those are created once these are gone (rule R10).
    pub making_room: Vec<ChildId>,
    /// Number of deletions that were not sent, because writes failed or an object was only marked as a child.
    pub kept_from_pruning: usize,
    /// The objects as the API server stored them, for the next comparison with the desired values.
    pub stored: Vec<Stored>,
}

/// Live values of a child that an apply could not change, because the API server or a webhook sets them. They are left as they are.
#[derive(Debug)]
pub struct Kept {
    /// The child's uid.
    pub uid: Uid,
    /// Hash of the desired state that was applied.
    pub applied: String,
    /// Hash of the live values.
    pub values: Digest,
    /// Why the API server refused the apply; none if it changed nothing.
    pub refused: Option<String>,
}

/// The effect of a write on its child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Created.
    Created,
    /// Updated.
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
    /// Deleted, because another child needs what it held.
    MadeRoom,
    /// Deleted.
    Deleted,
    /// No effect: the child was gone already, or is left as it is.
    Nothing,
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
    /// From a response, or from a request that got none.
    pub(super) fn of(refused: &Refused, subject: Subject) -> Self {
        Self { problem: refused.problem(), awaited: refused.unknown(subject).map(Box::new) }
    }
}

impl From<WriteProblem> for Failed {
    /// The API server executed nothing.
    fn from(problem: WriteProblem) -> Self {
        Self { problem, awaited: None }
    }
}

/// The write of one child, which succeeded.
#[derive(Debug)]
pub struct Wrote {
    /// The effect on the child.
    pub effect: Effect,
    /// The write that the caches must show before the parent's next plan.
    pub written: Option<Written>,
    /// The object as the API server stored it, if its values may differ from the desired ones without an edit.
    pub stored: Option<Stored>,
    /// The live values that the write could not change.
    pub kept: Option<Kept>,
    /// Whether Kubernetes deletes the child that was created once it has finished.
    pub expires: bool,
    /// What the API server warned about.
    pub warnings: Vec<Box<str>>,
}

impl Wrote {
    pub(super) fn new(effect: Effect, written: impl Into<Option<Written>>) -> Self {
        Self { effect, written: written.into(), stored: None, kept: None, expires: false, warnings: Vec::new() }
    }
}

/// The result of the write of one child.
pub type WriteResult = Result<Wrote, Failed>;

/// A version of an object that the host itself wrote: its values are what the API server makes of the desired ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The object's uid.
    pub uid: Uid,
    /// Its version.
    pub resource_version: u64,
    /// Its generation, if its kind has one. It changes with the spec alone.
    pub generation: Option<i64>,
}

impl Stored {
    /// Whether an object still has these values, but for its status and metadata.
    pub fn is(&self, object: &Object) -> bool {
        let is_same_spec = self.generation.is_some() && self.generation == object.generation;
        self.uid == object.uid && (self.resource_version == object.resource_version || is_same_spec)
    }
}

impl Applied {
    /// Whether a child was created, or may have been.
    pub fn may_be_created(&self, child: &ChildId) -> bool {
        let is_unknown = |written: &Written| matches!(written, Written::Unknown(Subject::Child(of)) if of == child);
        self.changes.created.contains(child) || self.written.iter().any(is_unknown)
    }

    /// Adds the result of a child's write.
    pub(super) fn add(&mut self, child: ChildId, result: WriteResult) {
        let Wrote { effect, written, stored, kept, expires, warnings } = match result {
            Ok(wrote) => wrote,
            Err(Failed { problem, awaited }) => {
                self.written.extend(awaited.map(|awaited| *awaited));
                self.problems.push((child, problem));
                return;
            }
        };
        self.stored.extend(stored);
        self.kept.extend(kept.map(|kept| (child.clone(), kept)));
        self.written.extend(written);
        for text in warnings {
            self.warnings.add(&child, text);
        }
        self.marked |= matches!(effect, Effect::Marked | Effect::Adopted);
        let changes = &mut self.changes;
        if expires {
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
            Effect::MadeRoom => {
                self.making_room.push(child.clone());
                changes.deleted.push(child);
            }
            Effect::Nothing => {}
        }
    }
}
