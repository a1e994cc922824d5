//! The cache of one watch: written by the watch's task, read by all others.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Instant;

use hashbrown::{HashMap, HashSet};
use parking_lot::{Mutex, RwLock};
use smallvec::SmallVec;
use windlass_core::ids::{ObjectKey, Uid};
use windlass_core::intern::Interner;
use windlass_core::managed::ManagedFields;
use windlass_core::names::ANNOTATION_RETAINED_FOR;
use windlass_core::object::{Object, OwnerKey};
use windlass_core::packed::Packer;
use windlass_core::parent::ParentRef;

/// A change of one object in the cache.
#[derive(Debug, Clone)]
pub struct Change {
    /// The cached object before the change.
    pub before: Option<Arc<Object>>,
    /// The cached object after the change; none if the object is gone.
    pub after: Option<Arc<Object>>,
}

/// Number of objects that are changed each time the write lock is taken, which locks readers out.
const CHUNK: usize = 256;

/// Objects of one kind, with the indexes that reconciles need.
#[derive(Debug)]
pub struct Store {
    inner: RwLock<Inner>,
    /// Kept outside the lock of the objects: packing takes time, and only the watch's task does it.
    packer: Mutex<Packer>,
}

/// Which index a store has besides the one by name. An index takes memory for each object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Index {
    /// Finds an object by uid.
    Uid,
    /// Finds the children of a parent.
    Owner,
}

#[derive(Debug)]
struct Inner {
    index: Index,
    objects: HashSet<ByKey>,
    uids: HashSet<ByUid>,
    /// The objects by namespace (cluster-scoped ones under an empty name). Built at the first query for a namespace,
    /// because most kinds are never queried so.
    by_namespace: Option<HashMap<Arc<str>, HashSet<ByKey>>>,
    /// Most parents have few children of a kind.
    owners: HashMap<OwnerKey, SmallVec<[Arc<Object>; 2]>>,
    /// Number of objects that are in `owners` under the key of a retained child (the parent's name instead of its uid).
    retained: usize,
    /// Number of children by plugin, so that metrics need not go through all objects.
    children: HashMap<String, usize>,
    /// Newest resourceVersion that the watch delivered since its last list: writes up to it are in the cache.
    newest_version: u64,
    /// Time at which the last complete list began: earlier writes are in the cache.
    last_list_began: Option<Instant>,
    /// Objects of a list that is not complete yet, and the time at which it began.
    pending_list: Option<(HashSet<ByKey>, Instant)>,
    namespaces: Interner<str>,
    managed: Interner<ManagedFields>,
}

