//! Related objects that parents require: an index from a change to the parents that it concerns, and the watches of the
//! required kinds.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::RwLock;
use windlass_core::contract::related::{Need, Needs, Place, Select, size_of, watched};
use windlass_core::object::Object;
use windlass_core::object::selector::Selector;
use windlass_core::value::ids::{Gvk, ObjectKey, PluginName};

use crate::cluster::watch::{Change, Watch, WatchId};

/// The requirements of all parents. Parents without requirements have no entry. Clones share the state.
///
/// `W` is the watch of a kind, which ends when the last reference to it is dropped.
pub struct Interests<W = Watch>(Arc<RwLock<State<W>>>);

/// The requirements of one parent.
#[derive(Debug)]
pub struct Interest {
    /// The plugin that reconciles the parent.
    pub plugin: PluginName,
    /// The parent.
    pub parent: ObjectKey,
    needs: Needs,
}

/// The watch of a required kind.
pub struct Followed<W = Watch> {
    /// The watch.
    pub watch: Arc<W>,
    /// Since when parents require the kind.
    pub since: Instant,
}

/// A kind, and whether its objects' metadata alone is watched.
type Watched = (Arc<Gvk>, bool);

fn of_need(need: &Need) -> Watched {
    (need.kind.clone(), need.metadata_only)
}

fn of_watch(watch: &WatchId) -> Watched {
    (watch.kind.clone(), watch.metadata_only)
}

struct State<W> {
    plugins: HashMap<PluginName, OfPlugin>,
    kinds: HashMap<Watched, OfKind<W>>,
    /// Maximum memory for the requirements of each plugin, in bytes.
    limit: usize,
}

/// The requirements of a plugin's parents.
#[derive(Default)]
struct OfPlugin {
    parents: HashMap<ObjectKey, Kept>,
    /// Their memory, in bytes. Selectors that parents share count for each of them.
    size: usize,
}

struct Kept {
    /// The requirements that were served last, whether the response to them was final or not.
    interest: Arc<Interest>,
    /// The requirements of the last final response; none before the first one.
    last: Option<Needs>,
}

impl Kept {
    fn size(&self) -> usize {
        let last = self.last.as_ref().filter(|last| !Arc::ptr_eq(last, &self.interest.needs));
        size_of(&self.interest.needs) + last.map_or(0, |last| size_of(last))
    }
}

/// The requirements of a plugin's parents together exceed this limit, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full(pub usize);

struct OfKind<W> {
    followed: Followed<W>,
    /// Parents by the name of the object that they require.
    by_name: HashMap<ObjectKey, Concerned>,
    /// Parents by the label selector that they require. Equal selectors are kept and matched once.
    by_labels: HashMap<Filed, HashMap<Selector, Concerned>>,
}

/// Interests by their addresses.
type Concerned = HashMap<usize, Arc<Interest>>;

fn address(interest: &Arc<Interest>) -> usize {
    Arc::as_ptr(interest).addr()
}

/// Where a selector is found for an object, so that few selectors are compared with it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Filed {
    /// The namespace; none for cluster-scoped objects, and for those of all namespaces.
    namespace: Option<Arc<str>>,
    /// A term without which the selector does not match. None for selectors that have no such term: they are compared with every object.
    term: Option<Box<str>>,
}

impl Filed {
    fn of(place: &Place, selector: &Selector) -> Self {
        Self { namespace: place.namespace().cloned(), term: selector.required_term().map(Box::from) }
    }
}

impl<W> Clone for Interests<W> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<W> Clone for Followed<W> {
    fn clone(&self) -> Self {
        Self { watch: self.watch.clone(), since: self.since }
    }
}

