//! What hosts do with children that others have made what they are, in the steady state: a user has restored them from a backup, the garbage
//! collector has released them, or another version of the host has applied them.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use windlass_api_model::Call;
use windlass_core::object::names::{
    ANNOTATION_APPLIED, ANNOTATION_RETAINED_FOR, FIELD_MANAGER, LABEL_PARENT_UID, LABEL_PLUGIN,
};

use crate::expected::{condition, controller, has_owner, label_of, text};
use crate::history::{Act, Child, FINALIZING, Kind};
use crate::objects::{child_name, child_path, collection_of, content_of, parent_path, script_of};
use crate::requests::deleted_at;
use crate::setup::{NAMESPACE, OPERATORS, by_user};
use crate::steady_state::SOON;
use crate::user::User;

/// A parent of the first Plugin.
const PARENT: u8 = 1;
/// The number in the name of the first child that a user restores.
const RESTORED: u8 = 70;
/// The value of what a user restores; parents desire another one.
const RESTORED_VALUE: u8 = 5;
/// Time after which a host has tried to create what it does not see.
const TRIED_AFTER: Duration = Duration::from_secs(12);
/// Time after that until the caches of hosts show what a user has restored.
const SHOWN_AFTER: Duration = Duration::from_secs(8);
/// A child that is released.
const RELEASED: Child = Child { kind: Kind::ConfigMap, name: 80, value: 0 };
/// Children that another version has applied.
const EARLIER: [Child; 2] =
    [Child { kind: Kind::ConfigMap, name: 90, value: 0 }, Child { kind: Kind::Secret, name: 91, value: 0 }];
/// How another version of the host marks what it has applied.
const EARLIER_MARK: &str = "0:0123456789abcdef";

/// The marks that an object has which a user restores from a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marks {
    /// Those of a child.
    All,
    /// The labels are lost.
    Owner,
    /// Those of a child that outlived its parent; the labels are lost.
    Retained,
    /// Those of a child of another parent, which had the same name.
    OfPredecessor,
}

const ALL_MARKS: [Marks; 4] = [Marks::All, Marks::Owner, Marks::Retained, Marks::OfPredecessor];

/// Restores children from a backup, as a user would, which no cache shows when their parent desires them: the create of a host tells it that
/// they are there (rule R3). Returns what is wrong: at first, no content may be written.
pub async fn children_are_restored(user: User<'_>) -> anyhow::Result<Vec<String>> {
    user.does(&apply(&[]))?;
    let predecessor = user.get(&parent_path(PARENT));
    user.does(&Act::Delete { parent: PARENT, policy: String::new() })?;
    user.does(&apply(&[]))?;
    sleep(SOON).await;
    user.network.lag("configmaps", TRIED_AFTER + SHOWN_AFTER);
    user.network.stop_collector(TRIED_AFTER + SHOWN_AFTER);
    let parent = user.get(&parent_path(PARENT));
    let created: Vec<_> = ALL_MARKS.iter().map(|marks| restore(user, *marks, &parent, &predecessor)).collect();
    let desired: Vec<_> = ALL_MARKS.iter().map(|marks| child_with(*marks)).collect();
    user.does(&apply(&desired))?;
    sleep(TRIED_AFTER).await;
    let mut problems = Vec::new();
    for (marks, created) in ALL_MARKS.iter().zip(&created) {
        let found = user.get(&child_path(PARENT, child_with(*marks)));
        let is_untouched = match marks {
            Marks::All | Marks::OfPredecessor => found == *created,
            Marks::Owner | Marks::Retained => found.get("data") == created.get("data") && label_of(&found).is_some(),
        };
        if !is_untouched {
            problems.push(format!("no cache shows the child with {marks:?} marks yet, and it is written: {found}"));
        }
    }
    sleep(SHOWN_AFTER + SOON).await;
    for (marks, created) in ALL_MARKS.iter().zip(&created) {
        let child = child_with(*marks);
        let found = user.get(&child_path(PARENT, child));
        let is_same = text(&found, "/metadata/uid") == text(created, "/metadata/uid");
        let is_child = controller(&found) == text(&parent, "/metadata/uid");
        let has_content = found.get("data") == content_of(child).get("data");
        if !is_child || !has_content || is_same == (*marks == Marks::OfPredecessor) {
            problems.push(format!("the child with {marks:?} marks did not become what its parent desires: {found}"));
        }
    }
    Ok(problems)
}

/// Creates an object with the name of a child and these marks. Returns it.
fn restore(user: User<'_>, marks: Marks, parent: &Value, predecessor: &Value) -> Value {
    let owner = if marks == Marks::OfPredecessor { predecessor } else { parent };
    let child = Child { value: RESTORED_VALUE, ..child_with(marks) };
    let reference = json!({
        "apiVersion": text(owner, "/apiVersion"), "kind": text(owner, "/kind"), "name": text(owner, "/metadata/name"),
        "uid": text(owner, "/metadata/uid"), "controller": true, "blockOwnerDeletion": true,
    });
    let labels = json!({ LABEL_PLUGIN: OPERATORS[0].name, LABEL_PARENT_UID: text(owner, "/metadata/uid") });
    let retained = format!("{}/Puppet.puppets.example/{NAMESPACE}/p{PARENT}", OPERATORS[0].name);
    let mut object = content_of(child);
    object["metadata"] = json!({ "name": child_name(PARENT, child) });
    if marks == Marks::Retained {
        object["metadata"]["annotations"] = json!({ ANNOTATION_RETAINED_FOR: retained });
    } else {
        object["metadata"]["ownerReferences"] = json!([reference]);
    }
    if matches!(marks, Marks::All | Marks::OfPredecessor) {
        object["metadata"]["labels"] = labels;
    }
    user.send("POST", &collection_of(child.kind), Some(object)).body
}

