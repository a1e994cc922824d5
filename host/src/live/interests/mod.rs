//! Related objects that parents require: an index from a change to the parents that it concerns, and the watches of the
//! required kinds.

use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::RwLock;
use windlass_core::ids::{Gvk, ObjectKey, PluginName};
use windlass_core::object::Object;
use windlass_core::related::{Need, Needs, Select, size_of};
use windlass_core::selector::Selector;

use super::ParentKey;
use crate::cluster::watch::{Change, Watch};

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
    pub parent: ParentKey,
    needs: Needs,
}

/// The watch of a required kind.
pub struct Followed<W = Watch> {
    /// The watch.
    pub watch: Arc<W>,
    /// Since when parents require the kind.
    pub since: Instant,
}

struct State<W> {
    plugins: HashMap<PluginName, OfPlugin>,
    kinds: HashMap<Arc<Gvk>, OfKind<W>>,
    /// Maximum memory for the requirements of each plugin, in bytes.
    limit: usize,
}

/// The requirements of a plugin's parents.
#[derive(Default)]
struct OfPlugin {
    parents: HashMap<ParentKey, Kept>,
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
    by_labels: HashMap<Place, HashMap<Selector, Concerned>>,
}

type Concerned = HashSet<ByIdentity>;

/// Where a selector is found for an object, so that few selectors are compared with it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Place {
    /// The namespace; none for cluster-scoped objects.
    namespace: Option<Arc<str>>,
    /// A term without which the selector does not match. None for selectors that have no such term: they are compared with every object.
    term: Option<Box<str>>,
}

impl Place {
    fn of(namespace: Option<&Arc<str>>, selector: &Selector) -> Self {
        Self { namespace: namespace.cloned(), term: selector.required_term().map(Box::from) }
    }
}

/// An interest, compared by its address.
struct ByIdentity(Arc<Interest>);

impl PartialEq for ByIdentity {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ByIdentity {}

impl Hash for ByIdentity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
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

    /// The watches of these requirements, in the same order. None if they are not the parent's current requirements.
    pub fn followed(&self, plugin: &PluginName, parent: &ParentKey, needs: &Needs) -> Option<Vec<Followed<W>>> {
        let state = self.0.read();
        let known = &state.plugins.get(plugin)?.parents.get(parent)?.interest.needs;
        if !Arc::ptr_eq(known, needs) && known != needs {
            return None;
        }
        needs.iter().map(|need| Some(state.kinds.get(&need.kind)?.followed.clone())).collect()
    }

