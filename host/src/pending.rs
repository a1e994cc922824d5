//! Own writes that the caches have not shown yet: until they do, their parent is not decided again (rule R3).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use windlass_core::ids::{Gvk, ObjectKey, PluginName, Uid};
use windlass_core::plan::ChildId;

use crate::live::Live;

/// How long a key waits for its own writes at most. A watch lags by milliseconds; one that lags longer is being
/// restarted, and then a decision from an old cache is refused by the API server's own preconditions.
const PATIENCE: Duration = Duration::from_secs(10);

/// One write that the API server acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// The parent was changed: the version that it has since.
    Parent {
        /// The version.
        resource_version: u64,
    },
    /// A child was created or changed, or marked for deletion: the version that it has since.
    Child {
        /// The child's kind, which may be the parent's own: children have a watch of theirs.
        kind: Arc<Gvk>,
        /// The version.
        resource_version: u64,
    },
    /// A child was deleted at once.
    Gone {
        /// The object.
        child: ChildId,
        /// Its identity.
        uid: Uid,
    },
}

/// The writes of all parents that are not seen yet.
#[derive(Debug, Default)]
pub struct OwnWrites(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    of_parent: HashMap<(PluginName, ObjectKey), Pending>,
    /// Number of parents at which those whose time is over are cleared out: a parent that is gone is never asked for
    /// again.
    clear_at: usize,
}

/// So few parents are not worth clearing out.
const CLEAR_MIN: usize = 1024;

#[derive(Debug)]
struct Pending {
    until: Instant,
    writes: Vec<Written>,
}

impl OwnWrites {
    /// Remembers what was written for a parent.
    pub fn add(&self, plugin: &PluginName, parent: &ObjectKey, writes: Vec<Written>) {
        if writes.is_empty() {
            return;
        }
        let mut waiting = self.0.lock();
        let now = Instant::now();
        if waiting.of_parent.len() >= waiting.clear_at.max(CLEAR_MIN) {
            waiting.of_parent.retain(|_, pending| pending.until > now);
            waiting.clear_at = 2 * waiting.of_parent.len();
        }
        let until = now + PATIENCE;
        let id = (plugin.clone(), parent.clone());
        let entry = waiting.of_parent.entry(id).or_insert_with(|| Pending { until, writes: Vec::new() });
        entry.until = until;
        entry.writes.extend(writes);
    }

    /// How much longer a parent must wait for its own writes; nothing when the caches show them all, or the time is
    /// over.
    pub fn wait(&self, live: &Live, parent: &ObjectKey) -> Option<Duration> {
        let pending = &mut self.0.lock().of_parent;
        if pending.is_empty() {
            return None;
        }
        let id = (live.name.clone(), parent.clone());
        let entry = pending.get_mut(&id)?;
        entry.writes.retain(|write| !is_seen(live, write));
        let left = entry.until.checked_duration_since(Instant::now());
        match left {
            Some(left) if !entry.writes.is_empty() => Some(left),
            _ => {
                if left.is_none() && !entry.writes.is_empty() {
                    tracing::warn!(plugin = %live.name, %parent, "own writes were not seen in time; going on");
                }
                pending.remove(&id);
                None
            }
        }
    }

    /// A parent is gone.
    pub fn forget(&self, plugin: &PluginName, parent: &ObjectKey) {
        self.0.lock().of_parent.remove(&(plugin.clone(), parent.clone()));
    }
}

fn is_seen(live: &Live, write: &Written) -> bool {
    // A kind that is no longer watched has nothing to wait for.
    let Some(store) = shown_by(write, &live.parents, |kind| live.child_watch(kind)).map(|watch| &watch.store) else {
        return true;
    };
    match write {
        Written::Parent { resource_version } | Written::Child { resource_version, .. } => {
            store.has_seen(*resource_version)
        }
        Written::Gone { child, uid } => store.get(&child.key).is_none_or(|found| found.uid != *uid || found.deleting),
    }
}

/// Which watch shows a write: that of the parents, or that of a child kind.
fn shown_by<W>(write: &Written, parents: W, children: impl FnOnce(&Gvk) -> Option<W>) -> Option<W> {
    match write {
        Written::Parent { .. } => Some(parents),
        Written::Child { kind, .. } => children(kind),
        Written::Gone { child, .. } => children(&child.kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r03_a_write_to_a_child_of_the_parents_own_kind_is_looked_for_among_the_children() {
        let kind = Arc::new(Gvk::from_api_version("v1", "ConfigMap"));
        let child = ChildId { kind: kind.clone(), key: ObjectKey::new(Some("n"), "a") };
        let watch = |write| shown_by(&write, "parents", |of| (*of == *kind).then_some("children"));
        assert_eq!(watch(Written::Parent { resource_version: 7 }), Some("parents"));
        assert_eq!(watch(Written::Child { kind: kind.clone(), resource_version: 7 }), Some("children"));
        assert_eq!(watch(Written::Gone { child, uid: Uid::from("u") }), Some("children"));
        let other = Arc::new(Gvk::from_api_version("v1", "Pod"));
        assert_eq!(watch(Written::Child { kind: other, resource_version: 7 }), None, "no longer watched");
    }
}
