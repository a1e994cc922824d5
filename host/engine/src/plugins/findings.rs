//! Facts about a live component that the Plugin's conditions report.

use std::path::PathBuf;

use windlass_api::Plugin;
use windlass_core::reconcile::terms::StatusWriter;
use windlass_core::value::digest::Digest;

use super::caps::Capped;
use super::permissions::Lacking;
use crate::live::Live;

/// Facts about a live plugin that the Plugin's conditions report.
#[derive(Debug, Clone)]
pub struct Findings {
    /// Kinds of children that the component requests and the Plugin does not grant.
    pub not_granted: Withheld,
    /// Kinds of related objects that the component requests and the Plugin does not grant.
    pub not_readable: Withheld,
    /// Permissions that the Plugin's ServiceAccount lacks, if any.
    pub lacking: Option<Lacking>,
    /// Message about stalled watches of kinds that the parents require, if any.
    pub stalled: Option<String>,
    /// Digest of the component that a user rolled back from, if any.
    pub rolled_back_from: Option<Digest>,
    /// Whether the live component is the result of that rollback.
    pub rolled_back: bool,
    /// Limits that the host lowered to its caps.
    pub capped: Vec<Capped>,
    /// Imports of the component that the host does not support.
    pub unsupported: Vec<String>,
    /// The file of `--plugins` that replaces the source, if any.
    pub file: Option<PathBuf>,
    /// Whether the parent kind's schema has `status.conditions` and `status.observedGeneration`, or the host does not
    /// write the status.
    pub conditions_kept: bool,
}

/// Kinds that the component requests and the Plugin does not grant.
#[derive(Debug, Clone, Default)]
pub struct Withheld {
    /// The kinds.
    pub kinds: Vec<String>,
    /// Whether the Plugin lists other kinds in the same field: then these were left out by a user.
    pub is_chosen: bool,
}

impl Findings {
    pub(super) fn of(live: &Live, plugin: &Plugin, capped: Vec<Capped>, lacking: Option<Lacking>) -> Self {
        let descriptor = live.component.descriptor();
        let not_readable = descriptor.related.iter().filter(|kind| !live.terms.reads.holds(kind));
        Self {
            not_granted: Withheld {
                kinds: live.terms.grants.withheld().map(ToString::to_string).collect(),
                is_chosen: plugin.spec.grants.children.is_some(),
            },
            not_readable: Withheld {
                kinds: not_readable.map(ToString::to_string).collect(),
                is_chosen: plugin.spec.grants.related.is_some(),
            },
            lacking,
            stalled: None,
            capped,
            rolled_back_from: None,
            rolled_back: false,
            file: None,
            unsupported: live.component.surface().unsupported_imports.clone(),
            conditions_kept: live.terms.status_writer == StatusWriter::Denied
                || !live.terms.owns_kind
                || live.terms.shape.conditions && live.terms.shape.observed_generation,
        }
    }
}
