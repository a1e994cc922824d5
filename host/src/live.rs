//! A plugin as it is live: its component, and all that was resolved for it. Replaced whole, never changed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use windlass_core::contract::Limits;
use windlass_core::desired::Grants;
use windlass_core::digest::Digest;
use windlass_core::guard::DeletionGuard;
use windlass_core::ids::{GroupKind, Gvk, ObjectKey, PluginName};
use windlass_core::status::StatusShape;
use windlass_sandbox::Component;

use crate::conduct::Conduct;
use crate::related::Reads;
use crate::watch::Watch;

/// One Plugin's live logic and settings. A reconcile keeps the one it started with to its end.
pub struct Live {
    /// The Plugin's name.
    pub name: PluginName,
    /// The logic.
    pub component: Arc<Component>,
    /// What the descriptor calls the logic's version.
    pub version: String,
    /// The watch of the parent kind.
    pub parents: Arc<Watch>,
    /// Which of the host's status fields the parent kind keeps.
    pub shape: StatusShape,
    /// The watches of the child kinds.
    pub children: HashMap<GroupKind, Arc<Watch>>,
    /// What it may want.
    pub grants: Grants,
    /// Whether its parents get a finalizer.
    pub finalizes: bool,
    /// Whether the Plugin says `spec.suspend`.
    pub suspended: bool,
    /// What it may require beside its children.
    pub reads: Reads,
    /// `spec.config`, as JSON.
    pub config: Option<Arc<[u8]>>,
    /// Bounds of its calls.
    pub limits: Limits,
    /// Time between unprompted reconciles, before jitter.
    pub resync: Duration,
    /// How many of its parents are reconciled at once.
    pub concurrency: usize,
    /// Calls of this plugin that run at once: fewer than there are cores, so that one that loops leaves room.
    pub call_slots: Semaphore,
    /// Which deletions are held without a user's word (rule R9).
    pub guard: DeletionGuard,
    /// How it behaves. The same one while only the Plugin's settings change.
    pub conduct: Arc<Conduct>,
}

/// How many calls run at once in all: as many as there are cores, since each keeps one busy.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// How many of them may be of one plugin.
pub fn call_slots_of_one_plugin() -> Semaphore {
    Semaphore::new(cores().saturating_sub(1).max(1))
}

impl Live {
    /// Digest of the logic.
    pub fn digest(&self) -> Digest {
        self.component.surface().digest
    }

    /// Whether the API server lets the host follow all its kinds.
    pub fn is_followed(&self) -> bool {
        std::iter::once(&self.parents).chain(self.children.values()).all(|watch| watch.is_followed())
    }

    /// The watch of a child kind.
    pub fn child_watch(&self, kind: &Gvk) -> Option<&Arc<Watch>> {
        self.children.get(&kind.group_kind())
    }
}

/// What the work queue holds for each plugin: a parent's namespace and name.
pub type ParentKey = ObjectKey;