    /// Replaces the requirements of a parent: from now on, a change of a required object concerns the parent. `watches`
    /// has the watch of each requirement, in the same order. Returns the watches that the index keeps, in this order.
    ///
    /// # Errors
    /// If the requirements of the plugin's parents would take too much memory. Those of the parent stay as they are then.
    pub fn follow(
        &self,
        plugin: &PluginName,
        parent: &ParentKey,
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
    pub fn last(&self, plugin: &PluginName, parent: &ParentKey) -> Option<Needs> {
        self.0.read().plugins.get(plugin)?.parents.get(parent)?.last.clone()
    }

    /// Records that the response is final for which the parent was served these requirements.
    pub fn keep(&self, plugin: &PluginName, parent: &ParentKey, needs: &Needs) {
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
    pub fn forget(&self, plugin: &PluginName, parent: &ParentKey) {
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

    /// The plugins with a parent that requires objects of a kind.
    pub fn plugins_of(&self, kind: &Gvk) -> HashSet<PluginName> {
        let state = self.0.read();
        let Some(of_kind) = state.kinds.get(kind) else { return HashSet::new() };
        let by_labels = of_kind.by_labels.values().flat_map(HashMap::values);
        let concerned = of_kind.by_name.values().chain(by_labels).flatten();
        concerned.map(|interest| interest.0.plugin.clone()).collect()
    }

    /// The parents that a change of an object of this kind concerns.
    pub fn concerned(&self, kind: &Gvk, change: &Change) -> Vec<Arc<Interest>> {
        let state = self.0.read();
        let Some(of_kind) = state.kinds.get(kind) else { return Vec::new() };
        of_kind.concerned(change).map(|interest| interest.0.clone()).collect()
    }
}

impl<W> State<W> {
    /// The same requirements, with the selectors that other parents have already.
    fn shared(&self, needs: &Needs) -> Needs {
        let known = |need: &Need| {
            let Select::Labels(selector) = &need.select else { return None };
            let of_kind = self.kinds.get(&need.kind)?;
            let selectors = of_kind.by_labels.get(&Place::of(need.namespace.as_ref(), selector))?;
            selectors.get_key_value(selector).map(|(known, _)| known.clone())
        };
        let share = |need: &Need| Need {
            select: known(need).map_or_else(|| need.select.clone(), Select::Labels),
            ..need.clone()
        };
        needs.iter().map(share).collect()
    }

    fn add(&mut self, interest: &Arc<Interest>, watches: Vec<Arc<W>>, now: Instant) -> Vec<Followed<W>> {
        let with_watches = interest.needs.iter().zip(watches);
        with_watches
            .map(|(need, watch)| {
                let of_kind = self.kinds.entry(need.kind.clone()).or_insert_with(|| OfKind {
                    followed: Followed { watch: watch.clone(), since: now },
                    by_name: HashMap::new(),
                    by_labels: HashMap::new(),
                });
                if !Arc::ptr_eq(&of_kind.followed.watch, &watch) {
                    // The CRD was recreated with another plural: the API server rejects the old watch forever.
                    of_kind.followed = Followed { watch, since: now };
                }
                let concerned = match &need.select {
                    Select::Name(name) => of_kind.by_name.entry(key(need, name)).or_default(),
                    Select::Labels(selector) => {
                        let place = Place::of(need.namespace.as_ref(), selector);
                        of_kind.by_labels.entry(place).or_default().entry(selector.clone()).or_default()
                    }
                };
                concerned.insert(ByIdentity(interest.clone()));
                of_kind.followed.clone()
            })
            .collect()
    }

    fn remove(&mut self, interest: &Arc<Interest>) {
        let identity = ByIdentity(interest.clone());
        for need in interest.needs.iter() {
            let Some(of_kind) = self.kinds.get_mut(&need.kind) else { continue };
            match &need.select {
                Select::Name(name) => remove_from(&mut of_kind.by_name, &key(need, name), &identity),
                Select::Labels(selector) => {
                    let place = Place::of(need.namespace.as_ref(), selector);
                    if let Some(selectors) = of_kind.by_labels.get_mut(&place) {
                        remove_from(selectors, selector, &identity);
                        if selectors.is_empty() {
                            of_kind.by_labels.remove(&place);
                        }
                    }
                }
            }
            if of_kind.by_name.is_empty() && of_kind.by_labels.is_empty() {
                self.kinds.remove(&need.kind);
            }
        }
    }
}

fn key(need: &Need, name: &Arc<str>) -> ObjectKey {
    ObjectKey { namespace: need.namespace.clone(), name: name.clone() }
}

fn remove_from<K: Eq + Hash>(index: &mut HashMap<K, Concerned>, key: &K, interest: &ByIdentity) {
    let Some(concerned) = index.get_mut(key) else { return };
    concerned.remove(interest);
    if concerned.is_empty() {
        index.remove(key);
    }
}

impl<W> OfKind<W> {
    fn concerned(&self, change: &Change) -> impl Iterator<Item = &ByIdentity> {
        let object = change.after.as_ref().or(change.before.as_ref());
        let by_name = object.and_then(|object| self.by_name.get(&object.key)).into_iter().flatten();
        // An object that no longer matches concerns the parents that it matched before.
        let before = change.before.as_ref().filter(|before| {
            change.after.as_ref().is_none_or(|after| before.labels.is_none() || before.labels != after.labels)
        });
        let by_labels: HashSet<_> =
            before.into_iter().chain(&change.after).flat_map(|state| self.selecting(state)).collect();
        by_name.chain(by_labels)
    }

    /// The parents with a selector that matches an object.
    fn selecting(&self, object: &Object) -> Vec<&ByIdentity> {
        if self.by_labels.is_empty() {
            return Vec::new();
        }
        object.with_labels(|labels| {
            let terms = labels.terms().map(|term| Some(term.into())).chain([None]);
            let places = terms.map(|term| Place { namespace: object.key.namespace.clone(), term });
            let selectors = places.filter_map(|place| self.by_labels.get(&place)).flatten();
            selectors.filter(|(selector, _)| selector.matches(labels)).flat_map(|(_, concerned)| concerned).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use parking_lot::Mutex;
    use windlass_core::object::Object;

    use super::*;

    /// Interests, and watches that only count their references.
    struct Setup {
        interests: Interests<()>,
        leased: Mutex<Vec<(String, Weak<()>)>>,
    }

    impl Default for Setup {
        fn default() -> Self {
            Self { interests: Interests::new(usize::MAX), leased: Mutex::default() }
        }
    }

    fn plugin(name: &str) -> PluginName {
        name.parse().expect("a name")
    }

    fn parent(name: &str) -> ParentKey {
        ObjectKey::new(Some("shop"), name)
    }

    fn kind(name: &str) -> Arc<Gvk> {
        Arc::new(Gvk::from_api_version("v1", name))
    }

    fn need(of: &str, namespace: &str, select: Select) -> Need {
        Need { id: "a".into(), kind: kind(of), namespace: Some(namespace.into()), select }
    }

    fn named(of: &str, namespace: &str, name: &str) -> Need {
        need(of, namespace, Select::Name(name.into()))
    }

    fn labelled(of: &str, namespace: &str, selector: &str) -> Need {
        need(of, namespace, Select::Labels(selector.parse().expect(selector)))
    }

    fn object(of: &str, namespace: &str, name: &str, labels: &str) -> Arc<Object> {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","uid":"u","resourceVersion":"1","labels":{labels}}}}}"#
        );
        Arc::new(Object::from_api(&kind(of), &text).expect("an object"))
    }

    impl Setup {
        fn follow(&self, by: &str, name: &str, needs: &[Need]) {
            let needs = self.serve(by, name, needs);
            self.interests.keep(&plugin(by), &parent(name), &needs);
        }

        fn serve(&self, by: &str, name: &str, needs: &[Need]) -> Needs {
            let needs: Needs = needs.into();
            assert_eq!(self.try_serve(by, name, &needs), Ok(()));
            needs
        }

        fn try_serve(&self, by: &str, name: &str, needs: &Needs) -> Result<(), Full> {
            if self.interests.followed(&plugin(by), &parent(name), needs).is_none() {
                let leases = needs.iter().map(|need| self.lease(need)).collect();
                let followed = self.interests.follow(&plugin(by), &parent(name), needs, leases, Instant::now())?;
                assert_eq!(followed.len(), needs.len());
            }
            Ok(())
        }

        /// The running watch of the kind, or a new one.
        fn lease(&self, need: &Need) -> Arc<()> {
            let mut leased = self.leased.lock();
            let running =
                leased.iter().filter(|(kind, _)| *kind == *need.kind.kind).find_map(|(_, watch)| watch.upgrade());
            running.unwrap_or_else(|| {
                let watch = Arc::new(());
                leased.push((need.kind.kind.to_string(), Arc::downgrade(&watch)));
                watch
            })
        }

        fn concerned(&self, before: Option<&Arc<Object>>, after: Option<&Arc<Object>>) -> Vec<String> {
            let of = before.or(after).expect("an object").kind.clone();
            let change = Change { before: before.cloned(), after: after.cloned() };
            let mut names: Vec<_> = self
                .interests
                .concerned(&of, &change)
                .iter()
                .map(|interest| format!("{} {}", interest.plugin, interest.parent.name))
                .collect();
            names.sort();
            names
        }

        /// Entries of all indexes.
        fn size(&self) -> usize {
            let state = self.interests.0.read();
            let by_kind = state.kinds.values().map(|of_kind| {
                let by_labels = of_kind.by_labels.values().flat_map(HashMap::values);
                of_kind.by_name.values().chain(by_labels).map(HashSet::len).sum::<usize>()
            });
            by_kind.sum::<usize>() + state.plugins.values().map(|of_plugin| of_plugin.parents.len()).sum::<usize>()
        }

        /// Kinds with a running watch, and the number of watches that were ever started.
        fn watched(&self) -> (Vec<String>, usize) {
            let leased = self.leased.lock();
            let running = leased.iter().filter(|(_, watch)| watch.strong_count() > 0).map(|(kind, _)| kind.clone());
            (running.collect(), leased.len())
        }
    }

    #[test]
    fn related_change_affects_parents_that_require_this_name_in_this_namespace() {
        let setup = Setup::default();
        setup.follow("echo", "a", &[named("Secret", "shop", "db")]);
        setup.follow("echo", "b", &[named("Secret", "shop", "db"), named("ConfigMap", "shop", "mq")]);
        setup.follow("other", "a", &[named("Secret", "shared", "db")]);
        let db = object("Secret", "shop", "db", "{}");
        for (before, after) in [(None, Some(&db)), (Some(&db), Some(&db)), (Some(&db), None)] {
            assert_eq!(setup.concerned(before, after), ["echo a", "echo b"], "the object appears, changes, disappears");
        }
        assert_eq!(setup.concerned(None, Some(&object("Secret", "shared", "db", "{}"))), ["other a"]);
        assert_eq!(setup.concerned(None, Some(&object("ConfigMap", "shop", "mq", "{}"))), ["echo b"]);
        for unrelated in [
            object("Secret", "shop", "mq", "{}"),
            object("ConfigMap", "shop", "db", "{}"),
            object("Pod", "shop", "db", "{}"),
        ] {
            assert!(setup.concerned(None, Some(&unrelated)).is_empty(), "{:?}", unrelated.key);
        }
    }

    #[test]
    fn related_change_affects_parents_whose_selector_matches_before_or_after_it() {
        let setup = Setup::default();
        setup.follow("echo", "web", &[labelled("Secret", "shop", "tier=web")]);
        setup.follow("echo", "web2", &[labelled("Secret", "shop", "tier in (web)")]);
        setup.follow("echo", "db", &[labelled("Secret", "shop", "tier=db")]);
        setup.follow("echo", "all", &[labelled("Secret", "shop", "")]);
        setup.follow("echo", "elsewhere", &[labelled("Secret", "shared", "")]);
        let web = object("Secret", "shop", "x", r#"{"tier":"web"}"#);
        let db = object("Secret", "shop", "x", r#"{"tier":"db"}"#);
        assert_eq!(setup.concerned(None, Some(&web)), ["echo all", "echo web", "echo web2"]);
        assert_eq!(setup.concerned(Some(&web), Some(&db)), ["echo all", "echo db", "echo web", "echo web2"]);
        assert_eq!(setup.concerned(Some(&db), None), ["echo all", "echo db"]);
        assert_eq!(setup.concerned(None, Some(&object("Secret", "shared", "x", "{}"))), ["echo elsewhere"]);
    }

    #[test]
    fn related_plugins_that_require_a_kind_are_found_by_it() {
        let setup = Setup::default();
        setup.follow("a", "web", &[named("ConfigMap", "shop", "settings")]);
        setup.follow("b", "web", &[labelled("ConfigMap", "shop", "app=web"), named("Secret", "shop", "key")]);
        let of = |name: &str| {
            let mut plugins: Vec<_> = setup.interests.plugins_of(&kind(name)).iter().map(ToString::to_string).collect();
            plugins.sort();
            plugins
        };
        assert_eq!(
            (of("ConfigMap"), of("Secret"), of("Pod")),
            (vec!["a".to_owned(), "b".to_owned()], vec!["b".to_owned()], vec![])
        );
    }

    #[test]
    fn related_watch_runs_as_long_as_a_parent_requires_its_kind() {
        let setup = Setup::default();
        setup.follow("echo", "a", &[named("Secret", "shop", "db"), named("ConfigMap", "shop", "x")]);
        setup.follow("other", "b", &[labelled("Secret", "shop", "")]);
        assert_eq!(setup.watched(), (vec!["Secret".to_owned(), "ConfigMap".to_owned()], 2), "one for each kind");
        setup.follow("echo", "a", &[named("Secret", "shop", "mq")]);
        assert_eq!(setup.watched(), (vec!["Secret".to_owned()], 2), "no parent requires ConfigMaps any more");
        setup.interests.forget(&plugin("other"), &parent("b"));
        setup.follow("echo", "a", &[named("Secret", "shop", "db")]);
        assert_eq!(setup.watched(), (vec!["Secret".to_owned()], 2), "a watch that is still required is not restarted");
        setup.interests.forget_plugin(&plugin("echo"));
        assert_eq!(setup.watched(), (vec![], 2));
        assert!(setup.concerned(None, Some(&object("Secret", "shop", "db", "{}"))).is_empty());
        assert_eq!(setup.size(), 0, "nothing is left of parents that are gone");
    }

    #[test]
    fn related_new_watch_of_a_kind_replaces_the_old_one() {
        let setup = Setup::default();
        setup.follow("echo", "a", &[named("Secret", "shop", "db")]);
        let needs: Needs = [named("Secret", "shop", "mq")].into();
        let new = Arc::new(());
        let follow = setup.interests.follow(&plugin("other"), &parent("b"), &needs, vec![new.clone()], Instant::now());
        assert!(follow.is_ok());
        assert_eq!(setup.watched().0.len(), 0, "the old watch ends");
        let followed = setup.interests.followed(&plugin("other"), &parent("b"), &needs).expect("followed");
        assert!(followed.iter().all(|followed| Arc::ptr_eq(&followed.watch, &new)));
        assert_eq!(setup.concerned(None, Some(&object("Secret", "shop", "db", "{}"))), ["echo a"]);
    }

    #[test]
    fn related_parent_without_requirements_leaves_no_watch_and_no_interest() {
        let setup = Setup::default();
        setup.follow("echo", "a", &[named("Secret", "shop", "db"), labelled("Secret", "shop", "x")]);
        assert_eq!(setup.interests.last(&plugin("echo"), &parent("a")).map(|needs| needs.len()), Some(2));
        setup.interests.keep(&plugin("echo"), &parent("a"), &Needs::default());
        assert_eq!((setup.watched().0.len(), setup.size()), (0, 0));
        assert!(setup.interests.last(&plugin("echo"), &parent("a")).is_none());
        setup.interests.keep(&plugin("echo"), &parent("never"), &Needs::default());
        assert_eq!(setup.size(), 0);
    }

    #[test]
    fn related_requirements_of_an_intermediate_response_are_watched_and_not_recorded() {
        let setup = Setup::default();
        setup.follow("echo", "a", &[named("Secret", "shop", "db")]);
        setup.serve("echo", "a", &[named("Secret", "shop", "mq")]);
        assert_eq!(setup.concerned(None, Some(&object("Secret", "shop", "mq", "{}"))), ["echo a"]);
        let last = setup.interests.last(&plugin("echo"), &parent("a")).expect("a final response");
        assert_eq!(*last, [named("Secret", "shop", "db")]);
    }

    #[test]
    fn related_requirements_of_one_plugin_are_bounded_and_a_parent_that_is_refused_keeps_its_own() {
        let needs = |count: usize| -> Needs {
            (0..count).map(|n| Need { id: n.to_string().into(), ..labelled("Secret", "shop", "tier=web") }).collect()
        };
        let limit = 2 * size_of(&needs(10));
        let setup = Setup { interests: Interests::new(limit), ..Setup::default() };
        let kept = || setup.interests.0.read().plugins.get(&plugin("echo")).map(|of_plugin| of_plugin.size);
        for name in ["a", "b"] {
            setup.follow("echo", name, &needs(10));
        }
        assert_eq!(kept(), Some(limit), "the last final requirements are those that were served, and count once");
        assert_eq!(setup.try_serve("echo", "c", &needs(1)), Err(Full(limit)));
        assert_eq!(setup.try_serve("echo", "b", &needs(11)), Err(Full(limit)));
        assert_eq!(setup.interests.last(&plugin("echo"), &parent("b")), Some(needs(10)));
        assert_eq!(setup.try_serve("other", "c", &needs(1)), Ok(()), "each plugin has its own memory");
        let web = object("Secret", "shop", "x", r#"{"tier":"web"}"#);
        assert_eq!(setup.concerned(None, Some(&web)), ["echo a", "echo b", "other c"]);
        setup.interests.forget(&plugin("echo"), &parent("a"));
        assert_eq!(setup.try_serve("echo", "c", &needs(1)), Ok(()));
        assert_eq!(kept(), Some(size_of(&needs(10)) + size_of(&needs(1))));
        setup.interests.keep(&plugin("echo"), &parent("c"), &Needs::default());
        setup.interests.forget_plugin(&plugin("echo"));
        assert_eq!(kept(), None);
    }

    #[test]
    fn related_requirements_of_a_response_that_is_not_final_count_beside_the_last_final_ones() {
        let setup =
            Setup { interests: Interests::new(3 * size_of(&[labelled("Secret", "shop", "a=1")])), ..Setup::default() };
        setup.follow("echo", "a", &[labelled("Secret", "shop", "a=1")]);
        setup.serve("echo", "a", &[labelled("Secret", "shop", "b=1")]);
        let two = |value: u32| ["b", "c"].map(|key| labelled("Secret", "shop", &format!("{key}={value}")));
        assert_eq!(setup.try_serve("echo", "a", &two(1).into()), Ok(()));
        assert!(setup.try_serve("echo", "b", &[labelled("Secret", "shop", "a=1")].into()).is_err());
        let (parent, two) = (parent("a"), two(2).into());
        assert_eq!(setup.try_serve("echo", "a", &two), Ok(()), "requirements of the same size replace others");
        setup.interests.keep(&plugin("echo"), &parent, &two);
        assert_eq!(setup.try_serve("echo", "b", &[labelled("Secret", "shop", "a=1")].into()), Ok(()));
    }

    #[test]
    fn related_equal_selectors_of_parents_are_kept_once() {
        let setup = Setup::default();
        for name in ["a", "b"] {
            setup.follow("echo", name, &[labelled("Secret", "shop", "tier=web")]);
        }
        let selector = |name: &str| match &setup.interests.last(&plugin("echo"), &parent(name)).expect("kept")[0].select
        {
            Select::Labels(selector) => selector.clone(),
            Select::Name(_) => unreachable!("it selects by labels"),
        };
        assert!(selector("a").is_shared_with(&selector("b")));
    }

    #[test]
    fn related_change_of_an_object_is_matched_without_unpacking_the_object() {
        let setup = Setup::default();
        setup.follow("echo", "web", &[labelled("Secret", "shop", "tier=web")]);
        let packed = |labels: &str| {
            let mut object = Object::clone(&object("Secret", "shop", "x", labels));
            object.json = "unreadable".as_bytes().into();
            Arc::new(object)
        };
        let (web, db) = (packed(r#"{"tier":"web"}"#), packed(r#"{"tier":"db"}"#));
        assert_eq!(setup.concerned(Some(&web), Some(&db)), ["echo web"]);
        assert_eq!(setup.concerned(Some(&db), Some(&web)), ["echo web"]);
        assert!(setup.concerned(Some(&db), Some(&db)).is_empty());
    }

    #[test]
    fn related_unchanged_requirements_add_no_watch_and_no_interest() {
        let setup = Setup::default();
        for _ in 0..3 {
            setup.follow("echo", "a", &[named("Secret", "shop", "db")]);
        }
        assert_eq!((setup.watched().1, setup.size()), (1, 2), "one watch, one parent with one interest");
    }
}
