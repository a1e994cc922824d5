//! Caches → snapshot: what a plugin is shown of one parent.

use std::sync::Arc;

use windlass_core::ids::ObjectKey;
use windlass_core::parent::ParentRef;
use windlass_core::snapshot::Snapshot;

use crate::live::Live;

/// The parent and its children as the caches hold them; nothing if there is no such parent.
pub fn observe(live: &Live, key: &ObjectKey) -> Option<Snapshot> {
    let parent = live.parents.store.get(key)?;
    let parent_ref = ParentRef::of(&live.name, &parent);
    let owners = parent_ref.owner_keys();
    let children = live.children.values().flat_map(|watch| watch.store.of_owners(&owners));
    Some(Snapshot::new(parent_ref, parent, children, live.config.as_ref().map(Arc::clone)))
}
