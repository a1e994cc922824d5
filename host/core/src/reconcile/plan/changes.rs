//! Lists what leads from the snapshot to the desired state, whenever each step may be taken: the preview of a plan.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::{Plan, Target, Write, apply, is_settled, replace};
use crate::contract::UpdateStrategy;
use crate::contract::desired::{Desired, DesiredChild};
use crate::contract::snapshot::Snapshot;
use crate::object::Object;
use crate::object::child::{ChildId, Delete};
use crate::value::ids::{GroupKind, ObjectKey};

/// One change of a child.
#[derive(Debug, Clone)]
pub enum Change {
    /// The child does not exist, and is created.
    Create(Arc<DesiredChild>),
    /// The child is changed by a server-side apply.
    Apply {
        /// The desired child.
        child: Arc<DesiredChild>,
        /// The object to change.
        target: Target,
        /// The object as it is.
        live: Arc<Object>,
    },
    /// The child is deleted and then recreated, or it is being deleted already.
    Recreate {
        /// The desired child.
        child: Arc<DesiredChild>,
        /// The object that is deleted.
        live: Arc<Object>,
    },
    /// The child is no longer desired, and is deleted.
    Delete(Arc<Object>),
    /// The child changes only once a user deletes it (update strategy `on-delete`).
    WhenDeleted(Arc<Object>),
}

/// Lists the changes of a plan that [`plan`](super::plan()) made from this snapshot and desired state, in the order of
/// the desired children, followed by the deletions. Children that a plan leaves for later (rules R8 and R11) are
/// included.
pub fn changes(plan: &Plan, snapshot: &Snapshot, desired: &Desired) -> Vec<Change> {
    let live: HashMap<_, _> = snapshot.children.iter().map(|live| (place(&ChildId::of(live)), live)).collect();
    let writes: HashMap<_, _> = plan.writes.iter().map(|write| (place(&write.child()), write)).collect();
    let later: HashSet<_> = plan.terminating.iter().chain(&plan.rolling).map(place).collect();
    let of_child = |child: &Arc<DesiredChild>| {
        let at = place(&child.id());
        let later_write = |live: &Object| match &child.update {
            UpdateStrategy::Rolling { recreate: true, .. } => replace(live, child),
            _ => apply(live, child, None),
        };
        let write = match (writes.get(&at), live.get(&at)) {
            (Some(write), _) => (*write).clone(),
            (None, Some(live)) if live.deleting => Write::Replace(Delete::of(live)),
            (None, Some(live)) if later.contains(&at) => later_write(live),
            (None, Some(live)) if child.update == UpdateStrategy::OnDelete && !is_settled(live, child) => {
                return Some(Change::WhenDeleted(Arc::clone(live)));
            }
            (None, _) => return None,
        };
        match (write, live.get(&at)) {
            (Write::Create(child), _) => Some(Change::Create(child)),
            (Write::Apply { child, target }, Some(live)) => {
                Some(Change::Apply { child, target, live: Arc::clone(live) })
            }
            (Write::Replace(_), Some(live)) => Some(Change::Recreate { child: child.clone(), live: Arc::clone(live) }),
            (Write::Apply { .. } | Write::Replace(_), None) => None,
        }
    };
    let deleted = plan.prunes.iter().filter_map(|delete| live.get(&place(&delete.child)));
    let deleted = deleted.map(|live| Change::Delete(Arc::clone(live)));
    desired.children.iter().filter_map(of_child).chain(deleted).collect()
}

/// Where a child is, regardless of the version of its kind.
fn place(child: &ChildId) -> (GroupKind, ObjectKey) {
    (child.kind.group_kind(), child.key.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::plan;
    use super::*;
    use crate::fixtures::{created, pod, snapshot, validate, validate_with};

    fn exists(name: &str) -> Value {
        created(&validate(&[pod(name)]).expect("valid").children[0])
    }

    fn with_image(name: &str) -> Value {
        let mut pod = pod(name);
        pod["spec"]["containers"][0]["image"] = json!("nginx:2");
        pod
    }

    /// The changes from these live children to these desired ones, each with the child's name.
    fn listed(live: &[Value], desired: &[Value], update: &UpdateStrategy) -> Vec<String> {
        let (snapshot, desired) = (snapshot(live), validate_with(desired, update).expect("valid"));
        let changes = changes(&plan(&snapshot, &desired), &snapshot, &desired);
        let listed = changes.iter().map(|change| match change {
            Change::Create(child) => format!("create {}", child.key.name),
            Change::Apply { child, live, .. } => {
                assert_eq!(child.key, live.key);
                format!("apply {}", child.key.name)
            }
            Change::Recreate { child, live } => {
                assert_eq!(child.key, live.key);
                format!("recreate {}", child.key.name)
            }
            Change::Delete(live) => format!("delete {}", live.key.name),
            Change::WhenDeleted(live) => format!("when deleted {}", live.key.name),
        });
        listed.collect()
    }

    #[test]
    fn preview_has_creations_changes_and_deletions_and_no_settled_child() {
        let live = [exists("settled"), exists("changed"), exists("dropped")];
        let desired = [with_image("changed"), pod("new"), pod("settled")];
        assert_eq!(listed(&live, &desired, &UpdateStrategy::Apply), ["apply changed", "create new", "delete dropped"]);
        assert_eq!(
            listed(&live, &desired, &UpdateStrategy::Recreate),
            ["recreate changed", "create new", "delete dropped"]
        );
        assert_eq!(
            listed(&live, &desired, &UpdateStrategy::OnDelete),
            ["when deleted changed", "create new", "delete dropped"]
        );
    }

    #[test]
    fn preview_has_children_whose_change_waits_for_others() {
        let mut leaving = exists("c");
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let desired = [with_image("a"), with_image("b"), with_image("c")];
        for (recreate, verb) in [(false, "apply"), (true, "recreate")] {
            let rolling = UpdateStrategy::Rolling { recreate, conditions: ["Ready".to_owned()].into() };
            let found = listed(&[exists("a"), exists("b"), leaving.clone()], &desired, &rolling);
            assert_eq!(found, [format!("{verb} a"), format!("{verb} b"), "recreate c".to_owned()]);
        }
    }
}
