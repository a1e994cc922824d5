//! A live plugin: its component, with the resolved kinds, grants and settings. A `Live` never changes; it is replaced
//! as a whole.

pub mod component_state;
pub mod contended;
pub mod failures;
pub mod interests;
mod kept_values;
pub mod namespace_filter;
pub mod own_writes;
pub mod record;
pub mod registry;
pub mod steady;
pub mod unselected;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use kube::core::ApiResource;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use windlass_core::contract::desired::Grants;
use windlass_core::contract::grant::SpecGrants;
use windlass_core::contract::related::ReadGrants;
use windlass_core::contract::{Limits, Parent};
use windlass_core::guard::budget::Budget;
use windlass_core::guard::deletions::{DeletionGuard, Leavers};
use windlass_core::object::Object;
use windlass_core::object::mark::MarkKey;
use windlass_core::object::observed_status::{StatusShape, observed};
use windlass_core::reconcile::next_step::{Circumstances, NextStep, next_step};
use windlass_core::value::digest::Digest;
use windlass_core::value::ids::{GroupKind, Gvk, ObjectKey, PluginName, Uid};
use windlass_sandbox::Component;

use self::component_state::ComponentState;
use self::namespace_filter::NamespaceFilter;
use self::own_writes::Caches;
use self::record::Records;
use self::unselected::Unselected;
use crate::clock;
use crate::cluster::account::Account;
use crate::cluster::watch::{Store, Watch, WatchId};
use crate::telemetry::{Controller, Measures};

/// One Plugin's live component and settings. A reconcile uses the same `Live` from its first step to its last.
#[derive(Clone)]
pub struct Live {
    /// The Plugin's name.
    pub name: PluginName,
    /// The component.
    pub component: Arc<Component>,
    /// Hash of everything that determines a response, except the objects (see [`windlass_core::contract::snapshot::call_inputs`]).
    pub call_inputs: Digest,
    /// The component's version, from its descriptor.
    pub version: String,
    /// The watch of the parent kind.
    pub parents: Arc<Watch>,
    /// Who installed the CRD of the parent kind.
    pub crd_owner: CrdOwner,
    /// Which of the host's status fields the schema of the parent kind has. It has no field if the status is not
    /// written.
    pub shape: StatusShape,
    /// The account that writes the status of parents.
    pub status_writer: StatusWriter,
    /// Former parents: objects that the watch of the parents no longer shows, and that still have children.
    pub unselected: Arc<Unselected>,
    /// The watches of the child kinds.
    pub children: HashMap<GroupKind, Arc<Watch>>,
    /// The kinds of children that the plugin may own, and the namespaces in which it may own them.
    pub grants: Grants,
    /// Hash of everything by which responses are validated (see [`windlass_core::contract::snapshot::rules`]).
    pub rules: Digest,
    /// Whether parents get the plugin's finalizer.
    pub finalizes: bool,
    /// Whether the plugin adopts existing objects that have its children's names (`spec.adopt`).
    pub adopts: bool,
    /// Whether `spec.suspend` stops the reconciles of parents.
    pub suspended: bool,
    /// The Plugin's ServiceAccount: children are written as it, and related objects are shown only if it may read them.
    pub account: Account,
    /// The namespaces whose objects are parents; none for all namespaces.
    pub namespaces: Option<NamespaceFilter>,
    /// All Plugins of the cluster.
    pub peers: Peers,
    /// The related objects that the plugin may require.
    pub reads: Reads,
    /// `spec.config` as JSON; none if it is not set.
    pub config: Option<Arc<[u8]>>,
    /// Limits of each call.
    pub limits: Limits,
    /// Time between resyncs, before jitter.
    pub resync: Duration,
    /// Largest number of parents that are reconciled at once.
    pub concurrency: usize,
    /// The records of the parents. All components of the Plugin share them.
    pub records: Arc<Records>,
    /// Permits for calls of this plugin: [`calls_of_one`]. All components of the Plugin share them, because calls of an
    /// earlier component may still run.
    pub call_slots: Arc<Semaphore>,
    /// The rate of requests that the plugin may cause. All components of the Plugin share it.
    pub budget: Arc<Mutex<Budget>>,
    /// Thresholds above which deletions are blocked until a user allows them (rule R9).
    pub guard: DeletionGuard,
    /// State of the component, which stays while only the Plugin's settings change.
    pub state: Arc<ComponentState>,
    /// The key of the marks on children; none if the parents are namespaced.
    pub mark_key: Option<MarkKey>,
    /// The component's metrics.
    pub measures: Arc<Measures>,
    /// The host's measurements of the plugin.
    pub controller: Arc<Controller>,
}

/// The related objects that a plugin was granted. Its ServiceAccount must be allowed to read them as well.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reads {
    /// The granted kinds, and the namespaces in which the plugin may read them.
    pub grants: ReadGrants,
    /// The API resources of the granted kinds.
    pub resources: HashMap<Gvk, Arc<ApiResource>>,
}

/// Who installed the CRD of a parent kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrdOwner {
    /// The Plugin: all objects of the kind are its parents.
    Plugin,
    /// Another owner, or the kind is built in, even if the component carries a CRD: the plugin's ServiceAccount needs
    /// permission to read the parents.
    Others,
}

/// The account that writes the status of parents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusWriter {
    /// The host: the Plugin installed the CRD.
    Host,
    /// The Plugin's ServiceAccount, which may patch the status: another owner installed the CRD that the component
    /// carries.
    Account,
    /// No account: another owner installed the CRD that the component carries, and the Plugin's ServiceAccount may not
    /// patch the status.
    Denied,
    /// No account: the component carries no CRD of the kind, or the CRD has no status subresource.
    Nobody,
}

