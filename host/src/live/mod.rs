//! A live plugin: its component and everything that was resolved for it. A `Live` is replaced as a whole and never changed.

pub mod component_state;
pub mod failures;
pub mod interests;
pub mod namespace_filter;
pub mod own_writes;
pub mod record;
pub mod steady;
pub mod unselected;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use kube::core::ApiResource;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use windlass_core::budget::Budget;
use windlass_core::contract::{Limits, Parent};
use windlass_core::desired::Grants;
use windlass_core::digest::Digest;
use windlass_core::guard::{DeletionGuard, Leavers};
use windlass_core::ids::{GroupKind, Gvk, ObjectKey, PluginName, Uid};
use windlass_core::mark::MarkKey;
use windlass_core::object::Object;
use windlass_core::observed_status::{StatusShape, observed};
use windlass_core::related::ReadGrants;
use windlass_sandbox::Component;

use self::component_state::ComponentState;
use self::namespace_filter::NamespaceFilter;
use self::own_writes::Caches;
use self::record::Records;
use self::unselected::Unselected;
use crate::cluster::account::Account;
use crate::cluster::watch::{Store, Watch, WatchId};
use crate::telemetry::Measures;

/// One Plugin's live component and settings. A reconcile uses the one that it began with to its end.
#[derive(Clone)]
pub struct Live {
    /// The Plugin's name.
    pub name: PluginName,
    /// The component.
    pub component: Arc<Component>,
    /// Hash of everything beside the objects that a response depends on (see [`windlass_core::snapshot::logic`]).
    pub logic: Digest,
    /// The component's version, from its descriptor.
    pub version: String,
    /// The watch of the parent kind.
    pub parents: Arc<Watch>,
    /// Whether the Plugin installed the CRD of that kind.
    pub crd_owner: CrdOwner,
    /// Which of the host's status fields the parent kind keeps. None of a kind whose status is not written for the plugin.
    pub shape: StatusShape,
    /// As whom the status of parents is written.
    pub status_writer: StatusWriter,
    /// Former parents that this watch no longer shows and that still have children.
    pub unselected: Arc<Unselected>,
    /// The watches of the child kinds.
    pub children: HashMap<GroupKind, Arc<Watch>>,
    /// The kinds of children that the plugin may own, and where.
    pub grants: Grants,
    /// Hash of everything that responses are validated by (see [`windlass_core::snapshot::rules`]).
    pub rules: Digest,
    /// Whether parents get the plugin's finalizer.
    pub finalizes: bool,
    /// Whether the plugin adopts existing objects that have its children's names (`spec.adopt`).
    pub adopts: bool,
    /// `spec.suspend`
    pub suspended: bool,
    /// The Plugin's ServiceAccount: children are written as it, and related objects are shown only if it may read them.
    pub account: Account,
    /// The namespaces whose objects are parents; none for all namespaces.
    pub namespaces: Option<NamespaceFilter>,
    /// All Plugins of the cluster.
    pub peers: Peers,
    /// The related objects that the plugin may require.
    pub reads: Reads,
    /// `spec.config`, as JSON.
    pub config: Option<Arc<[u8]>>,
    /// Limits of each call.
    pub limits: Limits,
    /// Time between resyncs, before jitter.
    pub resync: Duration,
    /// How many parents are reconciled at once.
    pub concurrency: usize,
    /// What is remembered of each parent. All components of the Plugin share it.
    pub records: Arc<Records>,
    /// Places for calls of this plugin: one fewer than there are cores, so that a plugin that loops leaves room. All components of
    /// the Plugin share them, because calls of an earlier component may still run.
    pub call_slots: Arc<Semaphore>,
    /// The rate of requests that the plugin may cause. All components of the Plugin share it.
    pub budget: Arc<Mutex<Budget>>,
    /// From how many deletions on the host blocks them until a user releases them (rule R9).
    pub guard: DeletionGuard,
    /// What the host has learnt of the component's behaviour. It stays while only the Plugin's settings change.
    pub state: Arc<ComponentState>,
    /// The key of the marks on its children, if its parents are cluster-scoped.
    pub mark_key: Option<MarkKey>,
    /// The component's metrics.
    pub measures: Arc<Measures>,
}

/// The related objects that a plugin was granted. Its ServiceAccount must be allowed to read them as well.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reads {
    /// Kinds and namespaces.
    pub grants: ReadGrants,
    /// The granted kinds as the API server names them.
    pub resources: HashMap<Gvk, Arc<ApiResource>>,
}

/// Who installed the CRD of a parent kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrdOwner {
    /// The Plugin: all objects of the kind are its parents.
    Plugin,
    /// Another owner, or the kind is built in, whatever CRD the component carries: the plugin needs permission to see its objects.
    Others,
}

