//! The writes that a parent's next plan must see: it is not made before the caches show them (rule R3).

use std::sync::Arc;

use crate::object::Object;
use crate::object::child::ChildId;
use crate::value::ids::{Gvk, Uid};

/// A write that the API server acknowledged, or may have executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// The parent was changed.
    Parent {
        /// The parent's resourceVersion after the write.
        resource_version: u64,
    },
    /// The parent is no longer as it was at a version: it is gone, or has a later version. The response to the removal of the last
    /// finalizer carries the version before the write, and no version follows it.
    Past {
        /// The parent's uid.
        uid: Uid,
        /// The version that must no longer be shown, nor any before it; `u64::MAX` if the parent is gone.
        resource_version: u64,
    },
    /// A child was created, changed or marked for deletion.
    Child {
        /// The child's kind, whose cache of children must show the write. It may be the parent's kind: parents and children
        /// have separate caches.
        kind: Arc<Gvk>,
        /// The child's resourceVersion after the write.
        resource_version: u64,
    },
    /// A child was deleted at once.
    Gone {
        /// The child.
        child: ChildId,
        /// The child's uid.
        uid: Uid,
    },
    /// The write was sent, but the response does not show whether it was executed: the object must be read.
    Unknown(Subject),
}

impl Written {
    /// A parent that is no longer as it was in this version.
    pub fn parent_past(parent: &Object) -> Self {
        Self::Past { uid: parent.uid.clone(), resource_version: parent.resource_version }
    }

    /// A parent that is gone.
    pub fn parent_gone(parent: &Object) -> Self {
        Self::Past { uid: parent.uid.clone(), resource_version: u64::MAX }
    }

    /// Whether the parent is gone.
    pub fn is_parent_gone(&self) -> bool {
        matches!(self, Self::Past { resource_version: u64::MAX, .. })
    }

    /// The kind of the child that is written; none for the parent.
    pub fn child_kind(&self) -> Option<&Gvk> {
        match self {
            Self::Parent { .. } | Self::Past { .. } | Self::Unknown(Subject::Parent) => None,
            Self::Child { kind, .. } => Some(kind),
            Self::Gone { child, .. } | Self::Unknown(Subject::Child(child)) => Some(&child.kind),
        }
    }
}

/// The object of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// The parent.
    Parent,
    /// A child.
    Child(ChildId),
}