/// A set entry that is looked up by a field of the object, without a copy of the field.
macro_rules! found_by {
    ($(#[$doc:meta])* $name:ident, $part:ident: $type:ty) => {
        $(#[$doc])*
        #[derive(Debug)]
        struct $name(Arc<Object>);

        impl Borrow<$type> for $name {
            fn borrow(&self) -> &$type {
                &self.0.$part
            }
        }

        impl Hash for $name {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.0.$part.hash(state);
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.0.$part == other.0.$part
            }
        }

        impl Eq for $name {}
    };
}

found_by! {
    /// An object in a set by name.
    ByKey, key: ObjectKey
}
found_by! {
    /// An object in a set by uid.
    ByUid, uid: Uid
}

impl Store {
    /// An empty store.
    pub fn new(index: Index) -> Self {
        let inner = Inner {
            index,
            objects: HashSet::new(),
            uids: HashSet::new(),
            by_namespace: None,
            owners: HashMap::new(),
            retained: 0,
            children: HashMap::new(),
            newest_version: 0,
            last_list_began: None,
            pending_list: None,
            namespaces: Interner::default(),
            managed: Interner::default(),
        };
        Self { inner: RwLock::new(inner), packer: Mutex::default() }
    }

    /// The object of this name.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.inner.read().objects.get(key).map(|found| found.0.clone())
    }

    /// The name of the object with this uid.
    pub fn key_of(&self, uid: &Uid) -> Option<ObjectKey> {
        self.inner.read().uids.get(uid).map(|found| found.0.key.clone())
    }

    /// All names.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.inner.read().objects.iter().map(|object| object.0.key.clone()).collect()
    }

    /// Applies `pick` to all objects and returns the results.
    pub fn pick<T>(&self, pick: impl Fn(&Object) -> Option<T>) -> Vec<T> {
        self.inner.read().objects.iter().filter_map(|object| pick(&object.0)).collect()
    }

    /// Number of objects.
    pub fn size(&self) -> usize {
        self.inner.read().objects.len()
    }

    /// All objects of a namespace, or all cluster-scoped objects.
    pub fn in_namespace(&self, namespace: Option<&str>) -> Vec<Arc<Object>> {
        let of_index = |index: &HashMap<Arc<str>, HashSet<ByKey>>| {
            let found = index.get(namespace.unwrap_or_default());
            found.into_iter().flatten().map(|object| object.0.clone()).collect()
        };
        if let Some(index) = &self.inner.read().by_namespace {
            return of_index(index);
        }
        let mut inner = self.inner.write();
        let Inner { objects, by_namespace, .. } = &mut *inner;
        of_index(by_namespace.get_or_insert_with(|| {
            let mut index: HashMap<Arc<str>, HashSet<ByKey>> = HashMap::new();
            for ByKey(object) in objects.iter() {
                index.entry(namespace_of(object)).or_default().insert(ByKey(object.clone()));
            }
            index
        }))
    }

    /// Calls `act` for each object that claims this parent: by its label, or as retained for a parent of this name.
    pub fn for_each_of(&self, parent: &ParentRef, act: impl FnMut(&Arc<Object>)) {
        let inner = self.inner.read();
        let owned = inner.owners.get(&OwnerKey::Uid(parent.uid.clone()));
        // Few kinds have retained objects, and building the key has a cost.
        let retained = if inner.retained > 0 { inner.owners.get(&parent.retained_key()) } else { None };
        owned.into_iter().chain(retained).flatten().for_each(act);
    }

    /// Number of objects that `counts` accepts and that belong to one of these parents by label and controller
    /// reference.
    pub fn count_controlled(&self, parents: &[Uid], counts: impl Fn(&Object) -> bool) -> usize {
        let inner = self.inner.read();
        let owned =
            parents.iter().filter_map(|parent| Some((parent, inner.owners.get(&OwnerKey::Uid(parent.clone()))?)));
        owned
            .flat_map(|(parent, children)| children.iter().map(move |child| (parent, child)))
            .filter(|(parent, child)| child.controller.as_ref() == Some(parent) && counts(child))
            .count()
    }

    /// Number of a plugin's children: objects with its label that are owned by a parent or retained for one.
    pub fn children_of(&self, plugin: &str) -> usize {
        self.inner.read().children.get(plugin).copied().unwrap_or_default()
    }

    /// Whether the cache shows, or has shown, a write that the API server acknowledged at this time with this resourceVersion. Versions are
    /// comparable within a kind (KEP-5504), but only with those since the last list, because restoring a backup lowers them. Lists are
    /// consistent (`stream::settings`), so a list that began after the acknowledgement contains the write as well.
    pub fn has_seen(&self, resource_version: u64, acknowledged: Instant) -> bool {
        let inner = self.inner.read();
        inner.newest_version >= resource_version || inner.last_list_began.is_some_and(|began| began > acknowledged)
    }

    /// Begins a new list: objects that it does not contain are removed when it ends.
    pub fn begin_list(&self) {
        self.inner.write().pending_list = Some((HashSet::new(), Instant::now()));
    }

    /// Adds an object to the list in progress.
    pub fn add_listed(&self, object: Object) {
        // An unchanged object is shared with the cache, so that a list does not double the memory.
        let known = self.get(&object.key).filter(|known| is_same(known, &object));
        let (mut inner, object) = if let Some(known) = known {
            (self.inner.write(), known)
        } else {
            // Packed outside the lock.
            let fresh = self.packed(object);
            let mut inner = self.inner.write();
            let shared = inner.share(fresh);
            (inner, shared)
        };
        if let Some((listed, _)) = &mut inner.pending_list {
            listed.replace(ByKey(object));
        }
    }

    /// Ends the list; returns all changes.
    pub fn finish_list(&self) -> Vec<Change> {
        self.replace(|| ())
    }

    /// Replaces the objects by the list. The changes are computed while others read, and made a part at a time: a list of a hundred
    /// thousand objects must not block every reconcile of the kind. `between` is called after each part (for tests). Only the watch's task
    /// writes, so nothing else changes meanwhile; readers see the changes one after the other, as if they were events.
    fn replace(&self, between: impl Fn()) -> Vec<Change> {
        let Some((listed, began)) = self.inner.write().pending_list.take() else { return Vec::new() };
        let (gone, fresh, newest_version) = {
            let inner = self.inner.read();
            let gone: Vec<_> = inner.objects.difference(&listed).map(|object| object.0.key.clone()).collect();
            let newest_version = listed.iter().map(|object| object.0.resource_version).max().unwrap_or_default();
            let is_known =
                |object: &ByKey| inner.objects.get(&object.0.key).is_some_and(|known| is_same(&known.0, &object.0));
            let mut fresh: Vec<_> = listed.into_iter().filter(|object| !is_known(object)).collect();
            // In the order of their changes, as events would show them.
            fresh.sort_unstable_by_key(|object| object.0.resource_version);
            (gone, fresh, newest_version)
        };
        let mut changes = Vec::with_capacity(gone.len() + fresh.len());
        for gone in gone.chunks(CHUNK) {
            let mut inner = self.inner.write();
            changes.extend(gone.iter().filter_map(|key| inner.remove(key)));
            drop(inner);
            between();
        }
        for fresh in fresh.chunks(CHUNK) {
            let mut inner = self.inner.write();
            changes.extend(fresh.iter().map(|ByKey(object)| inner.insert(object.clone())));
            drop(inner);
            between();
        }
        // From here on the cache is known to contain own writes from before the list.
        let mut inner = self.inner.write();
        (inner.last_list_began, inner.newest_version) = (Some(began), newest_version);
        changes
    }

    /// Adds or changes an object.
    pub fn upsert(&self, object: Object) -> Change {
        let object = self.packed(object);
        let mut inner = self.inner.write();
        inner.newest_version = inner.newest_version.max(object.resource_version);
        let object = inner.share(object);
        inner.insert(object)
    }

    fn packed(&self, mut object: Object) -> Object {
        object.json = self.packer.lock().pack(object.json);
        object
    }

    /// Removes an object.
    pub fn remove(&self, object: &Object) -> Option<Change> {
        let mut inner = self.inner.write();
        inner.newest_version = inner.newest_version.max(object.resource_version);
        inner.remove(&object.key)
    }
}

