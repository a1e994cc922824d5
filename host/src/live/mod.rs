//! A plugin as it is live: its component, and all that was resolved for it. Replaced whole, never changed.

pub mod component_state;
pub mod failure_counts;
pub mod interests;
pub mod memo;
pub mod namespace_filter;
pub mod own_writes;
pub mod terminating;
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
use windlass_core::guard::{DeletionGuard, HeldParents, Leavers};
use windlass_core::ids::{GroupKind, Gvk, ObjectKey, PluginName, Uid};
use windlass_core::mark::MarkKey;
use windlass_core::object::Object;
use windlass_core::observed_status::{StatusShape, observed};
use windlass_core::related::ReadGrants;
use windlass_sandbox::Component;

use crate::cluster::account::Account;
use crate::cluster::watch::{Store, Watch, WatchId};
use crate::live::component_state::ComponentState;
use crate::live::failure_counts::FailureCounts;
use crate::live::memo::Memo;
use crate::live::namespace_filter::NamespaceFilter;
use crate::live::own_writes::Caches;
use crate::live::unselected::Unselected;
use crate::telemetry::Measures;

/// One Plugin's live logic and settings. A reconcile keeps the one it started with to its end.
#[derive(Clone)]
pub struct Live {
    /// The Plugin's name.
    pub name: PluginName,
    /// The logic.
    pub component: Arc<Component>,
    /// Names all that decides beside the objects (see [`windlass_core::snapshot::logic`]).
    pub logic: Digest,
    /// What the descriptor calls the logic's version.
    pub version: String,
    /// The watch of the parent kind.
    pub parents: Arc<Watch>,
    /// Whose the definition of that kind is.
    pub definition: Definition,
    /// Which of the host's status fields the parent kind keeps; none of a kind whose status nobody writes for the plugin.
    pub shape: StatusShape,
    /// As whom its parents' status is written.
    pub status_writer: StatusWriter,
    /// What that watch does not show any more, and has children still.
    pub unselected: Arc<Unselected>,
    /// The watches of the child kinds.
    pub children: HashMap<GroupKind, Arc<Watch>>,
    /// What it may want.
    pub grants: Grants,
    /// Names all that answers are judged by (see [`windlass_core::snapshot::rules`]).
    pub rules: Digest,
    /// Whether its parents get a finalizer.
    pub finalizes: bool,
    /// Whether objects that exist under its children's names become its children.
    pub adopts: bool,
    /// Whether the Plugin says `spec.suspend`.
    pub suspended: bool,
    /// As whom its children are written, and who may read what it requires.
    pub account: Account,
    /// Where its parents may be; nothing for everywhere.
    pub namespaces: Option<NamespaceFilter>,
    /// The other Plugins.
    pub peers: Peers,
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
    /// Which parents fail, for the Plugin's status. The same one for all of a Plugin's logic.
    pub failures: Arc<FailureCounts>,
    /// Calls of this plugin that run at once: fewer than there are cores, so that one that loops leaves room. The same
    /// for all of a Plugin's logic, as calls to older logic may still run.
    pub call_slots: Arc<Semaphore>,
    /// How many requests it may cause. The same for all of a Plugin's logic.
    pub budget: Arc<Mutex<Budget>>,
    /// Which deletions are held without a user's word (rule R9).
    pub guard: DeletionGuard,
    /// The parents whose deletions are held. The same for all of a Plugin's logic: what a parent's creates diluted, new
    /// logic must not find small.
    pub held: Arc<Mutex<HeldParents>>,
    /// Parents of which it is known that nothing needs to be done. The same for all of a Plugin's logic.
    pub memo: Arc<Memo>,
    /// How it behaves. The same one while only the Plugin's settings change.
    pub state: Arc<ComponentState>,
    /// The key of its children's marks, if its parents are cluster-scoped.
    pub mark_key: Option<MarkKey>,
    /// What it measures.
    pub measures: Arc<Measures>,
}

/// What a live plugin may read, as far as its own ServiceAccount may.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reads {
    /// Kinds and namespaces.
    pub grants: ReadGrants,
    /// How the API server names the granted kinds.
    pub resources: HashMap<Gvk, Arc<ApiResource>>,
}

/// Whose the definition of a parent kind is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Definition {
    /// The Plugin brought it along: there are no objects of the kind but for it.
    Own,
    /// It is built in, or somebody else's, whatever the component says: a right is needed to see its objects.
    Others,
}

/// As whom the status of parents is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusWriter {
    /// As the host: the kind is the Plugin's own.
    Host,
    /// As the Plugin's ServiceAccount, which may patch the status of a kind that is not the Plugin's own.
    Account,
    /// By nobody: the kind is not the Plugin's own, and its ServiceAccount may not patch the status.
    Denied,
    /// By nobody: the kind is built in or exists without the plugin, or has no status.
    Nobody,
}

/// How many calls run at once in all: as many as there are cores, since each keeps one busy. On a single core two share it,
/// so that there is a place that no plugin takes from all others.
pub fn calls_at_once() -> usize {
    // Each question opens three files.
    static CORES: LazyLock<usize> = LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));
    (*CORES).max(2)
}

/// How many of them may be of one plugin: all but one.
pub fn calls_of_one() -> usize {
    calls_at_once() - 1
}

impl Live {
    /// Digest of the logic.
    pub fn digest(&self) -> Digest {
        self.component.surface().digest
    }

