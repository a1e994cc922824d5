//! What users do in the steady state, when nothing fails: the hosts follow within seconds. Before, a parent that a host had forgotten to
//! queue again would be found by its next sweep.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use windlass_api_model::{ApiServer, Id};

use crate::expected::{self, controller, fails, is_forged, label_of, text, traps};
use crate::history::{Act, Child, Kind};
use crate::network::Network;
use crate::objects::{child_path, parent_path, path_of, script_of};
use crate::requests::deleted_at;
use crate::setup::{DOLLS, HOST_NAMESPACE, MASKS, NAMESPACE, OPERATORS, Operator, by_user};
use crate::user::User;

/// Longest time until hosts have done all that a change of a user asks for, when nothing fails.
pub const SOON: Duration = Duration::from_secs(15);
/// A child that parents get in the steady state.
const CHILD: Child = Child { kind: Kind::ConfigMap, name: 9, value: 1 };

/// Something that users do to each parent.
type Step = (&'static str, fn(&Network, &Id));

/// Changes all parents, and returns how the cluster differs from what they ask for a while later.
pub async fn parents_change(network: &Network) -> Vec<String> {
    let steps: [Step; 3] =
        [("a child more", add_child), ("a child deleted", delete_child), ("a child less", take_child)];
    let mut problems = children_are_edited(network).await;
    for step in steps {
        problems.extend(follow(network, step).await);
    }
    problems
}

/// Changes all children, and returns what is not as it was a while later. No edit is a reason to recreate a child.
async fn children_are_edited(network: &Network) -> Vec<String> {
    network.with_trace(|trace| trace.note("* children edited"));
    let children = network.with_server(|server| children(server));
    for (id, _) in &children {
        let content = match &*id.resource {
            DOLLS | MASKS => json!({ "spec": { "value": "edited" } }),
            _ => json!({ "data": { "value": "ZWRpdGVk" } }),
        };
        send(network, "PATCH", id, Some(content));
    }
    sleep(SOON).await;
    network.with_server(|server| {
        let is_same =
            |(id, uid): &&(Id, String)| server.object(id).is_some_and(|now| text(now, "/metadata/uid") == uid);
        let recreated = children.iter().filter(|child| !is_same(child));
        let recreated = recreated.map(|(id, _)| format!("{id} was edited, and is not the same object any more"));
        recreated.chain(not_soon(server, "children edited")).collect()
    })
}

/// The children of the parents that a host follows at once, with their uids; without those that it leaves as they are.
fn children(server: &ApiServer) -> Vec<(Id, String)> {
    let uids: Vec<_> =
        parents(server).iter().filter_map(|id| Some(text(server.object(id)?, "/metadata/uid"))).collect();
    let is_child = |(_, child): &(&Id, &Arc<Value>)| {
        uids.contains(&controller(child))
            && label_of(child).is_some()
            && !is_forged(child)
            && deleted_at(child).is_none()
    };
    let children = ["configmaps", "secrets", DOLLS, MASKS].iter().flat_map(|kind| server.objects_of(kind));
    children.filter(is_child).map(|(id, child)| (id.clone(), text(child, "/metadata/uid").to_owned())).collect()
}

/// Lets a Plugin adopt what has the names of its children; returns what it did not adopt, and what it should not have.
pub async fn objects_are_adopted(user: User<'_>) -> anyhow::Result<Vec<String>> {
    let child = |kind, name| Child { kind, name, value: 1 };
    let (free, secret) = (child(Kind::ConfigMap, 30), child(Kind::Secret, 31));
    let (token, other) = (child(Kind::Secret, 32), child(Kind::ConfigMap, 33));
    let foreign = child(Kind::ConfigMap, 34);
    let occupied = |parent, child, plugin: &str, owner, token| Act::Occupy {
        parent,
        child,
        plugin: plugin.to_owned(),
        owner,
        token,
    };
    let apply = |parent, children| Act::Apply { parent, children, fail: None, reads: false };
    for act in [
        occupied(0, free, "", None, false),
        occupied(0, secret, "", None, false),
        apply(1, Vec::new()),
        occupied(0, foreign, "", Some(1), false),
        occupied(1, token, "", None, true),
        occupied(2, other, OPERATORS[1].name, None, false),
        Act::Plugin { spec: json!({ "adopt": true }) },
        apply(0, vec![free, secret, foreign]),
        apply(1, vec![token]),
        apply(2, vec![other]),
    ] {
        user.does(&act)?;
    }
    sleep(SOON).await;
    let is_child = |(parent, child, is_adopted): &(u8, Child, bool)| {
        let (owner, object) = (user.get(&parent_path(*parent)), user.get(&child_path(*parent, *child)));
        (controller(&object) == text(&owner, "/metadata/uid")) == *is_adopted
    };
    let all = [(0, free, true), (0, secret, true), (0, foreign, false), (1, token, false), (2, other, false)];
    let wrong = all.into_iter().filter(|one| !is_child(one));
    Ok(wrong.map(|(parent, child, is_adopted)| format!("{child:?} of p{parent} is adopted: {}", !is_adopted)).collect())
}

/// Deletes all parents, and returns what is left of them a while later.
pub async fn parents_go(network: &Network) -> Vec<String> {
    follow(network, ("parents deleted", delete_parent)).await
}

async fn follow(network: &Network, (what, step): Step) -> Vec<String> {
    network.with_trace(|trace| trace.note(&format!("* {what}")));
    let parents = network.with_server(|server| parents(server));
    for parent in &parents {
        step(network, parent);
    }
    sleep(SOON).await;
    network.with_server(|server| not_soon(server, what))
}

fn not_soon(server: &ApiServer, what: &str) -> Vec<String> {
    let found = expected::differences(server);
    found.into_iter().map(|problem| format!("not soon after {what}: {problem}")).collect()
}

/// Whether hosts follow all parents at once, and their namespace is there.
pub fn is_calm(server: &ApiServer) -> bool {
    let namespace = server.object(&Id::new("namespaces", "", NAMESPACE));
    namespace.is_some_and(|namespace| deleted_at(namespace).is_none())
        && !OPERATORS.iter().any(|operator| traps_for(server, operator))
}

/// Whether there are parents for which a plugin traps: its component is called now and then only.
fn traps_for(server: &ApiServer, operator: &Operator) -> bool {
    server.objects_of(operator.parents).any(|(_, parent)| traps(parent))
}

/// The parents that a host follows at once.
fn parents(server: &ApiServer) -> Vec<Id> {
    let is_followed = |(id, parent): &(&Id, &Arc<Value>)| id.namespace != HOST_NAMESPACE && !fails(parent);
    let plugins = OPERATORS.iter().filter(|operator| !traps_for(server, operator));
    let parents = plugins.flat_map(|operator| server.objects_of(operator.parents)).filter(is_followed);
    parents.map(|(id, _)| id.clone()).collect()
}

fn add_child(network: &Network, parent: &Id) {
    let mut script = script_of(CHILD);
    script["metadata"]["namespace"] = NAMESPACE.into();
    let mut children = children_of(network, parent);
    children.push(script);
    set_children(network, parent, &children);
}

fn take_child(network: &Network, parent: &Id) {
    let mut children = children_of(network, parent);
    children.pop();
    set_children(network, parent, &children);
}

fn delete_child(network: &Network, parent: &Id) {
    send(network, "DELETE", &child_of(parent), None);
}

fn delete_parent(network: &Network, parent: &Id) {
    send(network, "DELETE", parent, None);
}

fn child_of(parent: &Id) -> Id {
    Id::new("configmaps", NAMESPACE, &format!("{}-c{}", parent.name, CHILD.name))
}

fn children_of(network: &Network, parent: &Id) -> Vec<Value> {
    let found = send(network, "GET", parent, None);
    found.pointer("/spec/children").and_then(Value::as_array).cloned().unwrap_or_default()
}

fn set_children(network: &Network, parent: &Id, children: &[Value]) {
    send(network, "PATCH", parent, Some(json!({ "spec": { "children": children } })));
}

fn send(network: &Network, method: &str, id: &Id, body: Option<Value>) -> Value {
    network.send(&by_user(method, &path_of(id), body, windlass_engine::clock::date())).body
}

/// The Plugins whose parents the hosts that run do not share, although the plugin was called for all of them.
pub fn unshared(server: &ApiServer) -> Vec<String> {
    let is_apart = |operator: &&Operator| {
        let plugin = server.object(&Id::new("plugins.windlass.dev", "", operator.name));
        plugin.is_some_and(|plugin| plugin.pointer("/status/rollout/shared") != Some(&true.into()))
    };
    let plugins = OPERATORS.iter().filter(|operator| expected::is_planned(server, operator)).filter(is_apart);
    plugins.map(|operator| format!("the parents of Plugin {} are not shared", operator.name)).collect()
}
