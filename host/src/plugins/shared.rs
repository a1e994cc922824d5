//! What the steps of a Plugin's reconcile share: where they read and write, and what the host remembers of each Plugin.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use kube::Client;
use parking_lot::Mutex;
use windlass_core::guard::HeldParents;
use windlass_core::ids::PluginName;
use windlass_delivery::Sources;
use windlass_sandbox::registry::{Publisher, Registry};
use windlass_sandbox::{Component, Sandbox};

use super::caps::Caps;
use super::findings::Findings;
use super::former_kinds::FormerKinds;
use super::kinds::Kinds;
use super::leftovers::Leftovers;
use super::mark_key::MarkKeys;
use super::refusal::Refusal;
use super::startup_order::StartupOrder;
use crate::cluster::access_review::Ask;
use crate::cluster::account::Accounts;
use crate::cluster::discovery::Discovery;
use crate::cluster::events::Recorder;
use crate::cluster::watch::{AllProgress, Watch, Watches};
use crate::live::failure_counts::FailureCounts;
use crate::live::interests::Interests;
use crate::live::memo::Memo;
use crate::live::{Live, ParentIndex, ParentKey};
use crate::queue::{PluginQueue, Queue, Trigger};

/// The Plugins of the cluster, and all that their reconcile needs.
pub struct Plugins {
    pub(super) client: Client,
    pub(super) own: Arc<Watch>,
    pub(super) sandbox: Sandbox,
    pub(super) watches: Arc<Watches>,
    pub(super) sources: Sources,
    pub(super) registry: Registry<Live>,
    pub(super) publisher: Mutex<Publisher<Live>>,
    pub(super) index: ParentIndex,
    pub(super) kinds: Kinds,
    pub(super) discovery: Discovery,
    pub(super) accounts: Accounts,
    pub(super) mark_keys: MarkKeys,
    pub(super) ask: Ask,
    pub(super) caps: Caps,
    pub(super) queue: PluginQueue,
    pub(super) parents: Queue<PluginName, ParentKey>,
    pub(super) interests: Interests,
    pub(super) recorder: Recorder,
    pub(super) known: Mutex<HashMap<PluginName, Known>>,
    pub(super) startup_order: StartupOrder,
}

/// What Plugins are reconciled with.
pub struct Dependencies {
    /// Reads and writes as the host.
    pub client: Client,
    /// The watch of the Plugins.
    pub own: Arc<Watch>,
    /// Compiles and runs components.
    pub sandbox: Sandbox,
    /// The shared watches.
    pub watches: Arc<Watches>,
    /// Where components come from.
    pub sources: Sources,
    /// The ServiceAccounts of plugins.
    pub accounts: Accounts,
    /// Asks the API server what these accounts may do.
    pub ask: Ask,
    /// The most that a Plugin gets of each limit.
    pub caps: Caps,
    /// Where the watch of CRDs marks its progress.
    pub progress: AllProgress,
    /// Publishes what is live.
    pub publisher: Publisher<Live>,
    /// What is live, by the watch of its parents.
    pub index: ParentIndex,
    /// Which kinds the Plugins depend on.
    pub kinds: Kinds,
    /// The queue of Plugins.
    pub queue: PluginQueue,
    /// The queue of parents.
    pub parents: Queue<PluginName, ParentKey>,
    /// What parents require.
    pub interests: Interests,
    /// Events on the Plugins.
    pub recorder: Recorder,
}

/// What the host remembers of a Plugin beside its live component.
#[derive(Default)]
pub(super) struct Known {
    /// Whether it was tried since the host started.
    pub tried: bool,
    /// The last reconcile, if all was well.
    pub look: Option<Look>,
    /// A component that the last reconcile mapped or found: a step after it failed, and is tried again.
    pub candidate: Option<Arc<Component>>,
    /// What of a registry could not be loaded.
    pub refused: Option<Refusal>,
    /// Watches that the last reconcile needed, while it is not live.
    pub held: Vec<Arc<Watch>>,
    pub failures: Option<Arc<FailureCounts>>,
    pub held_parents: Arc<Mutex<HeldParents>>,
    pub memo: Arc<Memo>,
    pub former_kinds: FormerKinds,
}

/// A reconcile that found the Plugin's component live.
pub(super) struct Look {
    pub generation: Option<i64>,
    pub findings: Findings,
    /// When the next one is due by itself.
    pub next: Instant,
}

impl Plugins {
    /// Begins to follow the CRDs of the cluster.
    pub fn new(dependencies: Dependencies) -> Self {
        let Dependencies {
            client,
            own,
            sandbox,
            watches,
            sources,
            accounts,
            ask,
            caps,
            progress,
            publisher,
            index,
            kinds,
            queue,
            parents,
            interests,
            recorder,
        } = dependencies;
        let mark_keys = MarkKeys::new(client.clone(), accounts.namespace());
        tokio::spawn(kinds.clone().watch_definitions(client.clone(), progress));
        Self {
            discovery: Discovery::new(client.clone()),
            client,
            own,
            sandbox,
            watches,
            sources,
            registry: publisher.registry(),
            publisher: Mutex::new(publisher),
            index,
            kinds,
            queue,
            parents,
            interests,
            recorder,
            accounts,
            mark_keys,
            ask,
            caps,
            known: Mutex::default(),
            startup_order: StartupOrder::new(),
        }
    }

    /// Keeps the watches that a Plugin wants, in place of those that it wanted before.
    pub(super) fn hold(&self, name: &PluginName, watches: Vec<Arc<Watch>>) {
        let before = std::mem::replace(&mut self.known.lock().entry(name.clone()).or_default().held, watches);
        // Outside the lock: the last holder of a watch ends it.
        drop(before);
    }

    /// The ledger of a Plugin's failing parents.
    pub(super) fn failure_counts(&self, name: &PluginName) -> Arc<FailureCounts> {
        let mut known = self.known.lock();
        let failures = known.entry(name.clone()).or_default().failures.get_or_insert_with(|| {
            let (queue, name) = (self.queue.clone(), name.clone());
            Arc::new(FailureCounts::new(move |wait| queue.add_after(&(), &name, Trigger::Resync, wait)))
        });
        failures.clone()
    }

    /// The parents of a Plugin whose deletions are held.
    pub(super) fn held_parents(&self, name: &PluginName) -> Arc<Mutex<HeldParents>> {
        self.known.lock().entry(name.clone()).or_default().held_parents.clone()
    }

    /// The parents of a Plugin that need nothing.
    pub(super) fn memo(&self, name: &PluginName) -> Arc<Memo> {
        self.known.lock().entry(name.clone()).or_default().memo.clone()
    }

    pub(super) fn leftovers<'a>(&'a self, name: &'a PluginName) -> Leftovers<'a> {
        Leftovers { client: &self.client, discovery: &self.discovery, mark_keys: &self.mark_keys, name }
    }
}