/// The namespace as the index stores it.
fn namespace_of(object: &Object) -> Arc<str> {
    object.key.namespace.clone().unwrap_or_default()
}

/// The plugin whose child an object is; none for an object that only has the labels of a child.
fn plugin_of(object: &Object) -> Option<&str> {
    let is_owned = object.labelled.is_some() && object.controller == object.labelled;
    let is_retained = || object.controller.is_none() && object.marks.get(ANNOTATION_RETAINED_FOR).is_some();
    object.plugin().filter(|_| is_owned || is_retained())
}

fn is_same(known: &Object, object: &Object) -> bool {
    (&known.uid, known.resource_version) == (&object.uid, object.resource_version)
}

impl Inner {
    /// Shares equal values of the object with other objects.
    fn share(&mut self, mut object: Object) -> Arc<Object> {
        // Reuse the allocations of the cached object's key, or else of its namespace, so that each text is stored once.
        match self.objects.get(&object.key) {
            Some(known) => object.key = known.0.key.clone(),
            None => object.key.namespace = object.key.namespace.map(|namespace| self.namespaces.share(&namespace)),
        }
        object.managed = self.managed.share(&object.managed);
        Arc::new(object)
    }

    fn insert(&mut self, object: Arc<Object>) -> Change {
        let before = self.objects.replace(ByKey(object.clone())).map(|before| before.0);
        if let Some(before) = &before {
            self.drop_from_index(before);
        }
        if let Some(index) = &mut self.by_namespace {
            index.entry(namespace_of(&object)).or_default().insert(ByKey(object.clone()));
        }
        match self.index {
            Index::Uid => drop(self.uids.replace(ByUid(object.clone()))),
            Index::Owner => {
                if let Some(plugin) = plugin_of(&object) {
                    *self.children.entry_ref(plugin).or_default() += 1;
                }
                if let Some(owner) = object.owner_key() {
                    self.retained += usize::from(owner.is_retained());
                    self.owners.entry(owner).or_default().push(object.clone());
                }
            }
        }
        Change { before, after: Some(object) }
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Change> {
        let before = self.objects.take(key)?.0;
        self.drop_from_index(&before);
        Some(Change { before: Some(before), after: None })
    }

    fn drop_from_index(&mut self, object: &Arc<Object>) {
        self.uids.remove(&object.uid);
        if let Some(index) = &mut self.by_namespace {
            let namespace = object.key.namespace.as_deref().unwrap_or_default();
            let is_empty = index.get_mut(namespace).is_some_and(|objects| {
                objects.remove(&object.key);
                objects.is_empty()
            });
            if is_empty {
                index.remove(namespace);
            }
        }
        if self.index != Index::Owner {
            return;
        }
        if let Some(plugin) = plugin_of(object)
            && let Some(count) = self.children.get_mut(plugin)
        {
            *count -= 1;
            if *count == 0 {
                self.children.remove(plugin);
            }
        }
        let Some(owner) = object.owner_key() else { return };
        self.retained -= usize::from(owner.is_retained());
        if let Some(owned) = self.owners.get_mut(&owner) {
            owned.retain(|owned| !Arc::ptr_eq(owned, object));
            if owned.is_empty() {
                self.owners.remove(&owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::ids::Gvk;

    fn object(name: &str, uid: &str, version: u64, parent: &str) -> Object {
        let kind = Arc::new(Gvk::from_api_version("v1", "Pod"));
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"{uid}","resourceVersion":"{version}",
            "labels":{{"windlass.dev/parent-uid":"{parent}"}}}}}}"#
        );
        Object::from_api(&kind, &text).expect("an object")
    }