impl<W> Interests<W> {
    /// No requirements yet; those of one plugin may take `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(RwLock::new(State { plugins: HashMap::new(), kinds: HashMap::new(), limit })))
    }

    /// The watches of these requirements that are watched, in the same order. None if they are not the parent's current requirements.
    pub fn followed(&self, plugin: &PluginName, parent: &ObjectKey, needs: &Needs) -> Option<Vec<Followed<W>>> {
        let state = self.0.read();
        let known = &state.plugins.get(plugin)?.parents.get(parent)?.interest.needs;
        if !Arc::ptr_eq(known, needs) && known != needs {
            return None;
        }
        watched(needs).map(|need| Some(state.kinds.get(&of_need(need))?.followed.clone())).collect()
    }

    /// Replaces the requirements of a parent: from now on, a change of a required object concerns the parent. `watches`
    /// has the watch of each requirement that is watched, in the same order. Returns the watches that the index keeps, in this order.
    ///
    /// # Errors
    /// If the requirements of the plugin's parents would take too much memory. Those of the parent stay as they are then.
    pub fn follow(
        &self,
        plugin: &PluginName,
        parent: &ObjectKey,
        needs: &Needs,
        watches: Vec<Arc<W>>,
        now: Instant,
    ) -> Result<Vec<Followed<W>>, Full> {
        let mut state = self.0.write();
        let needs = state.shared(needs);
        let interest = Arc::new(Interest { plugin: plugin.clone(), parent: parent.clone(), needs });
        let (known, all) = state.plugins.get(plugin).map_or((None, 0), |of| (of.parents.get(parent), of.size));
        let kept = Kept { interest: interest.clone(), last: known.and_then(|known| known.last.clone()) };
        let (before, after) = (known.map_or(0, Kept::size), kept.size());
        if after > before && all - before + after > state.limit {
            return Err(Full(state.limit));
        }
        // Added before the old requirements are removed, so that no watch ends that is still required.
        let followed = state.add(&interest, watches, now);
        let of_plugin = state.plugins.entry(plugin.clone()).or_default();
        of_plugin.size = all - before + after;
        if let Some(before) = of_plugin.parents.insert(parent.clone(), kept) {
            state.remove(&before.interest);
        }
        Ok(followed)
    }

    /// The requirements of the last final response for a parent, if there were any.
    pub fn last(&self, plugin: &PluginName, parent: &ObjectKey) -> Option<Needs> {
        self.0.read().plugins.get(plugin)?.parents.get(parent)?.last.clone()
    }

    /// Records that the response is final for which the parent was served these requirements.
    pub fn keep(&self, plugin: &PluginName, parent: &ObjectKey, needs: &Needs) {
        if needs.is_empty() {
            self.forget(plugin, parent);
        } else if let Some(of_plugin) = self.0.write().plugins.get_mut(plugin)
            && let Some(kept) = of_plugin.parents.get_mut(parent)
        {
            let before = kept.size();
            // Equal requirements are kept once.
            let served = &kept.interest.needs;
            kept.last = Some(if served == needs { served.clone() } else { needs.clone() });
            of_plugin.size = of_plugin.size - before + kept.size();
        }
    }

    /// Forgets a parent that is gone, or has no requirements any more.
    pub fn forget(&self, plugin: &PluginName, parent: &ObjectKey) {
        if self.0.read().plugins.get(plugin).is_none_or(|of_plugin| !of_plugin.parents.contains_key(parent)) {
            return;
        }
        let mut state = self.0.write();
        let Some(of_plugin) = state.plugins.get_mut(plugin) else { return };
        let Some(kept) = of_plugin.parents.remove(parent) else { return };
        of_plugin.size -= kept.size();
        if of_plugin.parents.is_empty() {
            state.plugins.remove(plugin);
        }
        state.remove(&kept.interest);
    }

    /// Forgets the parents of a plugin that is gone.
    pub fn forget_plugin(&self, plugin: &PluginName) {
        let mut state = self.0.write();
        for (_, kept) in state.plugins.remove(plugin).into_iter().flat_map(|of_plugin| of_plugin.parents) {
            state.remove(&kept.interest);
        }
    }

    /// The plugins with a parent that requires objects of a watch.
    pub fn plugins_of(&self, watch: &WatchId) -> HashSet<PluginName> {
        let state = self.0.read();
        let Some(of_kind) = state.kinds.get(&of_watch(watch)) else { return HashSet::new() };
        let by_labels = of_kind.by_labels.values().flat_map(HashMap::values);
        let concerned = of_kind.by_name.values().chain(by_labels).flat_map(HashMap::values);
        concerned.map(|interest| interest.plugin.clone()).collect()
    }

    /// The parents that a change of an object of this watch concerns, sorted.
    pub fn concerned(&self, watch: &WatchId, change: &Change) -> Vec<Arc<Interest>> {
        let state = self.0.read();
        let Some(of_kind) = state.kinds.get(&of_watch(watch)) else { return Vec::new() };
        let mut concerned: Vec<_> = of_kind.concerned(change).cloned().collect();
        concerned.sort_unstable_by(|one, other| (&one.plugin, &one.parent).cmp(&(&other.plugin, &other.parent)));
        concerned
    }
}

impl<W> State<W> {
    /// The same requirements, with the selectors that other parents have already.
    fn shared(&self, needs: &Needs) -> Needs {
        let known = |need: &Need| {
            let Select::Labels(selector) = &need.select else { return None };
            let of_kind = self.kinds.get(&of_need(need))?;
            let selectors = of_kind.by_labels.get(&Filed::of(&need.place, selector))?;
            selectors.get_key_value(selector).map(|(known, _)| known.clone())
        };
        let share = |need: &Need| Need {
            select: known(need).map_or_else(|| need.select.clone(), Select::Labels),
            ..need.clone()
        };
        needs.iter().map(share).collect()
    }

