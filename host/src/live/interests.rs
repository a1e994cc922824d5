//! Related objects that parents require: an index from a change to the parents that it concerns, and the watches of the
//! required kinds.

use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::RwLock;
use windlass_core::ids::{Gvk, ObjectKey, PluginName};
use windlass_core::related::{Need, Needs, Select};
use windlass_core::selector::{Labels, Selector};

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
    parents: HashMap<PluginName, HashMap<ParentKey, Kept>>,
    kinds: HashMap<Arc<Gvk>, OfKind<W>>,
}

struct Kept {
    /// The requirements that were served last, whether the response to them was final or not.
    interest: Arc<Interest>,
    /// The requirements of the last final response; none before the first one.
    last: Option<Needs>,
}

struct OfKind<W> {
    followed: Followed<W>,
    /// Parents by the name of the object that they require.
    by_name: HashMap<ObjectKey, Concerned>,
    /// Parents by the namespace (none for cluster-scoped objects) and the label selector that they require. Equal
    /// selectors are matched once.
    by_labels: HashMap<Option<Arc<str>>, HashMap<Selector, Concerned>>,
}

type Concerned = HashSet<ByIdentity>;

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

impl<W> Default for Interests<W> {
    fn default() -> Self {
        Self(Arc::new(RwLock::new(State { parents: HashMap::new(), kinds: HashMap::new() })))
    }
}

impl<W> Interests<W> {
    /// The watches of these requirements, in the same order. None if they are not the parent's current requirements.
    pub fn followed(&self, plugin: &PluginName, parent: &ParentKey, needs: &Needs) -> Option<Vec<Followed<W>>> {
        let state = self.0.read();
        let known = &state.parents.get(plugin)?.get(parent)?.interest.needs;
        if !Arc::ptr_eq(known, needs) && known != needs {
            return None;
        }
        needs.iter().map(|need| Some(state.kinds.get(&need.kind)?.followed.clone())).collect()
    }

    /// Replaces the requirements of a parent: from now on, a change of a required object concerns the parent. `watches`
    /// has the watch of each requirement, in the same order. Returns the watches that the index keeps, in this order.
    pub fn follow(
        &self,
        plugin: &PluginName,
        parent: &ParentKey,
        needs: &Needs,
        watches: Vec<Arc<W>>,
        now: Instant,
    ) -> Vec<Followed<W>> {
        let interest = Arc::new(Interest { plugin: plugin.clone(), parent: parent.clone(), needs: needs.clone() });
        let mut state = self.0.write();
        // Added before the old requirements are removed, so that no watch ends that is still required.
        let followed = state.add(&interest, watches, now);
        let of_plugin = state.parents.entry(plugin.clone()).or_default();
        match of_plugin.get_mut(parent) {
            Some(kept) => {
                let before = std::mem::replace(&mut kept.interest, interest);
                state.remove(&before);
            }
            None => drop(of_plugin.insert(parent.clone(), Kept { interest, last: None })),
        }
        followed
    }

    /// The requirements of the last final response for a parent, if there were any.
    pub fn last(&self, plugin: &PluginName, parent: &ParentKey) -> Option<Needs> {
        self.0.read().parents.get(plugin)?.get(parent)?.last.clone()
    }

    /// Records that the response is final for which the parent was served these requirements.
    pub fn keep(&self, plugin: &PluginName, parent: &ParentKey, needs: &Needs) {
        if needs.is_empty() {
            self.forget(plugin, parent);
        } else if let Some(kept) = self.0.write().parents.get_mut(plugin).and_then(|parents| parents.get_mut(parent)) {
            kept.last = Some(needs.clone());
        }
    }

    /// Forgets a parent that is gone, or has no requirements any more.
    pub fn forget(&self, plugin: &PluginName, parent: &ParentKey) {
        if self.0.read().parents.get(plugin).is_none_or(|parents| !parents.contains_key(parent)) {
            return;
        }
        let mut state = self.0.write();
        let Some(of_plugin) = state.parents.get_mut(plugin) else { return };
        let Some(kept) = of_plugin.remove(parent) else { return };
        if of_plugin.is_empty() {
            state.parents.remove(plugin);
        }
        state.remove(&kept.interest);
    }

    /// Forgets the parents of a plugin that is gone.
    pub fn forget_plugin(&self, plugin: &PluginName) {
        let mut state = self.0.write();
        for kept in state.parents.remove(plugin).into_iter().flatten().map(|(_, kept)| kept) {
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
                        let of_namespace = of_kind.by_labels.entry(need.namespace.clone()).or_default();
                        of_namespace.entry(selector.clone()).or_default()
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
                    if let Some(selectors) = of_kind.by_labels.get_mut(&need.namespace) {
                        remove_from(selectors, selector, &identity);
                        if selectors.is_empty() {
                            of_kind.by_labels.remove(&need.namespace);
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
        let selectors = object.and_then(|object| self.by_labels.get(&object.key.namespace));
        // An object that no longer matches concerns the parents that it matched before.
        let states = selectors.map(|_| [&change.before, &change.after]).into_iter().flatten().flatten();
        let states: Vec<_> = states.map(|object| object.json.bytes()).collect();
        let labels: Vec<_> = states.iter().map(|json| Labels::of(json)).collect();
        let matching = |(selector, _): &(&Selector, _)| labels.iter().any(|labels| selector.matches(labels));
        let by_labels: Vec<_> =
            selectors.into_iter().flatten().filter(matching).map(|(_, concerned)| concerned).collect();
        by_name.chain(by_labels.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use parking_lot::Mutex;
    use windlass_core::object::Object;

    use super::*;

    /// Interests, and watches that only count their references.
    #[derive(Default)]
    struct Setup {
        interests: Interests<()>,
        leased: Mutex<Vec<(String, Weak<()>)>>,
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
            if self.interests.followed(&plugin(by), &parent(name), &needs).is_none() {
                let leases = needs.iter().map(|need| self.lease(need)).collect();
                let followed = self.interests.follow(&plugin(by), &parent(name), &needs, leases, Instant::now());
                assert_eq!(followed.len(), needs.len());
            }
            needs
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
            by_kind.sum::<usize>() + state.parents.values().map(HashMap::len).sum::<usize>()
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
        setup.interests.follow(&plugin("other"), &parent("b"), &needs, vec![new.clone()], Instant::now());
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
    fn related_unchanged_requirements_add_no_watch_and_no_interest() {
        let setup = Setup::default();
        for _ in 0..3 {
            setup.follow("echo", "a", &[named("Secret", "shop", "db")]);
        }
        assert_eq!((setup.watched().1, setup.size()), (1, 2), "one watch, one parent with one interest");
    }
}
