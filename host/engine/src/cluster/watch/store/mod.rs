//! The cache of one watch: written by the watch's task, read by all others.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Instant;

use hashbrown::{HashMap, HashSet};
use parking_lot::{Mutex, RwLock};
use smallvec::SmallVec;
use windlass_core::object::managed::ManagedFields;
use windlass_core::object::names::ANNOTATION_RETAINED_FOR;
use windlass_core::object::parent::ParentRef;
use windlass_core::object::selector::KeptLabels;
use windlass_core::object::{Object, OwnerKey};
use windlass_core::value::ids::{ObjectKey, Uid};
use windlass_core::value::intern::Interner;
use windlass_core::value::packed::Packer;

use crate::clock;

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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Index {
    /// Finds an object by uid.
    #[default]
    Uid,
    /// Finds the children of a parent.
    Owner,
}

#[derive(Debug, Default)]
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
    labels: Interner<str>,
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
        Self { inner: RwLock::new(Inner { index, ..Inner::default() }), packer: Mutex::default() }
    }

    /// The object of this name.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.inner.read().objects.get(key).map(|found| found.0.clone())
    }

    /// The name of the object with this uid.
    pub fn key_of(&self, uid: &Uid) -> Option<ObjectKey> {
        self.inner.read().uids.get(uid).map(|found| found.0.key.clone())
    }

    /// All names, sorted: what is done for all objects has the same order every time.
    pub fn keys(&self) -> Vec<ObjectKey> {
        let mut keys: Vec<_> = self.inner.read().objects.iter().map(|object| object.0.key.clone()).collect();
        keys.sort_unstable();
        keys
    }

    /// Applies `pick` to all objects and returns the results.
    pub fn pick<T>(&self, pick: impl Fn(&Object) -> Option<T>) -> Vec<T> {
        self.inner.read().objects.iter().filter_map(|object| pick(&object.0)).collect()
    }

    /// All objects for which this is true.
    pub fn find(&self, is_it: impl Fn(&Object) -> bool) -> Vec<Arc<Object>> {
        self.inner.read().objects.iter().map(|object| &object.0).filter(|object| is_it(object)).cloned().collect()
    }

    /// Number of objects.
    pub fn size(&self) -> usize {
        self.inner.read().objects.len()
    }

    /// All objects of a namespace, or all cluster-scoped objects, sorted by name.
    pub fn in_namespace(&self, namespace: Option<&str>) -> Vec<Arc<Object>> {
        let of_index = |index: &HashMap<Arc<str>, HashSet<ByKey>>| {
            let found = index.get(namespace.unwrap_or_default());
            let mut found: Vec<_> = found.into_iter().flatten().map(|object| object.0.clone()).collect();
            found.sort_unstable_by(|one, other| one.key.cmp(&other.key));
            found
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
        self.inner.read().newest_version >= resource_version || self.was_listed_since(acknowledged)
    }

    /// Whether the cache holds a complete list that began after this time.
    pub fn was_listed_since(&self, time: Instant) -> bool {
        self.inner.read().last_list_began.is_some_and(|began| began > time)
    }

    /// Begins a new list: objects that it does not contain are removed when it ends.
    pub fn begin_list(&self) {
        self.inner.write().pending_list = Some((HashSet::new(), clock::now()));
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
            let mut gone: Vec<_> = inner.objects.difference(&listed).map(|object| object.0.key.clone()).collect();
            gone.sort_unstable();
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
        object.labels = match self.index {
            Index::Uid => object.labels.map(|KeptLabels(labels)| KeptLabels(self.labels.share(&labels))),
            // Children are found by their owner. No selector reads their labels in this cache.
            Index::Owner => None,
        };
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
mod tests;