    /// Whether the API server lets the host follow all its kinds. While it does not, the caches show the past.
    pub fn is_followed(&self) -> bool {
        self.watches().all(|watch| watch.is_followed())
    }

    /// The watches that it rests on: of its parents, their namespaces and its children.
    pub fn watches(&self) -> impl Iterator<Item = &Arc<Watch>> {
        let homes = self.namespaces.iter().map(|homes| &homes.watch);
        std::iter::once(&self.parents).chain(homes).chain(self.children.values())
    }

    /// Whether the Plugin serves an object's namespace, as far as that is known.
    pub fn is_home(&self, parent: &Object) -> bool {
        self.namespaces.as_ref().is_none_or(|homes| homes.hold(parent) == Some(true))
    }

    /// Whether an object of the parent kind is one of its parents, and no longer or not yet only kept in sight; nothing
    /// if that is not known yet.
    pub fn selects(&self, parent: &Object) -> Option<bool> {
        let home = self.namespaces.as_ref().map_or(Some(true), |homes| homes.hold(parent))?;
        Some(home && self.parents.selects(parent))
    }

    /// Whether there is something to do for an object: it is shown, or has left children behind.
    pub fn knows(&self, parent: &ObjectKey) -> bool {
        self.parents.store.get(parent).is_some() || self.unselected.holds(parent)
    }

    /// Whether an object has children of the plugin's that are not on their way already.
    pub fn has_children(&self, parent: &Uid) -> bool {
        self.children.values().any(|watch| self.count_children(watch, parent) > 0)
    }

    /// How many children of one kind an object has that are the plugin's and not on their way already.
    fn count_children(&self, watch: &Watch, parent: &Uid) -> usize {
        let is_ours = |child: &Object| child.plugin() == Some(self.name.as_str()) && self.has_mark(child);
        let counts = |child: &Object| !child.deleting && is_ours(child);
        watch.store.count_controlled(std::slice::from_ref(parent), counts)
    }

    /// Whether an object that says it is a child has the mark of one, as far as its children have any.
    pub fn has_mark(&self, child: &Object) -> bool {
        self.mark_key.as_ref().is_none_or(|key| key.holds(child))
    }

    /// The objects of a namespace that have such children.
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

    /// Whether the parent kind is the plugin's own. It may be another's (a built-in kind, say): then its status is left
    /// alone, and any number of plugins may have it.
    pub fn owns_kind(&self) -> bool {
        matches!(self.component.descriptor().parent, Parent::Custom(_))
    }

    /// Whether the children of another plugin are this one's by now: a custom kind has one plugin, which is the heir of those
    /// that are gone.
    pub fn inherits(&self, plugin: &str) -> bool {
        self.owns_kind() && self.peers.is_gone(plugin)
    }

    /// Whether every parent would be reconciled as by another one: logic, kinds, grants, config, limits and rights
    /// are the same.
    pub fn decides_like(&self, other: &Self) -> bool {
        self.digest() == other.digest()
            && self.config == other.config
            && self.limits == other.limits
            && self.shape == other.shape
            && self.definition == other.definition
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

    /// The account as which the status of its parents is written; none for the host itself.
    pub fn status_account(&self) -> Option<&Account> {
        (self.status_writer != StatusWriter::Host).then_some(&self.account)
    }

    /// Names what decides which children a parent has: the component, config, grants, limits, and whose parents it has. Two
    /// processes find the same name.
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

/// The Plugins that exist, live or not.
#[derive(Clone)]
pub struct Peers(pub Arc<Watch>);

impl Peers {
    /// The Plugin of that name.
    pub fn plugin(&self, name: &PluginName) -> Option<Arc<Object>> {
        self.0.store.get(&ObjectKey::new(None, name.as_str()))
    }

    /// Whether there is surely no Plugin of that name.
    pub fn is_gone(&self, plugin: &str) -> bool {
        self.0.is_synced() && self.0.store.get(&ObjectKey::new(None, plugin)).is_none()
    }
}

/// Whether a Plugin's status says that there was no parent when it was written.
pub fn had_no_parents(plugin: &Object) -> bool {
    observed(plugin).count("parents") == Some(0)
}

/// What the work queue holds for each plugin: a parent's namespace and name.
pub type ParentKey = ObjectKey;

/// The live plugins by the watch of their parents: what one event asks for, without going over all that is live. Clones
/// share it; `plugins` keeps it in step with the registry.
#[derive(Clone, Default)]
pub struct ParentIndex(Arc<ArcSwap<HashMap<WatchId, Vec<PluginName>>>>);

impl ParentIndex {
    /// Does something for each plugin whose parents a watch shows. Allocates nothing.
    pub fn for_each(&self, watch: &WatchId, act: impl FnMut(&PluginName)) {
        if let Some(plugins) = self.0.load().get(watch) {
            plugins.iter().for_each(act);
        }
    }

    /// The plugins that are live from now on, with the watches of their parents.
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
    fn an_event_finds_the_plugins_of_its_watch_and_of_no_other_selector() {
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
        assert_eq!(of(Some("team")), ["a", "b"], "an existing kind may have several");
        assert_eq!((of(Some("tier")), of(None)), (vec!["c".to_owned()], Vec::new()));
        index.replace([(name("b"), watch(Some("team")))]);
        assert_eq!(of(Some("team")), ["b"]);
    }
}