    fn names(store: &Store, parent: &str) -> Vec<String> {
        let parent = ParentRef {
            plugin: "echo".parse().expect("a name"),
            kind: Arc::new(Gvk::from_api_version("my-operator.dev/v1", "Echo")),
            key: ObjectKey::new(Some("n"), "web"),
            uid: parent.into(),
            mark_key: None,
        };
        let mut names = Vec::new();
        store.for_each_of(&parent, |object| names.push(object.key.to_string()));
        names.sort();
        names
    }

    #[test]
    fn object_whose_parent_label_changes_moves_in_the_index() {
        let store = Store::new(Index::Owner);
        store.upsert(object("a", "1", 5, "p"));
        store.upsert(object("b", "2", 6, "p"));
        assert_eq!(names(&store, "p"), ["n/a", "n/b"]);
        let change = store.upsert(object("a", "1", 7, "q"));
        assert!(change.before.is_some() && change.after.is_some());
        assert_eq!((names(&store, "p"), names(&store, "q")), (vec!["n/b".to_owned()], vec!["n/a".to_owned()]));
        store.remove(&object("b", "2", 8, "p"));
        assert!(names(&store, "p").is_empty() && store.get(&ObjectKey::new(Some("n"), "b")).is_none());
        let now = Instant::now();
        assert!(store.has_seen(8, now) && !store.has_seen(9, now));
    }

