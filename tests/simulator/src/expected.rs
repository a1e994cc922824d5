//! What a cluster must look like in the steady state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};
use windlass_api_model::{ApiServer, Change, Id};
use windlass_core::object::names::{ANNOTATION_MARK, ANNOTATION_RETAINED_FOR, LABEL_PARENT_UID, LABEL_PLUGIN};

use crate::setup::{CHILDREN, HOST_NAMESPACE, OPERATORS, Operator};

/// A text of an object; empty if it has none there.
pub fn text<'a>(object: &'a Value, at: &str) -> &'a str {
    object.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

/// The uid of the object that controls this one; empty if none does.
pub fn controller(object: &Value) -> &str {
    reference(object).map_or("", |one| text(one, "/uid"))
}

/// The reference to the object that controls this one.
fn reference(object: &Value) -> Option<&Value> {
    let references = object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    references.into_iter().find(|one| one.get("controller") == Some(&Value::Bool(true)))
}

/// The annotation that a user sets on a copy of a child: it has all that a child has, but its mark is that of another object.
pub const COPIED: &str = "example.com/copied";

/// Whether an object only looks as if it were a child: it is a copy of one, or says that a cluster-scoped parent owns it, and has no mark.
pub fn is_forged(object: &Value) -> bool {
    let has =
        |annotation: &str| object.pointer("/metadata/annotations").is_some_and(|all| all.get(annotation).is_some());
    let is_of_cluster = reference(object).is_some_and(|owner| text(owner, "/kind") == "ClusterPuppet");
    has(COPIED) || is_of_cluster && !has(ANNOTATION_MARK)
}

/// Whether an object is controlled by another one.
pub fn has_owner(object: &Value) -> bool {
    !controller(object).is_empty()
}

/// The Plugin in the label by which hosts find children. An object that a user has taken it off is no child any more (rule R4).
pub fn label_of(object: &Value) -> Option<&str> {
    object.pointer("/metadata/labels")?.get(LABEL_PLUGIN)?.as_str()
}

/// Whether an object is a retained child: it has no owner, and no host may delete it (rule R4).
pub fn is_retained(object: &Value) -> bool {
    let annotations = object.pointer("/metadata/annotations");
    annotations.is_some_and(|annotations| annotations.get(ANNOTATION_RETAINED_FOR).is_some()) && !has_owner(object)
}

/// Whether an object was a child of a parent that is being deleted with `--cascade=orphan`. It does not hold up the clean-up.
fn is_orphan(object: &Value, parent: &Value) -> bool {
    let label = object.pointer("/metadata/labels").and_then(|labels| labels.get(LABEL_PARENT_UID)?.as_str());
    let is_deleted = parent.pointer("/metadata/deletionTimestamp").is_some();
    is_deleted && !has_owner(object) && label == parent.pointer("/metadata/uid").and_then(Value::as_str)
}

/// Whether the plugin fails for a parent.
pub fn fails(parent: &Value) -> bool {
    parent.pointer("/spec/fail").is_some_and(|fail| !fail.is_null())
}

/// Whether the plugin traps when it is called for a parent.
pub fn traps(parent: &Value) -> bool {
    parent.pointer("/spec/fail") == Some(&"trap".into())
}

/// How the cluster differs from what its parents ask for.
pub fn differences(server: &ApiServer) -> Vec<String> {
    let mut found: Vec<_> = OPERATORS.iter().filter_map(|operator| plugin_problem(server, operator)).collect();
    let mut wanted = BTreeMap::new();
    let mut uids = BTreeSet::new();
    // While the name of a child is taken, the host deletes none of the parent's children, writes none that comes after it, and has not
    // acted on the parent's generation.
    let mut occupied = BTreeSet::new();
    // The children of a parent for which the plugin fails stay as they are.
    let mut failing = BTreeSet::new();
    let parents_of = |operator: &'static Operator| server.objects_of(operator.parents).map(move |of| (operator, of));
    for (operator, (id, parent)) in OPERATORS.iter().flat_map(parents_of) {
        uids.insert(text(parent, "/metadata/uid"));
        if id.namespace == HOST_NAMESPACE {
            // Plugins reconcile nothing in the host's own namespace.
            found.extend(failure_problem(id, parent));
            continue;
        }
        let is_deleted = parent.pointer("/metadata/deletionTimestamp").is_some();
        if fails(parent) {
            // A plugin that fails does not clean up either.
            failing.insert(text(parent, "/metadata/uid"));
            found.extend(failure_problem(id, parent).filter(|_| !is_deleted));
            continue;
        }
        if lacks_namespace(server, id, parent) {
            failing.insert(text(parent, "/metadata/uid"));
            found.extend(failure_problem(id, parent).filter(|_| !is_deleted));
            continue;
        }
        let taken = add_children(server, id, parent, &mut wanted);
        if !taken.is_empty() {
            occupied.insert(text(parent, "/metadata/uid"));
        } else if is_deleted {
            found.push(format!("{id} is still being deleted: {:?}", parent.pointer("/metadata/finalizers")));
            continue;
        }
        found.extend(status_problem(id, parent, &taken).filter(|_| operator.existing.is_none()));
    }
    for (id, (uid, script)) in &wanted {
        match server.object(id) {
            None if occupied.contains(uid) => {}
            None => found.push(format!("{id} does not exist")),
            Some(object) if controller(object) != *uid || occupied.contains(uid) => {}
            Some(object) => found.extend(content_problem(id, object, script)),
        }
    }
    for (id, object) in CHILDREN.iter().flat_map(|resource| server.objects_of(resource)) {
        let owner = controller(object);
        if id.namespace != HOST_NAMESPACE && !owner.is_empty() {
            if !uids.contains(owner) {
                found.push(format!("{id} has outlived its parent"));
            } else if !wanted.contains_key(id)
                && !occupied.contains(owner)
                && !failing.contains(owner)
                && label_of(object).is_some()
                && !is_forged(object)
            {
                found.push(format!("{id} is desired by no parent any more"));
            }
        }
    }
    found
}

