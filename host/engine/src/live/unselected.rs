//! Former parents: objects that have children, but that the watch of the plugin's parents does not show. Such an object
//! has left the label selector, or is gone; the host reads it from the API server to find out.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use windlass_core::object::Object;
use windlass_core::object::mark::MarkKey;
use windlass_core::object::selector::Selector;
use windlass_core::reconcile::steps::not_shown::GOOD_FOR;
use windlass_core::value::ids::{GroupKind, ObjectKey, PluginName, Uid, is_object_name};

use crate::clock;
use crate::cluster::watch::{Store, Watch, WatchId};

/// The former parents of one plugin.
pub struct Unselected {
    plugin: PluginName,
    kind: GroupKind,
    /// Whether the kind of the parents has namespaces.
    pub namespaced: bool,
    /// The key of the children's marks, if the parents are cluster-scoped.
    mark_key: Option<MarkKey>,
    /// Label selector of the parents; without one there are no former parents.
    selector: Option<Selector>,
    known: Mutex<HashMap<ObjectKey, Entry>>,
}

struct Entry {
    uid: Uid,
    /// The result of the last read; none before the first one.
    seen: Option<Seen>,
}

#[derive(Clone)]
enum Seen {
    /// The object is gone or being deleted: the garbage collector deletes its children.
    Gone,
    /// The object exists outside the label selector; with the time of the read.
    Left(Arc<Object>, Instant),
}

impl Unselected {
    /// No former parents, for a plugin whose parents this watch shows.
    pub fn new(plugin: &PluginName, parents: &WatchId, namespaced: bool, mark_key: Option<MarkKey>) -> Self {
        Self {
            plugin: plugin.clone(),
            kind: parents.kind.group_kind(),
            namespaced,
            mark_key,
            selector: parents.labels.as_ref().and_then(|labels| labels.parse().ok()),
            known: Mutex::default(),
        }
    }

