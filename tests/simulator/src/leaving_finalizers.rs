//! What the deletion guard must do when parents whose plugin finalizes are no longer selected (rule R9), in the steady state: children that go
//! after the clean-up of their parent count together with those that went before.

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::expected::text;
use crate::history::{Act, Child, FINALIZING, Kind};
use crate::objects::{child_path, collection_of, collection_of_parent, parent_path, plugin_path, script_of};
use crate::setup::OPERATORS;
use crate::steady_state::SOON;
use crate::trial::{label_namespace, select_namespace};
use crate::user::User;

/// The children of the parent that cleans up first, and one that it creates to do that.
const CHILDREN: [Child; 3] = [child(20), child(21), child(22)];
/// The parent whose children go at once, two of them.
const OTHER: &str = "leaver";

const fn child(name: u8) -> Child {
    Child { kind: Kind::ConfigMap, name, value: 0 }
}

/// Lets the namespace of the parents be no longer selected, and then allows the deletions. Returns what is wrong.
///
/// The parents have four children. Deleting two of them is not too much for the guard, and does not wait for a clean-up that takes long.
/// Deleting all is too much, also if one parent has so few that its own guard blocks nothing.
pub async fn problems(user: User<'_>) -> anyhow::Result<Vec<String>> {
    let [first, second, job] = CHILDREN.map(script_of);
    let spec = |finalize: Value| {
        json!({
            "children": [first, second], "requirements": [], "childrenFrom": null, "fail": null, "status": null,
            "finalize": finalize,
        })
    };
    let cleans_up_until = |when: &str| Act::ApplySpec {
        parent: FINALIZING,
        spec: spec(json!({ "children": [first, second, job], "finalizedWhen": when })),
    };
    let other = json!({ "metadata": { "name": OTHER }, "spec": spec(json!({ "finalizedWhen": "always" })) });
    let others = collection_of_parent(FINALIZING);
    let delete = Act::Delete { parent: FINALIZING, policy: String::new() };
    let create = Act::Create { path: others.clone(), object: other, count: 1 };
    let own = CHILDREN.map(|child| child_path(FINALIZING, child));
    let of_other = ["20", "21"].map(|name| format!("{}/{OTHER}-c{name}", collection_of(Kind::ConfigMap)));
    let lost = |after: &str| {
        let lost = own.iter().filter(|path| user.get(path).is_null());
        lost.map(|path| format!("after {after}, {path} does not exist: {}", told(&user))).collect::<Vec<_>>()
    };
    let left = |after: &str, paths: &[String]| {
        let left = paths.iter().filter(|path| !user.get(path).is_null());
        left.map(|path| format!("after {after}, {path} is still there: {}", told(&user))).collect::<Vec<_>>()
    };
    [delete, create].iter().chain(&select_namespace(OPERATORS[1].name)).try_for_each(|act| user.does(act).map(drop))?;
    sleep(SOON).await;
    user.does(&cleans_up_until("never"))?;
    sleep(SOON).await;
    user.does(&label_namespace(None))?;
    sleep(SOON).await;
    let mut problems = [lost("the label was taken off"), left("the label was taken off", &of_other)].concat();
    user.does(&cleans_up_until("childrenCreated"))?;
    sleep(SOON).await;
    problems.extend(lost("the clean-up"));
    user.follow_conditions();
    sleep(SOON).await;
    problems.extend(left("the deletions were allowed", &own));
    let selects_all = json!({ "spec": { "namespaceSelector": null } });
    user.does(&Act::Patch { path: plugin_path(OPERATORS[1].name), patch: selects_all })?;
    user.send("DELETE", &format!("{others}/{OTHER}"), None);
    sleep(SOON).await;
    Ok(problems)
}

/// What the conditions of the Plugin and of the parent say.
fn told(user: &User<'_>) -> String {
    let conditions = [plugin_path(OPERATORS[1].name), parent_path(FINALIZING)].map(|path| {
        let object = user.get(&path);
        let all = object.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        all.iter()
            .map(|one| format!("{} {}: {}", text(one, "/type"), text(one, "/status"), text(one, "/message")))
            .collect::<Vec<_>>()
    });
    format!("{conditions:?}")
}
