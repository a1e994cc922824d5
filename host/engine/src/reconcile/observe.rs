//! Makes the snapshot of a parent from the caches.

use std::sync::Arc;

use windlass_core::contract::snapshot::Snapshot;
use windlass_core::object::Object;
use windlass_core::object::parent::ParentRef;
use windlass_core::value::ids::ObjectKey;

use crate::live::Live;

/// The parent of this key and its children, from the caches. None if the cache has no such parent.
pub fn observe(live: &Live, key: &ObjectKey) -> Option<Snapshot> {
    live.caches.parents.store.get(key).map(|parent| around(live, parent))
}

/// This parent, with its children from the caches.
pub fn around(live: &Live, parent: Arc<Object>) -> Snapshot {
    let parent_ref = ParentRef::of(&live.terms.name, &parent, live.terms.mark_key.as_ref());
    let mut children = Vec::new();
    for watch in live.caches.children.values() {
        watch.store.for_each_of(&parent_ref, |child| children.push(child.clone()));
    }
    Snapshot::new(parent_ref, parent, children, live.terms.config.as_ref().map(Arc::clone), |plugin| {
        live.inherits(plugin)
    })
}