/// As whom the status of parents is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusWriter {
    /// As the host: the kind is the Plugin's own.
    Host,
    /// As the Plugin's ServiceAccount, which may patch the status of a kind that is not the Plugin's own.
    Account,
    /// The status is not written: the kind is not the Plugin's own, and its ServiceAccount may not patch the status.
    Denied,
    /// The status is not written: the kind is built in or exists without the plugin, or has no status.
    Nobody,
}

/// The most calls that run at once: one for each core, because each keeps one busy. On a single core two share it, so that one
/// plugin cannot take the only place.
pub fn calls_at_once() -> usize {
    // The system call opens three files each time.
    static CORES: LazyLock<usize> = LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));
    (*CORES).max(2)
}

/// The most calls of one plugin: all but one of these.
pub fn calls_of_one() -> usize {
    calls_at_once() - 1
}

impl Live {
    /// The component's digest.
    pub fn digest(&self) -> Digest {
        self.component.surface().digest
    }

    /// Whether the caches of all its kinds follow the API server. While one does not, it is out of date.
    pub fn is_followed(&self) -> bool {
        self.watches().all(|watch| watch.is_followed())
    }

    /// The watches of its parents, their namespaces and its children.
    pub fn watches(&self) -> impl Iterator<Item = &Arc<Watch>> {
        let homes = self.namespaces.iter().map(|homes| &homes.watch);
        std::iter::once(&self.parents).chain(homes).chain(self.children.values())
    }

    /// Whether `spec.namespaceSelector` selects the object's namespace, as far as the host knows its labels.
    pub fn is_home(&self, parent: &Object) -> bool {
        self.namespaces.as_ref().is_none_or(|homes| homes.hold(parent) == Some(true))
    }

    /// Whether the selectors make an object of the parent kind a parent. None while the host does not know the labels of the object's
    /// namespace.
    pub fn selects(&self, parent: &Object) -> Option<bool> {
        let home = self.namespaces.as_ref().map_or(Some(true), |homes| homes.hold(parent))?;
        Some(home && self.parents.selects(parent))
    }

    /// Whether an object is a parent, or a former one that still has children.
    pub fn knows(&self, parent: &ObjectKey) -> bool {
        self.parents.store.get(parent).is_some() || self.unselected.holds(parent)
    }

    /// Whether an object has children of this plugin that are not being deleted.
    pub fn has_children(&self, parent: &Uid) -> bool {
        self.children.values().any(|watch| self.count_children(watch, parent) > 0)
    }

    /// How many children of one kind an object has that are this plugin's and not being deleted.
    fn count_children(&self, watch: &Watch, parent: &Uid) -> usize {
        let is_ours = |child: &Object| child.plugin() == Some(self.name.as_str()) && self.has_mark(child);
        let counts = |child: &Object| !child.deleting && is_ours(child);
        watch.store.count_controlled(std::slice::from_ref(parent), counts)
    }

    /// Whether an object with a child's labels has a valid mark. Only children of cluster-scoped parents need one.
    pub fn has_mark(&self, child: &Object) -> bool {
        self.mark_key.as_ref().is_none_or(|key| key.holds(child))
    }

    /// The parents in a namespace that have children of this plugin.
    pub fn with_children_in(&self, namespace: Option<&str>) -> Leavers {
        let mut leavers = Leavers::default();
        for parent in self.parents.store.in_namespace(namespace).iter().filter(|parent| !parent.deleting) {
            let owned: usize = self.children.values().map(|watch| self.count_children(watch, &parent.uid)).sum();
            if owned > 0 {
                leavers.parents.push(parent.key.clone());
                leavers.owned += owned;
            }
        }
        leavers
    }

    /// Whether the component carries the CRD of the parent kind. Of any other kind, for example a built-in one, the host leaves the
    /// status alone, and several plugins may have parents of it.
    pub fn owns_kind(&self) -> bool {
        matches!(self.component.descriptor().parent, Parent::Custom(_))
    }

    /// Whether this plugin may own the children of another plugin: a custom kind has one plugin, which re-adopts the children of
    /// those that are gone.
    pub fn inherits(&self, plugin: &str) -> bool {
        self.owns_kind() && self.peers.is_gone(plugin)
    }

