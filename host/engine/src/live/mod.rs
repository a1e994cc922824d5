//! A live plugin: its component, with the resolved kinds, grants and settings. A `Live` never changes; it is replaced
//! as a whole.

pub mod call_slots;
pub mod interests;
pub mod log_rate;
pub mod namespace_filter;
pub mod own_writes;
pub mod registry;
pub mod unselected;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arc_swap::ArcSwap;
use kube::core::ApiResource;
use windlass_core::contract::related::ReadGrants;
use windlass_core::guard::deletions::Leavers;
use windlass_core::object::Object;
use windlass_core::object::observed_status::observed;
use windlass_core::object::selector::Selector;
use windlass_core::reconcile::shared::Shared;
use windlass_core::reconcile::shared::component_state::Beginning;
use windlass_core::reconcile::terms::{StatusWriter, Terms};
use windlass_core::value::digest::Digest;
use windlass_core::value::ids::{GroupKind, Gvk, ObjectKey, PluginName, Uid};
use windlass_sandbox::Component;

use self::call_slots::CallSlots;
use self::log_rate::LogRate;
use self::namespace_filter::NamespaceFilter;
use self::unselected::Unselected;
use crate::cluster::account::Account;
use crate::cluster::watch::{Store, Watch, WatchId};
use crate::telemetry::{Controller, Measures};

/// One Plugin's live component and settings. A reconcile uses the same `Live` from its first step to its last.
#[derive(Clone)]
pub struct Live {
    /// On which terms its parents are reconciled.
    pub terms: Terms,
    /// What the cluster shows of its parents and children.
    pub caches: Caches,
    /// What its parents share.
    pub shared: Shared,
    /// The component.
    pub component: Arc<Component>,
    /// What its calls need, and what is told of them.
    pub calls: Calls,
    /// The Plugin's ServiceAccount: children are written as it, and related objects are shown only if it may read them.
    pub account: Account,
    /// Who installed the CRD of the parent kind.
    pub crd_owner: CrdOwner,
}

/// The watches of one Plugin.
#[derive(Clone)]
pub struct Caches {
    /// The watch of the parent kind.
    pub parents: Arc<Watch>,
    /// The watches of the child kinds.
    pub children: HashMap<GroupKind, Arc<Watch>>,
    /// The namespaces whose objects are parents; none for all namespaces.
    pub namespaces: Option<NamespaceFilter>,
    /// The annotations of parents; none if all objects of the watch are parents.
    pub annotations: Option<Selector>,
    /// Former parents: objects that the watch of the parents no longer shows, and that still have children.
    pub unselected: Arc<Unselected>,
    /// All Plugins of the cluster.
    pub peers: Peers,
    /// The API resources of the related kinds that the plugin may require.
    pub resources: HashMap<Gvk, Arc<ApiResource>>,
}

/// What the calls of one plugin need, and what is told of them.
#[derive(Clone)]
pub struct Calls {
    /// Permits for calls of this plugin. All components of the Plugin share them, because calls of an earlier component may still run.
    pub slots: Arc<CallSlots>,
    /// The component's metrics.
    pub measures: Arc<Measures>,
    /// The host's measurements of the plugin.
    pub controller: Arc<Controller>,
    /// The log lines that the component may write.
    pub log: Arc<LogRate>,
}

/// The related objects that a plugin was granted. Its ServiceAccount must be allowed to read them as well.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GrantedReads {
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

impl Live {
    /// The component's digest.
    pub fn digest(&self) -> Digest {
        self.component.surface().digest
    }

    /// Whether an object is a parent, or a former parent that still has children.
    pub fn knows(&self, parent: &ObjectKey) -> bool {
        self.caches.parents.store.get(parent).is_some() || self.caches.unselected.holds(parent)
    }

    /// Whether an object has children of this plugin that are not being deleted.
    pub fn has_children(&self, parent: &Uid) -> bool {
        self.caches.children.values().any(|watch| self.count_children(watch, parent) > 0)
    }

