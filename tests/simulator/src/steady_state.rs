//! What users do in the steady state, when nothing fails: the hosts follow within seconds. Before, a parent that a host had forgotten to
//! queue again would be found by its next sweep.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use windlass_api_model::{ApiServer, Id};

use crate::expected::{self, fails, traps};
use crate::history::{Child, Kind};
use crate::network::Network;
use crate::objects::{content_of, path_of, script_of};
use crate::requests::deleted_at;
use crate::setup::{HOST_NAMESPACE, NAMESPACE, OPERATORS, Operator, by_user};

/// Longest time until hosts have done all that a change of a user asks for, when nothing fails.
pub const SOON: Duration = Duration::from_secs(15);
/// A child that parents get in the steady state.
const CHILD: Child = Child { kind: Kind::ConfigMap, name: 9, value: 1 };

/// Something that users do to each parent.
type Step = (&'static str, fn(&Network, &Id));

/// Changes all parents, and returns how the cluster differs from what they ask for a while later.
pub async fn parents_change(network: &Network) -> Vec<String> {
    let steps: [Step; 4] = [
        ("a child more", add_child),
        ("a child edited", edit_child),
        ("a child deleted", delete_child),
        ("a child less", take_child),
    ];
    let mut problems = Vec::new();
    for step in steps {
        problems.extend(follow(network, step).await);
    }
    problems
}

/// Deletes all parents, and returns what is left of them a while later.
pub async fn parents_go(network: &Network) -> Vec<String> {
    follow(network, ("parents deleted", delete_parent)).await
}

async fn follow(network: &Network, (what, step): Step) -> Vec<String> {
    network.with_trace(|trace| trace.note(&format!("* {what}")));
    let parents = network.with_server(|server| parents(server));
    parents.iter().for_each(|parent| step(network, parent));
    sleep(SOON).await;
    let found = network.with_server(|server| expected::differences(server));
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

fn edit_child(network: &Network, parent: &Id) {
    send(network, "PATCH", &child_of(parent), Some(content_of(Child { value: 2, ..CHILD })));
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