    /// Whether every parent would be reconciled as by another `Live`: component, kinds, grants, config, limits and permissions are
    /// the same.
    pub fn decides_like(&self, other: &Self) -> bool {
        self.digest() == other.digest()
            && self.config == other.config
            && self.limits == other.limits
            && self.shape == other.shape
            && self.crd_owner == other.crd_owner
            && self.status_writer == other.status_writer
            && self.grants == other.grants
            && self.mark_key == other.mark_key
            && self.reads == other.reads
            && self.account == other.account
            && self.namespaces == other.namespaces
            && Arc::ptr_eq(&self.parents, &other.parents)
            && self.children.len() == other.children.len()
            && self
                .children
                .iter()
                .all(|(kind, watch)| other.children.get(kind).is_some_and(|other| Arc::ptr_eq(watch, other)))
    }

    /// The account as which the status of parents is written; none if the host writes it as itself.
    pub fn status_account(&self) -> Option<&Account> {
        (self.status_writer != StatusWriter::Host).then_some(&self.account)
    }

    /// Hash of what decides which children a parent has: component, config, grants, limits and selectors. It is the same in every
    /// process.
    pub fn decides_by(&self) -> Digest {
        let mut text = self.logic.as_bytes().to_vec();
        text.extend_from_slice(self.rules.as_bytes());
        let homes = self.namespaces.as_ref().map(NamespaceFilter::selector).unwrap_or_default();
        text.extend_from_slice(format!("{homes}\n{:?}", self.parents.id.labels).as_bytes());
        Digest::of(&text)
    }

    /// The watch of a child kind.
    pub fn child_watch(&self, kind: &Gvk) -> Option<&Arc<Watch>> {
        self.children.get(&kind.group_kind())
    }
}

impl Caches for Live {
    fn of_parents(&self) -> &Store {
        &self.parents.store
    }

    fn parent_kind(&self) -> &Gvk {
        &self.parents.id.kind
    }

    fn of_children(&self, kind: &Gvk) -> Option<&Store> {
        self.child_watch(kind).map(|watch| &*watch.store)
    }
}

/// The Plugins of the cluster, live or not.
#[derive(Clone)]
pub struct Peers(pub Arc<Watch>);

impl Peers {
    /// The Plugin of that name.
    pub fn plugin(&self, name: &PluginName) -> Option<Arc<Object>> {
        self.0.store.get(&ObjectKey::new(None, name.as_str()))
    }

    /// Whether the cache of Plugins is filled and has no Plugin of that name.
    pub fn is_gone(&self, plugin: &str) -> bool {
        self.0.is_synced() && self.0.store.get(&ObjectKey::new(None, plugin)).is_none()
    }
}

/// Whether a Plugin's status counts no parents.
pub fn had_no_parents(plugin: &Object) -> bool {
    observed(plugin).count("parents") == Some(0)
}

/// A key of the queue of parents: namespace and name of a parent.
pub type ParentKey = ObjectKey;

/// The live plugins by the watch of their parents, so that an event need not go through all live plugins. Clones share it;
/// `plugins` updates it with the registry.
#[derive(Clone, Default)]
pub struct ParentIndex(Arc<ArcSwap<HashMap<WatchId, Vec<PluginName>>>>);

impl ParentIndex {
    /// Calls `act` for each plugin whose parents a watch shows. Allocates nothing.
    pub fn for_each(&self, watch: &WatchId, act: impl FnMut(&PluginName)) {
        if let Some(plugins) = self.0.load().get(watch) {
            plugins.iter().for_each(act);
        }
    }

    /// Replaces the index by these live plugins, each with the watch of its parents.
    pub fn replace(&self, live: impl IntoIterator<Item = (PluginName, WatchId)>) {
        let mut index: HashMap<WatchId, Vec<PluginName>> = HashMap::new();
        for (plugin, watch) in live {
            index.entry(watch).or_default().push(plugin);
        }
        self.0.store(Arc::new(index));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_is_routed_only_to_the_plugins_of_its_watch() {
        let watch = |labels: Option<&str>| WatchId {
            kind: Arc::new(Gvk::from_api_version("v1", "Namespace")),
            labels: labels.map(str::to_owned),
            finalizer: None,
        };
        let name = |name: &str| name.parse::<PluginName>().expect("a name");
        let index = ParentIndex::default();
        let of = |labels| {
            let mut found = Vec::new();
            index.for_each(&watch(labels), |plugin| found.push(plugin.to_string()));
            found
        };
        index.replace([
            (name("a"), watch(Some("team"))),
            (name("b"), watch(Some("team"))),
            (name("c"), watch(Some("tier"))),
        ]);
        assert_eq!(of(Some("team")), ["a", "b"], "several plugins may share an existing kind");
        assert_eq!((of(Some("tier")), of(None)), (vec!["c".to_owned()], Vec::new()));
        index.replace([(name("b"), watch(Some("team")))]);
        assert_eq!(of(Some("team")), ["b"]);
    }
}