/// Largest number of calls that run at once: one for each core, because a call keeps a core busy, but at least two, so
/// that one plugin cannot take all of them.
pub fn calls_at_once() -> usize {
    clock::cores().max(2)
}

/// Largest number of calls of one plugin that run at once: one fewer than [`calls_at_once`], so that a plugin that
/// loops leaves room.
pub fn calls_of_one() -> usize {
    calls_at_once() - 1
}

impl Live {
    /// The component's digest.
    pub fn digest(&self) -> Digest {
        self.component.surface().digest
    }

    /// Whether the caches of all kinds follow the API server. A cache that does not is out of date.
    pub fn is_followed(&self) -> bool {
        self.watches().all(|watch| watch.is_followed())
    }

    /// The watches of its parents, their namespaces and its children.
    pub fn watches(&self) -> impl Iterator<Item = &Arc<Watch>> {
        let of_namespaces = self.namespaces.iter().map(|filter| &filter.watch);
        std::iter::once(&self.parents).chain(of_namespaces).chain(self.children.values())
    }

    /// Whether `spec.namespaceSelector` selects the object's namespace; false while the host does not know the
    /// namespace's labels.
    pub fn selects_namespace(&self, parent: &Object) -> bool {
        self.namespaces.as_ref().is_none_or(|filter| filter.selects(parent) == Some(true))
    }

    /// The namespaces that have parents and that `spec.namespaceSelector` selects.
    pub fn parent_namespaces(&self) -> BTreeSet<Arc<str>> {
        namespace_filter::parent_namespaces(&self.parents, self.namespaces.as_ref())
    }

    /// Whether the selectors make an object of the parent kind a parent. None while the host does not know the labels
    /// of the object's namespace.
    pub fn selects(&self, parent: &Object) -> Option<bool> {
        let in_namespace = self.namespaces.as_ref().map_or(Some(true), |filter| filter.selects(parent))?;
        Some(in_namespace && self.parents.selects(parent))
    }

    /// Whether an object is a parent, or a former parent that still has children.
    pub fn knows(&self, parent: &ObjectKey) -> bool {
        self.parents.store.get(parent).is_some() || self.unselected.holds(parent)
    }

    /// Whether an object has children of this plugin that are not being deleted.
    pub fn has_children(&self, parent: &Uid) -> bool {
        self.children.values().any(|watch| self.count_children(watch, parent) > 0)
    }

    /// Number of an object's children of one kind that belong to this plugin and are not being deleted.
    fn count_children(&self, watch: &Watch, parent: &Uid) -> usize {
        let is_ours = |child: &Object| child.plugin() == Some(self.name.as_str()) && self.has_mark(child);
        let counts = |child: &Object| !child.deleting && is_ours(child);
        watch.store.count_controlled(std::slice::from_ref(parent), counts)
    }

    /// Whether an object with a child's labels has a valid mark. Only children of cluster-scoped parents need one.
    pub fn has_mark(&self, child: &Object) -> bool {
        self.mark_key.as_ref().is_none_or(|key| key.holds(child))
    }

    /// The parents that have children of this plugin and are not being deleted, with the number of these children: in a
    /// namespace, or (none) the cluster-scoped parents.
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

    /// Whether the component carries the CRD of the parent kind. If not, for example for a built-in kind, the host does
    /// not write the status, and several plugins may have parents of the kind.
    pub fn owns_kind(&self) -> bool {
        matches!(self.component.descriptor().parent, Parent::Custom(_))
    }

    /// Whether this plugin may own or read what its Plugin does not grant any more.
    pub fn exceeds(&self, grants: &SpecGrants) -> bool {
        !self.grants.are_held_by(grants) || !grants.hold_reads(&self.reads.grants)
    }

    /// Whether this plugin may own the children of another plugin: a custom kind has one plugin, which re-adopts the
    /// children of plugins that are gone.
    pub fn inherits(&self, plugin: &str) -> bool {
        self.owns_kind() && self.peers.is_gone(plugin)
    }

    /// Whether another `Live` would reconcile every parent in the same way: component, kinds, grants, config, limits
    /// and permissions are the same.
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

    /// The account that the host impersonates to write the status of parents; none if it writes as itself.
    pub fn status_account(&self) -> Option<&Account> {
        (self.status_writer != StatusWriter::Host).then_some(&self.account)
    }

    /// The next step for an object of the parent kind; `selected` is true if it is one of the parents now.
    pub fn next_step(&self, parent: &Object, selected: bool) -> NextStep {
        let (finalizes, suspended) = (self.finalizes, self.suspended);
        next_step(parent, &self.name, Circumstances { finalizes, suspended, selected })
    }

    /// Hash of everything that determines the children of a parent: component, config, grants, limits and selectors. It
    /// is the same in every process.
    pub fn decides_by(&self) -> Digest {
        let mut text = self.call_inputs.as_bytes().to_vec();
        text.extend_from_slice(self.rules.as_bytes());
        let namespaces = self.namespaces.as_ref().map(NamespaceFilter::selector).unwrap_or_default();
        text.extend_from_slice(format!("{namespaces}\n{:?}", self.parents.id.labels).as_bytes());
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

/// Whether a Plugin's status reports zero parents; false if it reports no number.
pub fn had_no_parents(plugin: &Object) -> bool {
    observed(plugin).count("parents") == Some(0)
}

/// A key of the queue of parents: namespace and name of a parent.
pub type ParentKey = ObjectKey;

/// The live plugins by the watch of their parents, so that an event need not go through all live plugins. Clones share
/// the index; the module `plugins` updates it together with the registry.
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