    /// Finds former parents by their children in the caches: they may have left the label selector while no host ran,
    /// or an earlier component had another selector.
    pub fn search<'a>(&self, parents: &Store, children: impl Iterator<Item = &'a Arc<Watch>>) {
        if !self.may_be() {
            return;
        }
        let lost = |child: &Object| if self.may_miss(child) { self.parent_of(child) } else { None };
        for (key, uid) in children.flat_map(|watch| watch.store.pick(lost)) {
            if parents.get(&key).is_none() {
                self.add(&key, uid);
            }
        }
    }

    /// Whether there can be former parents: not without a label selector.
    pub fn may_be(&self) -> bool {
        self.selector.is_some()
    }

    /// Records an object that the watch does not show. It does not replace an object of the same name that was read.
    pub fn add(&self, key: &ObjectKey, uid: Uid) {
        let mut known = self.known.lock();
        let is_known = |entry: &Entry| entry.uid == uid || matches!(entry.seen, Some(Seen::Left(..)));
        if !known.get(key).is_some_and(is_known) {
            known.insert(key.clone(), Entry { uid, seen: None });
        }
    }

    /// The parent of a child, if it is a former parent. A parent that the watch does not show is recorded first, unless
    /// the child is gone (`is_there` is false) or being deleted.
    pub fn parent_of_lost(
        &self,
        child: &Object,
        is_there: bool,
        is_shown: impl FnOnce(&ObjectKey) -> bool,
    ) -> Option<ObjectKey> {
        if !self.may_be() {
            return None;
        }
        let (key, uid) = self.parent_of(child)?;
        if is_there && self.may_miss(child) && !is_shown(&key) {
            self.add(&key, uid);
        }
        self.holds(&key).then_some(key)
    }

    /// Whether there is a former parent of that name.
    pub fn holds(&self, key: &ObjectKey) -> bool {
        self.known.lock().contains_key(key)
    }

    /// The uid of the former parent of that name.
    pub fn uid(&self, key: &ObjectKey) -> Option<Uid> {
        self.known.lock().get(key).map(|entry| entry.uid.clone())
    }

    /// All former parents.
    pub fn all(&self) -> Vec<(ObjectKey, Uid)> {
        self.known.lock().iter().map(|(key, entry)| (key.clone(), entry.uid.clone())).collect()
    }

    /// Forgets an object that has no children any more, or that the watch shows.
    pub fn forget(&self, key: &ObjectKey) {
        self.known.lock().remove(key);
    }

    /// The object of that name, read now or within the last [`GOOD_FOR`]. None if it is gone, being deleted, or
    /// selected again.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn read(&self, key: &ObjectKey, parents: &Watch) -> kube::Result<Option<Arc<Object>>> {
        let seen = self.known.lock().get(key).and_then(|entry| entry.seen.clone());
        match seen {
            Some(Seen::Gone) => return Ok(None),
            Some(Seen::Left(object, read)) if clock::since(read) < GOOD_FOR => return Ok(Some(object)),
            Some(Seen::Left(..)) | None => {}
        }
        Ok(self.seen(key, parents.read(key).await?.map(Arc::new)))
    }

    /// Records the result of a read. Returns the object if it exists outside the label selector and is not being
    /// deleted.
    fn seen(&self, key: &ObjectKey, found: Option<Arc<Object>>) -> Option<Arc<Object>> {
        if found.as_ref().is_some_and(|found| self.selects(found)) {
            // The watch is about to show the object.
            self.forget(key);
            return None;
        }
        let left = found.filter(|found| !found.deleting);
        if let Some(entry) = self.known.lock().get_mut(key) {
            match &left {
                // The children may name another uid, but this is the only object of the name.
                Some(left) => {
                    entry.uid = left.uid.clone();
                    entry.seen = Some(Seen::Left(left.clone(), clock::now()));
                }
                None => entry.seen = Some(Seen::Gone),
            }
        }
        left
    }

    fn selects(&self, object: &Object) -> bool {
        self.selector.as_ref().is_some_and(|selector| object.with_labels(|labels| selector.matches(labels)))
    }

    /// Whether the parent of a child may be a former one: the child belongs to the plugin, and is not being deleted.
    fn may_miss(&self, child: &Object) -> bool {
        let has_mark = || self.mark_key.as_ref().is_none_or(|key| key.holds(child));
        !child.deleting && child.plugin() == Some(self.plugin.as_str()) && has_mark()
    }

    /// The parent that a child's controller ownerReference and label name.
    fn parent_of(&self, child: &Object) -> Option<(ObjectKey, Uid)> {
        let uid = child.controller.as_ref().filter(|uid| child.is_owned_by(uid))?;
        let (kind, name) = child.controller_kind_and_name()?;
        let namespace = child.key.namespace.as_deref().filter(|_| self.namespaced);
        // A user who may write a child chooses this name, and the host requests it, so it must be valid.
        let is_one = kind == self.kind && is_object_name(&name);
        is_one.then(|| (ObjectKey::new(namespace, &name), uid.clone()))
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::value::ids::Gvk;

    use super::*;

    const KIND: &str = "Namespace";

    fn unselected(labels: Option<&str>, namespaced: bool) -> Unselected {
        let kind = Arc::new(Gvk::from_api_version("v1", KIND));
        let id = WatchId { labels: labels.map(str::to_owned), ..WatchId::of_kind(kind) };
        Unselected::new(&"deco".parse().expect("a name"), &id, namespaced, None)
    }

    fn object(text: &str) -> Object {
        let kind = Arc::new(Gvk::from_api_version("v1", KIND));
        Object::from_api(&kind, text).expect("an object")
    }

    /// A child of `team`, by its labels and ownerReference.
    fn child(plugin: &str, labelled: &str, controller: &str, rest: &str) -> Object {
        child_of("team", plugin, labelled, controller, rest)
    }

    fn child_of(name: &str, plugin: &str, labelled: &str, controller: &str, rest: &str) -> Object {
        object(&format!(
            r#"{{"metadata":{{"name":"child","namespace":"n","uid":"c","resourceVersion":"1"{rest},
            "labels":{{"windlass.dev/plugin":"{plugin}","windlass.dev/parent-uid":"{labelled}"}},
            "ownerReferences":[{{"apiVersion":"v1","kind":"{KIND}","name":"{name}","uid":"{controller}","controller":true}}]}}}}"#
        ))
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(None, name)
    }

    #[test]
    fn child_of_a_parent_outside_the_selector_reveals_that_parent() {
        let unselected = unselected(Some("team"), false);
        let child = child("deco", "u", "u", "");
        assert_eq!(unselected.parent_of_lost(&child, true, |_| true), None, "the parent is shown");
        assert_eq!(
            unselected.parent_of_lost(&child, false, |_| false),
            None,
            "the child is gone: nothing is left to do"
        );
        assert_eq!(unselected.parent_of_lost(&child, true, |_| false), Some(key("team")));
        assert_eq!(unselected.all(), [(key("team"), Uid::from("u"))]);
        assert_eq!(
            unselected.parent_of_lost(&child, false, |_| false),
            Some(key("team")),
            "the parent has one child less"
        );
        unselected.forget(&key("team"));
        assert!(!unselected.holds(&key("team")));
    }

    #[test]
    fn existing_parent_replaces_a_deleted_one_of_the_same_name() {
        let unselected = unselected(Some("team"), false);
        let (team, old) = (key("team"), Uid::from("old"));
        let read = |uid: &str, rest: &str| {
            let text = format!(r#"{{"metadata":{{"name":"team","uid":"{uid}","resourceVersion":"1"{rest}}}}}"#);
            unselected.seen(&team, Some(Arc::new(object(&text)))).map(|object| object.uid.clone())
        };
        let known = || unselected.uid(&team);
        unselected.add(&team, Uid::from("new"));
        unselected.add(&team, old.clone());
        assert_eq!(read("new", ""), Some(Uid::from("new")));
        unselected.add(&team, old.clone());
        assert_eq!(known(), Some(Uid::from("new")), "the garbage collector deletes the children of the old one");

        assert_eq!(read("new", r#","deletionTimestamp":"2026-01-01T00:00:00Z""#), None);
        unselected.add(&team, Uid::from("newer"));
        assert_eq!(read("newer", r#","labels":{"team":"x"}"#), None, "the selector matches again");
        assert_eq!(known(), None);
    }

    #[test]
    fn foreign_or_terminating_object_reveals_no_parent() {
        let unselected = unselected(Some("team"), false);
        let deleting = r#","deletionTimestamp":"2026-01-01T00:00:00Z""#;
        for child in [child("other", "u", "u", ""), child("deco", "u", "x", ""), child("deco", "u", "u", deleting)] {
            assert_eq!(unselected.parent_of_lost(&child, true, |_| false), None, "{child:?}");
        }
    }

    #[test]
    fn owner_name_that_would_change_the_request_path_is_ignored() {
        let unselected = unselected(Some("team"), false);
        for name in
            ["vault/secrets", "vault/secrets?watch=true", "team?watch=true", "team#a", "..", "%2e%2e", "a b", ""]
        {
            let child = child_of(name, "deco", "u", "u", "");
            assert_eq!(unselected.parent_of_lost(&child, true, |_| false), None, "{name}");
        }
        assert_eq!(unselected.all(), []);
    }

    #[test]
    fn without_a_selector_no_parent_is_outside_it() {
        let unselected = unselected(None, false);
        assert_eq!(unselected.parent_of_lost(&child("deco", "u", "u", ""), true, |_| false), None);
        assert!(!unselected.may_be());
    }

    #[test]
    fn parent_of_a_namespaced_kind_is_in_the_namespace_of_its_child() {
        let unselected = unselected(Some("team"), true);
        let found = unselected.parent_of_lost(&child("deco", "u", "u", ""), true, |_| false);
        assert_eq!(found, Some(ObjectKey::new(Some("n"), "team")));
    }
}