    /// Number of an object's children of one kind that belong to this plugin and are not being deleted.
    fn count_children(&self, watch: &Watch, parent: &Uid) -> usize {
        let counts = |child: &Object| !child.deleting && self.terms.is_childlike(child);
        watch.store.count_controlled(std::slice::from_ref(parent), counts)
    }

    /// The parents that have children of this plugin and are not being deleted, with the number of these children: in a
    /// namespace, or (none) the cluster-scoped parents.
    pub fn with_children_in(&self, namespace: Option<&str>) -> Leavers {
        let mut leavers = Leavers::default();
        for parent in self.caches.parents.store.in_namespace(namespace).iter().filter(|parent| !parent.deleting) {
            let owned: usize = self.caches.children.values().map(|watch| self.count_children(watch, &parent.uid)).sum();
            if owned > 0 {
                leavers.parents.push(parent.key.clone());
                leavers.owned += owned;
            }
        }
        leavers
    }

    /// Whether this plugin may own the children of another plugin: a custom kind has one plugin, which re-adopts the
    /// children of plugins that are gone.
    pub fn inherits(&self, plugin: &str) -> bool {
        self.terms.owns_kind && self.caches.peers.is_gone(plugin)
    }

    /// Whether another `Live` would reconcile every parent in the same way: component, kinds, grants, config, limits
    /// and permissions are the same.
    pub fn decides_like(&self, other: &Self) -> bool {
        self.terms.grants == other.terms.grants
            && self.terms.reads == other.terms.reads
            && self.is_rolled_out_like(other)
    }

    /// Whether another `Live` would reconcile every parent in the same way, but for the optional kinds that the cluster serves. These come
    /// and go without a rollout: they are none of the plugin's changes.
    pub fn is_rolled_out_like(&self, other: &Self) -> bool {
        self.terms.decide_like(&other.terms)
            && self.caches.are_those_of(&other.caches)
            && self.crd_owner == other.crd_owner
            && self.account == other.account
    }

    /// The account that the host impersonates to write the status of parents; none if it writes as itself.
    pub fn status_account(&self) -> Option<&Account> {
        (self.terms.status_writer != StatusWriter::Host).then_some(&self.account)
    }

    /// What this component goes live with.
    pub fn beginning(&self) -> Beginning {
        // Retained children have no controller and are never deleted. Children of parents that are gone are deleted by
        // the garbage collector; if they counted, the other deletions would be a smaller share.
        let mut uids = self.caches.parents.store.pick(|parent| Some(parent.uid.clone()));
        let (former, of_former): (Vec<_>, Vec<_>) = self.caches.unselected.all().into_iter().unzip();
        uids.extend(of_former);
        // Parents of a custom kind have no other plugin, so this one re-adopts all their children.
        let is_ours = |child: &Object| {
            (self.terms.owns_kind || child.plugin() == Some(self.terms.name.as_str())) && self.terms.has_mark(child)
        };
        // Counted by parent, because each of a hundred plugins may have few of the objects of a kind.
        let owned = self.caches.children.values().map(|watch| watch.store.count_controlled(&uids, is_ours)).sum();
        let (guard, decides_by, parents) =
            (self.terms.settings.guard, self.decides_by(), self.caches.parents.store.keys());
        Beginning { guard, decides_by, parents, former, owned }
    }

    /// Hash of everything that determines the children of a parent: component, config, grants, limits and selectors. It
    /// is the same in every process.
    pub fn decides_by(&self) -> Digest {
        let mut text = self.terms.call_inputs.as_bytes().to_vec();
        text.extend_from_slice(self.terms.rules.as_bytes());
        let namespaces = self.caches.namespaces.as_ref().map(|filter| filter.selector.to_string()).unwrap_or_default();
        text.extend_from_slice(format!("{namespaces}\n{:?}", self.caches.parents.id.labels).as_bytes());
        Digest::of(&text)
    }
}

