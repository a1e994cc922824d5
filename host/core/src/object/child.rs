//! Names one of a parent's children, and the state of it that may be deleted.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::object::Object;
use crate::value::ids::{Gvk, ObjectKey, Uid};

/// The kind, namespace and name of a child. The form in JSON is external: recordings have it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, derive_more::Display)]
#[display("{} {key}", kind.kind)]
pub struct ChildId {
    /// The child's kind.
    #[serde(flatten)]
    pub kind: Arc<Gvk>,
    /// The child's namespace and name.
    #[serde(flatten)]
    pub key: ObjectKey,
}

impl ChildId {
    /// The identity of an existing object.
    pub fn of(object: &Object) -> Self {
        Self { kind: object.kind.clone(), key: object.key.clone() }
    }
}

/// A delete with the object's UID and version as preconditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delete {
    /// The child's kind, namespace and name.
    pub child: ChildId,
    /// The object's UID, so that another object of the same name is never deleted.
    pub uid: Uid,
    /// The resource version on which the plan is based, so that no object is deleted that is no child any more.
    pub resource_version: u64,
    /// The stage of the child (rule R23).
    pub stage: u32,
}

impl Delete {
    /// Deletes an existing object.
    pub fn of(live: &Object) -> Self {
        let (child, uid, resource_version) = (ChildId::of(live), live.uid.clone(), live.resource_version);
        Self { child, uid, resource_version, stage: live.stage() }
    }
}
