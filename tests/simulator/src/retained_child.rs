//! What becomes of a retained child (rule R4), in the steady state: it changes as any other child does, outlives its parent, and belongs to
//! the next parent of that name.

use serde_json::{Value, json};
use tokio::time::sleep;
use windlass_core::object::names::ANNOTATION_RETAIN;

use crate::expected::{condition, has_owner, text};
use crate::history::{Act, Child, Kind};
use crate::objects::{child_path, parent_path, script_of};
use crate::requests::deleted_at;
use crate::steady_state::SOON;
use crate::user::User;

/// The parent.
const PARENT: u8 = 0;
/// The name of the retained child, and that of one that is deleted with the parent.
const NAMES: (u8, u8) = (60, 61);

/// What a user does, and the value that the retained child has then.
type Step = (&'static str, Act, u8);

/// Does what may become of a retained child, and returns what is not as it should be.
pub async fn problems(user: User<'_>) -> anyhow::Result<Vec<String>> {
    let (path, edited) = (child_path(PARENT, child(NAMES.0, 0)), json!({ "data": { "value": "edited" } }));
    let steps: [Step; 6] = [
        ("the parent desires it", apply(Some(0)), 0),
        ("a user edits it", Act::Patch { path: path.clone(), patch: edited }, 0),
        ("the parent desires another content", apply(Some(1)), 1),
        ("the parent is deleted", Act::Delete { parent: PARENT, policy: String::new() }, 1),
        ("another parent of that name desires it", apply(Some(2)), 2),
        ("the parent desires it no more", apply(None), 2),
    ];
    let mut problems = Vec::new();
    let mut first = None;
    for (what, act, value) in steps {
        user.does(&act)?;
        sleep(SOON).await;
        let found = user.get(&path);
        let first = first.get_or_insert_with(|| text(&found, "/metadata/uid").to_owned());
        problems.extend(
            different(&found, first, value).map(|problem| format!("after {what}, the retained child {problem}")),
        );
        problems.extend(untrue(&user).map(|problem| format!("after {what}, {problem}")));
    }
    // No host deletes it.
    user.send("DELETE", &path, None);
    Ok(problems)
}

/// How the retained child differs from what it must be.
fn different(found: &Value, first: &str, value: u8) -> Option<String> {
    let is_same = text(found, "/metadata/uid") == first && deleted_at(found).is_none();
    if found.is_null() {
        return Some("does not exist".to_owned());
    }
    if !is_same {
        return Some("is being deleted, or another object has its name".to_owned());
    }
    if has_owner(found) {
        return Some("has an owner, and would be deleted with it".to_owned());
    }
    (text(found, "/data/value") != value.to_string()).then(|| format!("should contain {value}: {found}"))
}

/// Whether the other child is not there with its parent, or without it, or the parent is not ready.
fn untrue(user: &User<'_>) -> Option<String> {
    let (parent, other) = (user.get(&parent_path(PARENT)), user.get(&child_path(PARENT, child(NAMES.1, 0))));
    let ready = condition(&parent, "Ready");
    if parent.is_null() != other.is_null() {
        return Some("a child that is not retained is there without its parent, or is not there with it".to_owned());
    }
    (!parent.is_null() && ready.is_none_or(|ready| text(ready, "/status") != "True"))
        .then(|| format!("the parent is not ready: {ready:?}"))
}

/// A user applies the parent, with the retained child if it has a value, and with the other one.
fn apply(value: Option<u8>) -> Act {
    let retained = value.map(|value| {
        let mut script = script_of(child(NAMES.0, value));
        script["metadata"]["annotations"] = json!({ (ANNOTATION_RETAIN): "true" });
        script
    });
    let other = script_of(child(NAMES.1, 0));
    let children: Vec<_> = retained.into_iter().chain([other]).collect();
    // A requirement of an earlier spec would keep its children.
    let spec = json!({ "children": children, "fail": null, "requirements": [], "childrenFrom": null });
    Act::ApplySpec { parent: PARENT, spec }
}

fn child(name: u8, value: u8) -> Child {
    Child { kind: Kind::ConfigMap, name, value }
}
