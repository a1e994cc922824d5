//! Names of children that another parent's child has: a parent that desires such a name is reconciled again once the name is free.

use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;

use crate::object::Object;
use crate::object::child::ChildId;
use crate::value::ids::ObjectKey;

/// The parents of one plugin that wait for a name. Each waits for one name at a time: its next reconcile finds the next one.
#[derive(Debug, Default)]
pub struct Contended(Mutex<Waits>);

#[derive(Debug, Default)]
struct Waits {
    by_name: HashMap<ChildId, HashSet<ObjectKey>>,
    by_parent: HashMap<ObjectKey, ChildId>,
}

impl Contended {
    /// Records for which name a parent waits: for none, after most reconciles.
    pub fn note(&self, parent: &ObjectKey, name: Option<&ChildId>) {
        let mut waits = self.0.lock();
        if waits.by_parent.get(parent) == name {
            return;
        }
        let before = waits.by_parent.remove(parent);
        if let Some(before) = before
            && let Some(parents) = waits.by_name.get_mut(&before)
        {
            parents.remove(parent);
            if parents.is_empty() {
                waits.by_name.remove(&before);
            }
        }
        if let Some(name) = name {
            waits.by_parent.insert(parent.clone(), name.clone());
            waits.by_name.entry(name.clone()).or_default().insert(parent.clone());
        }
    }

    /// The parents that wait for the name of an object that is gone. They wait no longer.
    pub fn freed(&self, gone: &Object) -> HashSet<ObjectKey> {
        let mut waits = self.0.lock();
        if waits.by_name.is_empty() {
            return HashSet::new();
        }
        let parents = waits.by_name.remove(&ChildId::of(gone)).unwrap_or_default();
        for parent in &parents {
            waits.by_parent.remove(parent);
        }
        parents
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::value::ids::Gvk;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(Some("shop"), name)
    }

    fn pod(name: &str) -> Object {
        let text = format!(r#"{{"metadata":{{"namespace":"shop","name":"{name}","uid":"1","resourceVersion":"1"}}}}"#);
        Object::from_api(&Arc::new(Gvk::from_api_version("v1", "Pod")), &text).expect("an object")
    }

    #[test]
    fn r05_each_parent_that_waits_for_a_name_is_told_once_that_it_is_free() {
        let contended = Contended::default();
        let of = |name: &str| ChildId::of(&pod(name));
        contended.note(&key("a"), Some(&of("web")));
        contended.note(&key("b"), Some(&of("web")));
        contended.note(&key("c"), Some(&of("db")));
        contended.note(&key("c"), None);
        contended.note(&key("b"), Some(&of("db")));
        assert_eq!(contended.freed(&pod("other")), HashSet::new());
        assert_eq!(contended.freed(&pod("web")), HashSet::from([key("a")]));
        assert_eq!(contended.freed(&pod("web")), HashSet::new());
        assert_eq!(contended.freed(&pod("db")), HashSet::from([key("b")]), "a parent waits for its last name only");
        let waits = contended.0.lock();
        assert!(waits.by_name.is_empty() && waits.by_parent.is_empty(), "{waits:?}");
    }
}
