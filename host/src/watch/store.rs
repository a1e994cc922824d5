//! The cache of one watch: written by its task, read by everybody.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use windlass_core::ids::{ObjectKey, Uid};
use windlass_core::object::{Object, OwnerKey};

/// What happened to one object.
#[derive(Debug, Clone)]
pub struct Change {
    /// What the cache held.
    pub before: Option<Arc<Object>>,
    /// What it holds now; none when the object is gone.
    pub after: Option<Arc<Object>>,
}

/// Objects of one kind, with the indexes that reconciling needs.
#[derive(Debug, Default)]
pub struct Store(RwLock<Inner>);

#[derive(Debug, Default)]
struct Inner {
    objects: HashMap<ObjectKey, Arc<Object>>,
    uids: HashMap<Uid, ObjectKey>,
    owners: HashMap<OwnerKey, Vec<ObjectKey>>,
    /// The newest resourceVersion that the watch delivered: writes up to it are in the cache.
    seen: u64,
    /// Objects of a list that is not complete yet.
    listing: Option<HashMap<ObjectKey, Arc<Object>>>,
}

impl Store {
    /// The object of that name.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.0.read().objects.get(key).cloned()
    }

    /// The name of the object with that identity.
    pub fn key_of(&self, uid: &Uid) -> Option<ObjectKey> {
        self.0.read().uids.get(uid).cloned()
    }

    /// All names.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.0.read().objects.keys().cloned().collect()
    }

    /// The objects that say they exist for one of these parents.
    pub fn of_owners(&self, owners: &[OwnerKey]) -> Vec<Arc<Object>> {
        let inner = self.0.read();
        let keys = owners.iter().filter_map(|owner| inner.owners.get(owner)).flatten();
        keys.filter_map(|key| inner.objects.get(key).cloned()).collect()
    }

    /// Whether a write that the API server answered with this resourceVersion is in the cache (or was, and is
    /// outdated). Versions are comparable within a kind (KEP-5504).
    pub fn has_seen(&self, resource_version: u64) -> bool {
        self.0.read().seen >= resource_version
    }

    /// A new list begins: what it does not hold will be gone when it ends.
    pub(super) fn list_begins(&self) {
        self.0.write().listing = Some(HashMap::new());
    }

    /// An object of the list that is under way.
    pub(super) fn listed(&self, object: Object) {
        if let Some(listing) = &mut self.0.write().listing {
            listing.insert(object.key.clone(), Arc::new(object));
        }
    }

    /// The list is complete; answers with all that it changed.
    pub(super) fn list_ends(&self) -> Vec<Change> {
        let mut inner = self.0.write();
        let listed = inner.listing.take().unwrap_or_default();
        let gone: Vec<_> = inner.objects.keys().filter(|key| !listed.contains_key(key)).cloned().collect();
        let mut changes: Vec<_> = gone.iter().filter_map(|key| inner.remove(key)).collect();
        for (_, object) in listed {
            inner.seen = inner.seen.max(object.resource_version);
            let known = inner.objects.get(&object.key).map(|known| (&known.uid, known.resource_version));
            if known != Some((&object.uid, object.resource_version)) {
                changes.push(inner.insert(object));
            }
        }
        changes
    }

    /// An object was added or changed.
    pub(super) fn applied(&self, object: Object) -> Change {
        let mut inner = self.0.write();
        inner.seen = inner.seen.max(object.resource_version);
        inner.insert(Arc::new(object))
    }

    /// An object is gone.
    pub(super) fn deleted(&self, object: &Object) -> Option<Change> {
        let mut inner = self.0.write();
        inner.seen = inner.seen.max(object.resource_version);
        inner.remove(&object.key)
    }
}

impl Inner {
    fn insert(&mut self, object: Arc<Object>) -> Change {
        let before = self.objects.insert(object.key.clone(), object.clone());
        if let Some(before) = &before {
            self.drop_from_indexes(before);
        }
        self.uids.insert(object.uid.clone(), object.key.clone());
        if let Some(owner) = object.owner_key() {
            self.owners.entry(owner).or_default().push(object.key.clone());
        }
        Change { before, after: Some(object) }
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Change> {
        let before = self.objects.remove(key)?;
        self.drop_from_indexes(&before);
        Some(Change { before: Some(before), after: None })
    }

    fn drop_from_indexes(&mut self, object: &Object) {
        self.uids.remove(&object.uid);
        let Some(owner) = object.owner_key() else { return };
        if let Some(keys) = self.owners.get_mut(&owner) {
            keys.retain(|key| *key != object.key);
            if keys.is_empty() {
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
        let mut names: Vec<_> =
            store.of_owners(&[OwnerKey::Uid(parent.into())]).iter().map(|object| object.key.to_string()).collect();
        names.sort();
        names
    }

    #[test]
    fn an_object_that_changes_its_label_changes_its_place_in_the_index() {
        let store = Store::default();
        store.applied(object("a", "1", 5, "p"));
        store.applied(object("b", "2", 6, "p"));
        assert_eq!(names(&store, "p"), ["n/a", "n/b"]);
        let change = store.applied(object("a", "1", 7, "q"));
        assert!(change.before.is_some() && change.after.is_some());
        assert_eq!((names(&store, "p"), names(&store, "q")), (vec!["n/b".to_owned()], vec!["n/a".to_owned()]));
        store.deleted(&object("b", "2", 8, "p"));
        assert!(names(&store, "p").is_empty() && store.key_of(&"2".into()).is_none());
        assert!(store.has_seen(8) && !store.has_seen(9));
    }

    #[test]
    fn a_new_list_replaces_the_cache_at_once_and_tells_only_what_changed() {
        let store = Store::default();
        store.applied(object("same", "1", 1, "p"));
        store.applied(object("gone", "2", 2, "p"));
        store.applied(object("again", "3", 3, "p"));
        store.list_begins();
        store.listed(object("same", "1", 1, "p"));
        store.listed(object("again", "4", 4, "p"));
        store.listed(object("new", "5", 5, "p"));
        assert_eq!(names(&store, "p"), ["n/again", "n/gone", "n/same"], "not before the list is complete");
        let mut changed: Vec<_> = store
            .list_ends()
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
}