/// The child that is restored with these marks.
fn child_with(marks: Marks) -> Child {
    let place = ALL_MARKS.iter().zip(RESTORED..).find(|(other, _)| **other == marks);
    Child { kind: Kind::ConfigMap, name: place.map_or(RESTORED, |(_, name)| name), value: 0 }
}

/// Deletes a parent with `--cascade=orphan` whose plugin desires a child during its clean-up, and returns what is wrong with the child that
/// was released. Hosts see the deletion once the garbage collector has released the child: the create tells them that it is there (rule R15).
pub async fn child_is_released(user: User<'_>) -> anyhow::Result<Vec<String>> {
    let changed = Child { value: RELEASED.value + 1, ..RELEASED };
    let apply = |finalized: &str| {
        let spec = json!({
            "children": [script_of(RELEASED)], "requirements": [], "childrenFrom": null, "fail": null, "status": null,
            "finalize": { "children": [script_of(changed)], "finalizedWhen": finalized },
        });
        user.does(&Act::ApplySpec { parent: FINALIZING, spec })
    };
    // The plugin may have failed for the parent so far, and may not have cleaned it up.
    apply("always")?;
    user.does(&Act::Delete { parent: FINALIZING, policy: String::new() })?;
    sleep(SOON).await;
    apply("never")?;
    sleep(SOON).await;
    let path = child_path(FINALIZING, RELEASED);
    let before = user.get(&path);
    user.network.lag(OPERATORS[1].parents, TRIED_AFTER);
    user.does(&Act::Delete { parent: FINALIZING, policy: "Orphan".to_owned() })?;
    sleep(TRIED_AFTER + SOON).await;
    let after = user.get(&path);
    let parent = user.get(&parent_path(FINALIZING));
    let told = condition(&parent, "Ready").map(|ready| text(ready, "/reason"));
    apply("always")?;
    sleep(SOON).await;
    let is_same = text(&before, "/metadata/uid") == text(&after, "/metadata/uid") && deleted_at(&after).is_none();
    let is_released = is_same && before.get("data") == after.get("data") && !has_owner(&after);
    let is_held_up = !user.get(&parent_path(FINALIZING)).is_null();
    user.send("DELETE", &path, None);
    let problems = [
        (before.is_null() || !is_released, format!("a child that its parent has released is {after}")),
        (told != Some("Finalizing"), format!("beside a child that was released, its parent says {told:?}")),
        (is_held_up, "a child that was released holds up the clean-up of its parent".to_owned()),
    ];
    Ok(problems.into_iter().filter(|(is_wrong, _)| *is_wrong).map(|(_, problem)| problem).collect())
}

/// Lets children be marked as another version of the host would have done it, and returns what is wrong afterwards: nothing is written before
/// a user changes the parent.
pub async fn host_is_upgraded(user: User<'_>) -> anyhow::Result<Vec<String>> {
    user.does(&apply(&EARLIER))?;
    sleep(SOON).await;
    let paths = EARLIER.map(|child| child_path(PARENT, child));
    let marked: Vec<_> = paths.iter().map(|path| mark_as_earlier(user, path)).collect();
    sleep(SOON).await;
    let mut problems = Vec::new();
    for (path, marked) in paths.iter().zip(&marked) {
        if text(marked, "/metadata/uid").is_empty() || user.get(path) != *marked {
            problems.push(format!("{path}, which another version of the host has applied: {}", user.get(path)));
        }
    }
    let changed = EARLIER.map(|child| Child { value: 1, ..child });
    user.does(&apply(&changed))?;
    sleep(SOON).await;
    for (child, marked) in changed.into_iter().zip(&marked) {
        let found = user.get(&child_path(PARENT, child));
        let is_same = text(&found, "/metadata/uid") == text(marked, "/metadata/uid");
        if !is_same || found.get("data") != content_of(child).get("data") {
            problems.push(format!("{child:?} of p{PARENT} did not change after another version of the host: {found}"));
        }
    }
    Ok(problems)
}

/// Applies a child as another version of the host would: with the same content and another mark. Returns what it is then.
fn mark_as_earlier(user: User<'_>, path: &str) -> Value {
    let mut object = user.get(path);
    let metadata = object.pointer("/metadata").cloned().unwrap_or_default();
    let mut annotations = metadata.get("annotations").cloned().unwrap_or_default();
    annotations[ANNOTATION_APPLIED] = EARLIER_MARK.into();
    object["metadata"] = json!({
        "name": metadata["name"], "labels": metadata["labels"], "annotations": annotations,
        "ownerReferences": metadata["ownerReferences"],
    });
    let call = by_user("PATCH", path, Some(object), windlass_engine::clock::date());
    let query = format!("fieldManager={FIELD_MANAGER}&force=true");
    let content_type = "application/apply-patch+yaml".to_owned();
    user.network.send(&Call { query, content_type, ..call }).body
}

fn apply(children: &[Child]) -> Act {
    Act::Apply { parent: PARENT, children: children.to_vec(), fail: None, reads: false }
}
