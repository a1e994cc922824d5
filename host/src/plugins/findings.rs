//! What is worth saying of a component that is live.

use std::path::PathBuf;

use windlass_api::Plugin;
use windlass_core::digest::Digest;

use super::caps::Capped;
use super::grants;
use super::rights::Lacking;
use crate::live::{Live, StatusWriter};

/// What is worth saying of a plugin that is live.
#[derive(Debug, Clone)]
pub struct Findings {
    /// Kinds that it asks for and was not granted.
    pub not_granted: Vec<String>,
    /// Kinds that it asks to read and was not granted.
    pub not_readable: Vec<String>,
    /// What its ServiceAccount may not do with its children.
    pub lacking: Option<Lacking>,
    /// Which of the kinds that its parents require have a watch that has stalled.
    pub stalled: Option<String>,
    /// What a person went back from.
    pub rolled_back_from: Option<Digest>,
    /// Whether nothing newer has come since.
    pub rolled_back: bool,
    /// Limits that it does not get as its Plugin wants them.
    pub capped: Vec<Capped>,
    /// What it imports and is not served.
    pub unserved: Vec<String>,
    /// The file that it is from, in place of its source.
    pub file: Option<PathBuf>,
    /// Whether the parent kind keeps the host's conditions, or its status is not the host's at all.
    pub conditions_kept: bool,
}

impl Findings {
    pub(super) fn of(live: &Live, plugin: &Plugin, capped: Vec<Capped>, lacking: Option<Lacking>) -> Self {
        let descriptor = live.component.descriptor();
        let not_readable = descriptor.related.iter().filter(|kind| !live.reads.grants.holds(kind));
        Self {
            not_granted: grants::withheld(descriptor, plugin).iter().map(ToString::to_string).collect(),
            not_readable: not_readable.map(ToString::to_string).collect(),
            lacking,
            stalled: None,
            capped,
            rolled_back_from: None,
            rolled_back: false,
            file: None,
            unserved: live.component.surface().unknown_imports.clone(),
            conditions_kept: live.status_writer == StatusWriter::Denied
                || !live.owns_kind()
                || live.shape.conditions && live.shape.observed_generation,
        }
    }
}