    fn add(&mut self, interest: &Arc<Interest>, watches: Vec<Arc<W>>, now: Instant) -> Vec<Followed<W>> {
        let with_watches = watched(&interest.needs).zip(watches);
        with_watches
            .map(|(need, watch)| {
                let of_kind = self.kinds.entry(of_need(need)).or_insert_with(|| OfKind {
                    followed: Followed { watch: watch.clone(), since: now },
                    by_name: HashMap::new(),
                    by_labels: HashMap::new(),
                });
                if !Arc::ptr_eq(&of_kind.followed.watch, &watch) {
                    // The CRD was recreated with another plural: the API server rejects the old watch forever.
                    of_kind.followed = Followed { watch, since: now };
                }
                let concerned = match &need.select {
                    Select::Name(name) => Some(of_kind.by_name.entry(key(need, name)).or_default()),
                    Select::Labels(selector) => {
                        let place = Filed::of(&need.place, selector);
                        Some(of_kind.by_labels.entry(place).or_default().entry(selector.clone()).or_default())
                    }
                    Select::Nothing => None,
                };
                if let Some(concerned) = concerned {
                    concerned.insert(address(interest), interest.clone());
                }
                of_kind.followed.clone()
            })
            .collect()
    }

    fn remove(&mut self, interest: &Arc<Interest>) {
        for need in interest.needs.iter() {
            let Some(of_kind) = self.kinds.get_mut(&of_need(need)) else { continue };
            match &need.select {
                Select::Name(name) => remove_from(&mut of_kind.by_name, &key(need, name), interest),
                Select::Labels(selector) => {
                    let place = Filed::of(&need.place, selector);
                    if let Some(selectors) = of_kind.by_labels.get_mut(&place) {
                        remove_from(selectors, selector, interest);
                        if selectors.is_empty() {
                            of_kind.by_labels.remove(&place);
                        }
                    }
                }
                Select::Nothing => {}
            }
            if of_kind.by_name.is_empty() && of_kind.by_labels.is_empty() {
                self.kinds.remove(&of_need(need));
            }
        }
    }
}

fn key(need: &Need, name: &Arc<str>) -> ObjectKey {
    ObjectKey { namespace: need.place.namespace().cloned(), name: name.clone() }
}

fn remove_from<K: Eq + Hash>(index: &mut HashMap<K, Concerned>, key: &K, interest: &Arc<Interest>) {
    let Some(concerned) = index.get_mut(key) else { return };
    concerned.remove(&address(interest));
    if concerned.is_empty() {
        index.remove(key);
    }
}

impl<W> OfKind<W> {
    fn concerned(&self, change: &Change) -> impl Iterator<Item = &Arc<Interest>> {
        let object = change.after.as_ref().or(change.before.as_ref());
        let in_all = object.filter(|object| object.key.namespace.is_some());
        let in_all = in_all.map(|object| ObjectKey { namespace: None, name: object.key.name.clone() });
        let keys = object.map(|object| object.key.clone()).into_iter().chain(in_all);
        let by_name: HashMap<_, _> = keys.filter_map(|key| self.by_name.get(&key)).flatten().collect();
        // An object that no longer matches concerns the parents that it matched before.
        let before = change.before.as_ref().filter(|before| {
            change.after.as_ref().is_none_or(|after| before.labels.is_none() || before.labels != after.labels)
        });
        let by_labels: HashMap<_, _> =
            before.into_iter().chain(&change.after).flat_map(|state| self.selecting(state)).collect();
        by_name.into_values().chain(by_labels.into_values())
    }

    /// The parents with a selector that matches an object.
    fn selecting(&self, object: &Object) -> Vec<(&usize, &Arc<Interest>)> {
        if self.by_labels.is_empty() {
            return Vec::new();
        }
        object.with_labels(|labels| {
            let terms = labels.terms().map(|term| Some(term.into())).chain([None]);
            let in_all = object.key.namespace.is_some().then_some(None);
            let namespaces = || in_all.clone().into_iter().chain([object.key.namespace.clone()]);
            let filed = terms.flat_map(|term: Option<Box<str>>| {
                namespaces().map(move |namespace| Filed { namespace, term: term.clone() })
            });
            let selectors = filed.filter_map(|filed| self.by_labels.get(&filed)).flatten();
            selectors.filter(|(selector, _)| selector.matches(labels)).flat_map(|(_, concerned)| concerned).collect()
        })
    }
}

#[cfg(test)]
mod tests;
