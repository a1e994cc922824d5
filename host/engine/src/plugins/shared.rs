//! State that the steps of a Plugin's reconcile share: clients, queues, and the host's state of each Plugin.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use kube::Client;
use parking_lot::Mutex;
use windlass_core::guard::breaker::Breaker;
use windlass_core::reconcile::shared::records::Records;
use windlass_core::value::ids::{ObjectKey, PluginName};
use windlass_delivery::Sources;
use windlass_sandbox::{Component, Sandbox};

use super::caps::Caps;
use super::findings::Findings;
use super::former_kinds::FormerKinds;
use super::kinds::Kinds;
use super::leftovers::Leftovers;
use super::mark_key::MarkKeys;
use super::refusal::Refusal;
use super::startup_order::StartupOrder;
use crate::clock::CLOCK;
use crate::cluster::access_review::Ask;
use crate::cluster::account::Accounts;
use crate::cluster::discovery::Discovery;
use crate::cluster::events::Recorder;
use crate::cluster::shards::Shards;
use crate::cluster::watch::{Watch, Watches};
use crate::live::interests::Interests;
use crate::live::registry::{Publisher, Registry};
use crate::live::{Live, ParentIndex};
use crate::queue::{PluginQueue, Queue, Trigger};

/// The Plugins of the cluster, and what their reconcile needs.
pub struct Plugins {
    /// Sends requests as the host.
    pub client: Client,
    /// The watch on Plugins.
    pub own: Arc<Watch>,
    /// Compiles and runs components.
    pub sandbox: Sandbox,
    /// The shared watches.
    pub watches: Arc<Watches>,
    /// Sources of components.
    pub sources: Sources,
    /// The live components.
    pub registry: Registry<Live>,
    /// The live plugins, by the watch of their parents.
    pub index: ParentIndex,
    /// The kinds that Plugins depend on.
    pub kinds: Kinds,
    /// Looks up kinds.
    pub discovery: Discovery,
    /// The ServiceAccounts of plugins.
    pub accounts: Accounts,
    /// The key of the marks on children of cluster-scoped parents.
    pub mark_keys: MarkKeys,
    /// Reviews the permissions of the ServiceAccounts.
    pub ask: Ask,
    /// Upper bounds of a Plugin's limits.
    pub caps: Caps,
    /// The queue of Plugins.
    pub queue: PluginQueue,
    /// The queue of parents.
    pub parents: Queue<PluginName, ObjectKey>,
    /// The requirements of parents.
    pub interests: Interests,
    /// Records events on Plugins.
    pub recorder: Recorder,
    /// The shards of the hosts.
    pub shards: Shards,
    /// The state of the Plugins.
    pub state: State,
}

/// What the host remembers of the Plugins.
pub struct State {
    /// The only writer of the registry.
    pub(super) publisher: Mutex<Publisher<Live>>,
    pub(super) known: Mutex<HashMap<PluginName, Known>>,
    /// What is remembered of each Plugin's parents, also of a Plugin that is gone for a short time.
    pub(super) records: Mutex<HashMap<PluginName, Arc<Records>>>,
    /// The writes to each object.
    pub(super) breaker: Arc<Mutex<Breaker>>,
    pub(super) startup_order: StartupOrder,
}

impl State {
    /// No Plugin is known yet. The publisher is that of the registry.
    pub fn new(publisher: Publisher<Live>) -> Self {
        Self {
            publisher: Mutex::new(publisher),
            known: Mutex::default(),
            records: Mutex::default(),
            breaker: Arc::default(),
            startup_order: StartupOrder::new(),
        }
    }
}

/// The host's state of a Plugin, in addition to its live component.
#[derive(Default)]
pub(super) struct Known {
    /// Whether the Plugin was reconciled since this host leads.
    pub tried: bool,
    /// Whether this host prepared the Plugin while it stood by, or found a problem of it.
    pub prepared: bool,
    /// The last reconcile, if it succeeded.
    pub last: Option<LastReconcile>,
    /// A component that the last reconcile loaded, kept because a later step failed and is retried.
    pub candidate: Option<Arc<Component>>,
    /// A component of a registry that could not be loaded.
    pub refused: Option<Refusal>,
    /// Watches that the last reconcile needed, while the component is not live.
    pub held: Vec<Arc<Watch>>,
    pub former_kinds: FormerKinds,
    /// How this host, as the leader, shares the parents.
    pub sharing: Sharing,
    /// Version of the Plugin after the host's last write of its status; `u64::MAX` if it is unknown whether the write was executed.
    pub reported_in: u64,
}

/// How the leader shares the parents of a Plugin.
#[derive(Default)]
pub(super) struct Sharing {
    /// Whether it is about to share them, once its own reconciles have ended.
    pub is_handing_out: bool,
    /// Whether it has let other hosts reconcile some of them since it had all.
    pub has_shared: bool,
    /// Version of the Plugin in which it announced that it takes them back; none if it did not.
    pub taken_back_in: Option<u64>,
    /// Version of the Plugin that all members must have seen, while it waits for that: each wait may write the status, and
    /// must not begin anew.
    pub awaited: Option<u64>,
    /// When it took them back for a decision that a member left to it.
    pub taken_at: Option<Instant>,
    /// Version of the Plugin since which no other host reconciles any of them.
    pub alone_since: u64,
}

/// A reconcile that succeeded: the component of the Plugin is live.
pub(super) struct LastReconcile {
    pub generation: Option<i64>,
    pub findings: Findings,
    /// When the next reconcile is due without an event.
    pub next: Instant,
}

impl Plugins {
    /// Replaces the watches that are kept for a Plugin.
    pub(super) fn keep_watches(&self, name: &PluginName, watches: Vec<Arc<Watch>>) {
        let before = std::mem::replace(&mut self.state.known.lock().entry(name.clone()).or_default().held, watches);
        // Dropped outside the lock: dropping the last reference ends a watch.
        drop(before);
    }

    /// Forgets what the last reconcile kept in case it is retried: the live component has its own references now.
    pub(super) fn let_candidate_go(&self, name: &PluginName) {
        let mut known = self.state.known.lock();
        let entry = known.entry(name.clone()).or_default();
        let before = (entry.candidate.take(), std::mem::take(&mut entry.held));
        drop(known);
        // Dropped outside the lock: dropping the last reference ends a watch.
        drop(before);
    }

    /// The records of a Plugin's parents.
    pub(super) fn records(&self, name: &PluginName) -> Arc<Records> {
        let mut records = self.state.records.lock();
        let records = records.entry(name.clone()).or_insert_with(|| {
            let (queue, name) = (self.queue.clone(), name.clone());
            Arc::new(Records::new(CLOCK, move |wait| queue.add_after(&(), &name, Trigger::Resync, wait)))
        });
        records.clone()
    }

    pub(super) fn leftovers<'a>(&'a self, name: &'a PluginName) -> Leftovers<'a> {
        Leftovers { client: &self.client, discovery: &self.discovery, mark_keys: &self.mark_keys, name }
    }
}