/// The children that a parent's spec asks for, with their scripts.
pub fn scripted<'a>(parent: &'a Id, object: &'a Value) -> impl Iterator<Item = (Id, &'a Value)> {
    object.pointer("/spec/children").and_then(Value::as_array).into_iter().flatten().map(move |script| {
        let group = text(script, "/apiVersion").split_once('/').map_or("", |(group, _)| group);
        let plural = format!("{}s", text(script, "/kind").to_lowercase());
        let resource = if group.is_empty() { plural } else { format!("{plural}.{group}") };
        // Children of a cluster-scoped parent name their namespaces.
        let own = Some(&*parent.namespace).filter(|namespace| !namespace.is_empty());
        let namespace = own.unwrap_or_else(|| text(script, "/metadata/namespace"));
        (Id::new(&resource, namespace, &text(script, "/metadata/name").replace("${name}", &parent.name)), script)
    })
}

/// Whether a child does not exist and cannot be created, because its namespace is being deleted: a parent in it whose plugin fails to clean up
/// keeps the namespace for ever.
fn lacks_namespace(server: &ApiServer, id: &Id, parent: &Value) -> bool {
    let is_leaving = |namespace: &str| {
        let namespace = server.object(&Id::new("namespaces", "", namespace));
        namespace.is_some_and(|namespace| namespace.pointer("/metadata/deletionTimestamp").is_some())
    };
    scripted(id, parent).any(|(child, _)| server.object(&child).is_none() && is_leaving(&child.namespace))
}

/// The children that a parent has for the keys of the ConfigMap that it requires.
fn required(server: &ApiServer, parent: &Id, object: &Value) -> Vec<Id> {
    let shared = object.pointer("/spec/childrenFrom").and_then(Value::as_str);
    let shared = shared.and_then(|name| server.object(&Id::new("configmaps", &parent.namespace, name)));
    let data = shared.and_then(|shared| shared.get("data")?.as_object());
    let keys = data.into_iter().flat_map(Map::keys);
    keys.map(|key| Id::new("configmaps", &parent.namespace, &format!("{}-{key}", parent.name))).collect()
}

/// Adds the children of a parent. Returns those whose names are taken by objects of somebody else, with the kind and name of what controls
/// that object.
fn add_children<'a>(
    server: &ApiServer,
    id: &'a Id,
    parent: &'a Value,
    wanted: &mut BTreeMap<Id, (&'a str, &'a Value)>,
) -> Vec<(Id, String)> {
    let uid = text(parent, "/metadata/uid");
    let mut taken = Vec::new();
    let required = required(server, id, parent).into_iter().map(|child| (child, &Value::Null));
    for (child, script) in scripted(id, parent).chain(required) {
        let is_taken =
            |object: &&Arc<Value>| (controller(object) != uid || is_forged(object)) && !is_orphan(object, parent);
        if let Some(object) = server.object(&child).filter(is_taken) {
            taken.push((child.clone(), reference(object).map(named).unwrap_or_default()));
        }
        wanted.insert(child, (uid, script));
    }
    taken
}

/// Kind and name of what a reference refers to.
fn named(reference: &Value) -> String {
    format!("{} {}", text(reference, "/kind"), text(reference, "/name"))
}

/// How the content of a child differs from what its script says.
pub fn content_problem(id: &Id, object: &Value, script: &Value) -> Option<String> {
    let is_left_alone = id.resource == "services";
    let wanted =
        script.as_object().into_iter().flatten().filter(|(field, _)| !["metadata", "options"].contains(&&***field));
    lacking(object, wanted).filter(|_| !is_left_alone).map(|lacks| format!("{id} {lacks}"))
}

