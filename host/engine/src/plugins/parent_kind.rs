//! The parent kind of a plugin, as the cluster serves it.

use std::sync::Arc;

use kube::core::ApiResource;
use windlass_core::object::observed_status::StatusShape;
use windlass_core::value::ids::Gvk;

use crate::live::CrdOwner;

/// A parent kind, ready to be watched.
pub(super) struct ParentKind {
    pub kind: Arc<Gvk>,
    pub crd_owner: CrdOwner,
    pub resource: ApiResource,
    pub namespaced: bool,
    pub shape: StatusShape,
    /// Label selector of the parents; none for all objects of the kind.
    pub selector: Option<String>,
}
