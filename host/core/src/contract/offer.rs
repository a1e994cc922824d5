//! What a component is offered and refused, whatever the parent is.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::desired::Grants;
use super::related::ReadGrants;
use crate::value::ids::Gvk;

/// What a cluster and a Plugin offer and refuse a component.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offer {
    /// The optional kinds that the cluster serves and the Plugin grants, sorted.
    pub kinds: Vec<Gvk>,
    /// The namespaces in which the plugin may have no children.
    pub closed_namespaces: Vec<Arc<str>>,
}

impl Offer {
    /// What these grants come to.
    pub fn of(grants: &Grants, reads: &ReadGrants) -> Self {
        let kinds: BTreeSet<_> = grants.optional_kinds().chain(reads.optional_kinds()).collect();
        let kinds = kinds.into_iter().map(|kind| Gvk::clone(kind)).collect();
        Self { kinds, closed_namespaces: grants.closed_namespaces() }
    }
}