/// Which of these fields an object has not as they are here.
pub fn lacking<'a>(object: &Value, fields: impl IntoIterator<Item = (&'a String, &'a Value)>) -> Option<String> {
    let found = |field: &String| object.get(field).unwrap_or(&Value::Null);
    let lacking = fields.into_iter().filter(|(field, value)| !contains(found(field), value));
    let lacking: Vec<_> = lacking.map(|(field, value)| format!("{field} {value} and has {}", found(field))).collect();
    (!lacking.is_empty()).then(|| format!("lacks {}", lacking.join(", ")))
}

/// How often objects of a resource with these fields were created, changed or deleted, if it was more than this.
pub fn too_often(server: &ApiServer, most: usize, resource: &str, fields: &Map<String, Value>) -> Option<String> {
    let has = |object: &Value| lacking(object, fields).is_none();
    let is_it = |change: &&Change| {
        let object = change.after.as_deref().or(change.before.as_deref());
        change.id.resource == resource && object.is_some_and(has)
    };
    let count = server.changes().iter().filter(is_it).count();
    (count > most).then(|| format!("{count} changes of {resource} with {fields:?}, and at most {most} are allowed"))
}

/// Whether a value has all that is wanted: others may add fields and items.
fn contains(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            // What is wanted as null must not be there.
            wanted.iter().all(|(field, value)| found.get(field).map_or(value.is_null(), |found| contains(found, value)))
        }
        (Value::Array(found), Value::Array(wanted)) => {
            wanted.len() <= found.len() && wanted.iter().all(|item| found.iter().any(|found| contains(found, item)))
        }
        (found, wanted) => found == wanted,
    }
}

/// A condition of a parent.
pub fn condition<'a>(parent: &'a Value, named: &str) -> Option<&'a Value> {
    let mut conditions = parent.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    conditions.find(|condition| text(condition, "/type") == named)
}

/// Whether a Doll or a Mask is ready as it is now.
pub fn is_ready(object: &Value) -> bool {
    object.pointer("/status/observedGeneration") == object.pointer("/metadata/generation")
}

/// A Plugin of the cluster is not available: without its kind there would be no parents, and so no differences. Or its rollout is undecided
/// although the plugin was called for all parents.
fn plugin_problem(server: &ApiServer, operator: &Operator) -> Option<String> {
    let plugin = server.object(&Id::new("plugins.windlass.dev", "", operator.name))?;
    let available = condition(plugin, "Available");
    if available.is_none_or(|condition| text(condition, "/status") != "True") {
        return Some(format!("Plugin {} is not available: {available:?}", operator.name));
    }
    let is_undecided = plugin.pointer("/status/rollout/decided") == Some(&false.into());
    let is_stuck = is_undecided && is_planned(server, operator);
    is_stuck.then(|| format!("the rollout of Plugin {} is undecided", operator.name))
}

/// Whether the plugin returns the children of each of its parents.
pub fn is_planned(server: &ApiServer, operator: &Operator) -> bool {
    server.objects_of(operator.parents).all(|(id, parent)| id.namespace != HOST_NAMESPACE && !fails(parent))
}

fn failure_problem(id: &Id, parent: &Value) -> Option<String> {
    let status = condition(parent, "Ready").map(|ready| text(ready, "/status"));
    (status != Some("False")).then(|| format!("{id}: the plugin fails, and Ready is {status:?}"))
}

fn status_problem(id: &Id, parent: &Value, taken: &[(Id, String)]) -> Option<String> {
    let is_occupied = !taken.is_empty();
    let Some(ready) = condition(parent, "Ready") else { return Some(format!("{id} has no condition Ready")) };
    let generation = parent.pointer("/metadata/generation");
    let observed =
        if is_occupied { ready.get("observedGeneration") } else { parent.pointer("/status/observedGeneration") };
    if observed != generation {
        return Some(format!("{id}: the status is of generation {observed:?}, not {generation:?}"));
    }
    for other in ["Stalled", "Reconciling"] {
        if !is_occupied && condition(parent, other).is_some_and(|condition| text(condition, "/status") == "True") {
            return Some(format!("{id}: {other} is still True"));
        }
    }
    let (status, reason) = (text(ready, "/status"), text(ready, "/reason"));
    let message = text(ready, "/message");
    let expected = if is_occupied { "False" } else { "True" };
    // A user has to know whose object it is.
    let is_told = |(child, owner): &(Id, String)| !message.contains(&child.name) || message.contains(owner);
    let is_told = reason != "Conflict" || taken.iter().all(is_told);
    (status != expected || !is_told).then(|| format!("{id}: Ready is {status} ({reason}): {message}"))
}

/// The writes after a place of the log that are no renewal of a Lease.
pub fn written_in_steady_state(server: &ApiServer, begin: usize) -> Vec<String> {
    // A call that traps is tried again now and then, and reported.
    if OPERATORS.iter().flat_map(|operator| server.objects_of(operator.parents)).any(|(_, parent)| traps(parent)) {
        return Vec::new();
    }
    let changes = server.changes().get(begin..).unwrap_or_default();
    let is_noted = |change: &&Change| !change.id.resource.starts_with("leases");
    changes.iter().filter(is_noted).map(|change| format!("written in the steady state: {}", change.id)).collect()
}