impl Caches {
    /// Whether the caches of all kinds follow the API server. A cache that does not is out of date.
    pub fn is_followed(&self) -> bool {
        self.watches().all(|watch| watch.is_followed())
    }

    /// The watches of the parents, their namespaces and the children.
    pub fn watches(&self) -> impl Iterator<Item = &Arc<Watch>> {
        let of_namespaces = self.namespaces.iter().map(|filter| &filter.watch);
        std::iter::once(&self.parents).chain(of_namespaces).chain(self.children.values())
    }

    /// The cache of the parents (none), or of a child kind; none if the kind is not watched any more.
    pub fn store(&self, of: Option<&Gvk>) -> Option<&Store> {
        let watch = of.map_or(Some(&self.parents), |kind| self.child_watch(kind));
        watch.map(|watch| &*watch.store)
    }

    /// The watch of a child kind.
    pub fn child_watch(&self, kind: &Gvk) -> Option<&Arc<Watch>> {
        self.children.get(&kind.group_kind())
    }

    /// Whether `spec.namespaceSelector` selects the object's namespace; false while the host does not know the
    /// namespace's labels.
    pub fn selects_namespace(&self, parent: &Object) -> bool {
        self.namespaces.as_ref().is_none_or(|filter| filter.selects(parent) == Some(true))
    }

    /// The namespaces that have parents and that `spec.namespaceSelector` selects.
    pub fn parent_namespaces(&self) -> BTreeSet<Arc<str>> {
        let is_parent = |parent: &Object| self.selects_namespace(parent) && self.has_annotations(parent);
        let namespace = |parent: &Object| parent.key.namespace.clone().filter(|_| is_parent(parent));
        self.parents.store.pick(namespace).into_iter().collect()
    }

    /// The number of parents, in whatever namespaces.
    pub fn parent_count(&self) -> usize {
        if self.annotations.is_none() { self.parents.store.size() } else { self.count_parents(|_| true) }
    }

    /// The number of parents for which this is true, in whatever namespaces.
    pub fn count_parents(&self, is_it: impl Fn(&Object) -> bool) -> usize {
        self.parents.store.pick(|parent| (is_it(parent) && self.has_annotations(parent)).then_some(())).len()
    }

    /// Whether the selector over annotations, if there is one, selects an object of the parent kind.
    fn has_annotations(&self, object: &Object) -> bool {
        let selects = |selector: &Selector| object.with_annotations(|all| selector.matches(all));
        self.annotations.as_ref().is_none_or(selects)
    }

    /// Whether the selectors make an object of the parent kind a parent. None while the host does not know the labels
    /// of the object's namespace.
    pub fn selects(&self, parent: &Object) -> Option<bool> {
        let in_namespace = self.namespaces.as_ref().map_or(Some(true), |filter| filter.selects(parent))?;
        Some(in_namespace && self.parents.selects(parent) && self.has_annotations(parent))
    }

    /// Whether these are the same watches, with the same selectors, as far as both have watches of the same kinds.
    fn are_those_of(&self, other: &Self) -> bool {
        let is_same = |(kind, watch): (&GroupKind, &Arc<Watch>)| {
            other.children.get(kind).is_none_or(|other| Arc::ptr_eq(watch, other))
        };
        let is_same_resource = |(kind, resource): (&Gvk, &Arc<ApiResource>)| {
            other.resources.get(kind).is_none_or(|other| other == resource)
        };
        Arc::ptr_eq(&self.parents, &other.parents)
            && self.namespaces == other.namespaces
            && self.annotations == other.annotations
            && self.resources.iter().all(is_same_resource)
            && self.children.iter().all(is_same)
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
            labels: labels.map(str::to_owned),
            ..WatchId::of_kind(Arc::new(Gvk::from_api_version("v1", "Namespace")))
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