    #[test]
    fn r09_only_objects_that_a_parent_controls_are_counted() {
        let store = Store::new(Index::Owner);
        let child = |name: &str, parent: &str, controller: &str| {
            let kind = Arc::new(Gvk::from_api_version("v1", "Pod"));
            let text = format!(
                r#"{{"metadata":{{"name":"{name}","uid":"{name}","resourceVersion":"1",
                "labels":{{"windlass.dev/parent-uid":"{parent}"}},
                "ownerReferences":[{{"uid":"{controller}","controller":true}}]}}}}"#
            );
            Object::from_api(&kind, &text).expect("an object")
        };
        for (name, parent, controller) in [("a", "p", "p"), ("b", "q", "q"), ("taken", "p", "x"), ("gone", "r", "r")] {
            store.upsert(child(name, parent, controller));
        }
        store.upsert(object("retained", "retained", 2, "p"));
        let parents = ["p", "q", "childless"].map(Uid::from);
        assert_eq!(store.count_controlled(&parents, |_| true), 2);
        assert_eq!(store.count_controlled(&parents, |child| &*child.key.name == "a"), 1);
    }

    #[test]
    fn retained_child_is_found_by_its_parents_name_until_it_is_changed_or_deleted() {
        let store = Store::new(Index::Owner);
        let retained = |name: &str, version: u64, annotations: &str| {
            let kind = Arc::new(Gvk::from_api_version("v1", "Pod"));
            let text = format!(
                r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"{name}","resourceVersion":"{version}",
                "annotations":{{{annotations}}}}}}}"#
            );
            Object::from_api(&kind, &text).expect("an object")
        };
        let of_web = r#""windlass.dev/retained-for":"echo/Echo.my-operator.dev/n/web""#;
        store.upsert(object("mine", "1", 1, "p"));
        store.upsert(retained("a", 2, of_web));
        store.upsert(retained("b", 3, &of_web.replace("web", "other")));
        assert_eq!(names(&store, "p"), ["n/a", "n/mine"]);
        store.upsert(retained("a", 4, ""));
        assert_eq!(names(&store, "p"), ["n/mine"]);
        store.upsert(retained("b", 5, of_web));
        assert_eq!(names(&store, "p"), ["n/b", "n/mine"]);
        store.remove(&retained("b", 6, of_web));
        assert_eq!(names(&store, "p"), ["n/mine"]);
    }

    #[test]
    fn parent_is_found_by_its_uid_until_it_is_replaced_or_deleted() {
        let store = Store::new(Index::Uid);
        store.upsert(object("a", "1", 5, "p"));
        assert_eq!(store.key_of(&"1".into()), Some(ObjectKey::new(Some("n"), "a")));
        store.upsert(object("a", "2", 6, "p"));
        assert_eq!((store.key_of(&"1".into()), store.key_of(&"2".into()).is_some()), (None, true));
        store.remove(&object("a", "2", 7, "p"));
        assert_eq!(store.key_of(&"2".into()), None);
    }

    #[test]
    fn children_are_counted_by_plugin_and_copied_labels_do_not_count() {
        let kind = Arc::new(Gvk::from_api_version("v1", "Pod"));
        let pod = |name: &str, plugin: &str, more: &str| {
            let text = format!(
                r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"{name}","resourceVersion":"1",
                "labels":{{"windlass.dev/plugin":"{plugin}","windlass.dev/parent-uid":"p"}},{more}}}}}"#
            );
            Object::from_api(&kind, &text).expect("an object")
        };
        let owner = |uid: &str| {
            format!(
                r#""ownerReferences":[{{"apiVersion":"v1","kind":"A","name":"a","uid":"{uid}","controller":true}}]"#
            )
        };
        let retained = r#""annotations":{"windlass.dev/retained-for":"echo A n web"}"#;
        let store = Store::new(Index::Owner);
        let counts = || ["echo", "shop"].map(|plugin| store.children_of(plugin));
        store.upsert(pod("a", "echo", &owner("p")));
        store.upsert(pod("b", "echo", retained));
        store.upsert(pod("copy", "echo", &owner("of another parent")));
        store.upsert(pod("c", "shop", &owner("p")));
        assert_eq!(counts(), [2, 1]);
        store.upsert(pod("a", "echo", &owner("p")));
        assert_eq!(counts(), [2, 1], "a change is no second child");
        store.upsert(pod("a", "shop", &owner("p")));
        store.remove(&pod("c", "shop", &owner("p")));
        assert_eq!(counts(), [1, 1]);
        store.begin_list();
        store.finish_list();
        assert_eq!(counts(), [0, 0]);
        assert!(store.inner.read().children.is_empty(), "a plugin that is gone leaves nothing");
    }

    #[test]
    fn namespace_index_follows_every_change() {
        let kind = Arc::new(Gvk::from_api_version("v1", "Pod"));
        let pod = |namespace: &str, name: &str, version: u64| {
            let text = format!(
                r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","uid":"{namespace}-{name}",
                "resourceVersion":"{version}"}}}}"#
            );
            Object::from_api(&kind, &text).expect("an object")
        };
        let node = r#"{"metadata":{"name":"node","uid":"node","resourceVersion":"1"}}"#;
        let store = Store::new(Index::Uid);
        let indexed = || store.inner.read().by_namespace.as_ref().map(HashMap::len);
        let of = |namespace: Option<&str>| {
            let mut found: Vec<_> = store
                .in_namespace(namespace)
                .iter()
                .map(|pod| format!("{} {}", pod.key, pod.resource_version))
                .collect();
            found.sort();
            found
        };
        store.upsert(pod("a", "x", 1));
        store.upsert(Object::from_api(&kind, node).expect("an object"));
        assert_eq!(indexed(), None, "the index is built only when a namespace is requested");
        assert_eq!(
            (of(Some("a")), of(Some("b")), of(None)),
            (vec!["a/x 1".to_owned()], vec![], vec!["node 1".to_owned()])
        );
        store.upsert(pod("a", "x", 2));
        store.upsert(pod("b", "y", 2));
        assert_eq!((of(Some("a")), of(Some("b"))), (vec!["a/x 2".to_owned()], vec!["b/y 2".to_owned()]));
        store.remove(&pod("b", "y", 3));
        store.begin_list();
        store.add_listed(pod("a", "z", 4));
        store.add_listed(pod("c", "x", 4));
        store.finish_list();
        assert_eq!((of(Some("a")), of(Some("c"))), (vec!["a/z 4".to_owned()], vec!["c/x 4".to_owned()]));
        assert!(of(None).is_empty() && of(Some("b")).is_empty());
        assert_eq!(indexed(), Some(2), "empty namespaces leave the index");
    }

    #[test]
    fn long_list_replaces_the_cache_without_blocking_readers() {
        let store = Store::new(Index::Owner);
        let last = 4 * CHUNK;
        (0..=CHUNK).for_each(|at| drop(store.upsert(object(&format!("old-{at}"), &format!("o{at}"), 1, "p"))));
        store.begin_list();
        (0..last).for_each(|at| store.add_listed(object(&format!("new-{at}"), &format!("n{at}"), 7, "p")));
        let (now, reads) = (Instant::now(), std::cell::Cell::new(0));
        let changes = store.replace(|| {
            assert!(store.inner.try_read().is_some(), "the lock is free");
            assert!(!store.has_seen(7, now), "the list is not in the cache yet");
            reads.set(reads.get() + 1);
        });
        assert_eq!((changes.len(), reads.get()), (last + CHUNK + 1, 6));
        assert!(store.has_seen(7, now));
        assert_eq!(store.size(), last);
    }

    #[test]
    fn new_list_replaces_the_cache_and_reports_only_changes() {
        let store = Store::new(Index::Owner);
        store.upsert(object("same", "1", 1, "p"));
        store.upsert(object("gone", "2", 2, "p"));
        store.upsert(object("again", "3", 3, "p"));
        store.begin_list();
        store.add_listed(object("same", "1", 1, "p"));
        store.add_listed(object("again", "4", 4, "p"));
        store.add_listed(object("new", "5", 5, "p"));
        assert_eq!(
            names(&store, "p"),
            ["n/again", "n/gone", "n/same"],
            "the cache changes only when the list is complete"
        );
        let mut changed: Vec<_> = store
            .finish_list()
            .iter()
            .map(|change| {
                let uid = |object: &Option<Arc<Object>>| object.as_ref().map(|object| object.uid.to_string());
                (uid(&change.before), uid(&change.after))
            })
            .collect();
        changed.sort();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(changed, [(None, some("5")), (some("2"), None), (some("3"), some("4"))]);
        assert_eq!(names(&store, "p"), ["n/again", "n/new", "n/same"]);
    }

    #[test]
    fn object_keeps_the_same_allocated_key_across_changes() {
        let store = Store::new(Index::Uid);
        let key_of = |change: Change| change.after.expect("the object exists").key.clone();
        let first = key_of(store.upsert(object("a", "1", 1, "p")));
        let changed = key_of(store.upsert(object("a", "1", 2, "p")));
        store.begin_list();
        store.add_listed(object("a", "1", 3, "p"));
        let listed = key_of(store.finish_list().remove(0));
        assert!([changed, listed].iter().all(|key| Arc::ptr_eq(&key.name, &first.name)));
    }

    #[test]
    fn unchanged_object_of_a_list_is_not_stored_twice() {
        let store = Store::new(Index::Owner);
        store.upsert(object("same", "1", 1, "p"));
        let before = store.get(&ObjectKey::new(Some("n"), "same")).expect("there");
        store.begin_list();
        store.add_listed(object("same", "1", 1, "p"));
        assert_eq!(Arc::strong_count(&before), 4, "one shared object: here, by name, by owner, in the list");
        assert!(store.finish_list().is_empty());
    }
}
