//! A parent and its live children as a cluster would have them: applies responses, and does what other controllers do.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};
use windlass_core::contract::UpdateStrategy;
use windlass_core::contract::declared_parent::text;
use windlass_core::object::names;
use windlass_core::value::difference::{Difference, differences};
use windlass_core::value::digest::Digest;
use windlass_core::value::json::parse;

use super::generate::remove;
use super::reply::{Child, Reply};
use crate::fields::set;

/// Seconds between two rounds.
const ROUND: u64 = 61;

/// 2026-01-01 00:00:00 UTC.
const START: u64 = 1_767_225_600;

/// A parent and its live children.
#[derive(Debug, Clone)]
pub struct World {
    /// The parent.
    pub parent: Value,
    /// The live children.
    pub live: Vec<Value>,
    /// The wall clock, in seconds since 1970.
    pub now: u64,
    revision: u64,
}

/// What a response changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// The first changed child, and how it changed.
    pub child: Option<String>,
    /// The first changed field of the status.
    pub status: Option<String>,
}

impl World {
    /// A parent without children.
    pub fn new(parent: Value) -> Self {
        Self { parent, live: Vec::new(), now: START, revision: 1000 }
    }

    /// A parent that owns these children.
    pub fn with_children(parent: Value, live: Vec<Value>) -> Self {
        Self { live, ..Self::new(parent) }
    }

    /// Gives the parent the content of another one, as a user's edit does.
    pub fn edit(&mut self, edited: &Value) {
        let before = std::mem::replace(&mut self.parent, edited.clone());
        remove(&mut self.parent, "/status");
        for name in ["status", "metadata"] {
            if let Some(kept) = before.get(name) {
                set(&mut self.parent, &[name], kept.clone());
            }
        }
        set(&mut self.parent, &["metadata", "generation"], 2);
        self.touch_parent();
    }

    /// Marks the parent as being deleted.
    pub fn delete(&mut self, finalizer: &str) {
        set(&mut self.parent, &["metadata", "deletionTimestamp"], timestamp(self.now));
        set(&mut self.parent, &["metadata", "finalizers"], vec![finalizer]);
        self.touch_parent();
    }

    /// Creates, changes and deletes children as the host does, and stores the status.
    pub fn apply(&mut self, reply: &Reply) -> Change {
        self.now += ROUND;
        let mut change = Change::default();
        let mut note = |what: String| {
            change.child.get_or_insert(what);
        };
        let places: HashMap<String, usize> =
            self.live.iter().enumerate().map(|(at, live)| (identity(live), at)).collect();
        for child in &reply.children {
            match places.get(&identity(&child.body)).copied() {
                None => {
                    note(format!("{} is created", child.name()));
                    let created = self.created(child);
                    self.live.push(created);
                }
                Some(at) => {
                    let Some(present) = self.live.get(at).cloned() else { continue };
                    let is_applied = applied(&present) == applied(&child.body);
                    if is_applied || child.update == UpdateStrategy::OnDelete {
                        continue;
                    }
                    note(format!("{} changes: {}", child.name(), difference(&present, &child.body)));
                    let changed = self.changed(&present, child);
                    if let Some(place) = self.live.get_mut(at) {
                        *place = changed;
                    }
                }
            }
        }
        let desired: HashSet<String> = reply.children.iter().map(|child| identity(&child.body)).collect();
        self.live.retain(|live| {
            let stays = is_retained(live) || reply.keeps(live) || desired.contains(&identity(live));
            if !stays {
                note(format!("{} is deleted", title(live)));
            }
            stays
        });
        if let Some(next) = &reply.next_status {
            let present = self.parent.get("status").cloned().unwrap_or_default();
            let status = |value: &Value| json!({"status": value});
            if let Some(Difference { path, .. }) = first_difference(&status(&present), &status(next)) {
                change.status = Some(path);
                set(&mut self.parent, &["status"], next.clone());
                self.touch_parent();
            }
        }
        change
    }

    /// Sets the statuses that the controllers of built-in kinds would set once all goes well. Returns whether one changed.
    pub fn play(&mut self) -> bool {
        let before = self.revision;
        for live in &mut self.live {
            if let Some(status) = healthy_status(live).filter(|status| live.get("status") != Some(status)) {
                self.revision += 1;
                set(live, &["status"], status);
                set(live, &["metadata", "resourceVersion"], self.revision.to_string());
            }
        }
        self.revision > before
    }

    /// Gives all objects another resource version, as a write that changes nothing else.
    pub fn touch(&mut self) {
        self.touch_parent();
        for live in &mut self.live {
            set(live, &["metadata", "resourceVersion"], self.revision.to_string());
        }
    }

    fn created(&mut self, child: &Child) -> Value {
        self.revision += 1;
        let mut live = child.body.clone();
        // The same child has the same UID in every world, so that responses of two worlds are comparable.
        let uid = Digest::of(child.name().as_bytes()).hex();
        let part = |from: usize, to: usize| uid.get(from..to).unwrap_or_default();
        let uid = format!("{}-{}-4{}-8{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32));
        set(&mut live, &["metadata", "uid"], uid);
        set(&mut live, &["metadata", "resourceVersion"], self.revision.to_string());
        set(&mut live, &["metadata", "generation"], 1);
        set(&mut live, &["metadata", "creationTimestamp"], timestamp(START));
        live
    }

    fn changed(&mut self, present: &Value, child: &Child) -> Value {
        let mut live = self.created(child);
        let is_recreated =
            matches!(child.update, UpdateStrategy::Recreate | UpdateStrategy::Rolling { recreate: true, .. });
        if !is_recreated {
            if let Some(status) = present.get("status") {
                set(&mut live, &["status"], status.clone());
            }
            let generation = present.pointer("/metadata/generation").and_then(Value::as_u64).unwrap_or(1);
            set(&mut live, &["metadata", "generation"], generation + 1);
        }
        live
    }

    fn touch_parent(&mut self) {
        self.revision += 1;
        set(&mut self.parent, &["metadata", "resourceVersion"], self.revision.to_string());
    }
}

/// Kind and name of an object, for messages.
pub fn title(object: &Value) -> String {
    format!("{} {}", text(object, "/kind"), text(object, "/metadata/name"))
}

/// Where two objects differ first, without the host's annotations.
pub fn difference(one: &Value, other: &Value) -> String {
    let (mut one, mut other) = (one.clone(), other.clone());
    for object in [&mut one, &mut other] {
        strip(object);
    }
    first_difference(&one, &other).map_or_else(
        || "the host's metadata".to_owned(),
        |Difference { path, old, new }| format!("{path} is {} and then {}", or_absent(old), or_absent(new)),
    )
}

/// One side of a difference, for messages.
pub fn or_absent(value: Option<String>) -> String {
    value.unwrap_or_else(|| "absent".to_owned())
}

/// Removes what the API server and the host add to an object.
pub fn strip(object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["uid", "resourceVersion", "generation", "creationTimestamp"] {
            metadata.remove(field);
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.retain(|name, _| !name.starts_with(names::ANNOTATION_PREFIX));
        }
    }
}

/// The first difference of two values.
pub fn first_difference(one: &Value, other: &Value) -> Option<Difference> {
    // What serde_json has parsed or built is valid, and not too deep.
    let parsed = |value: &Value| parse(value.to_string().as_bytes(), usize::MAX).ok();
    let mut first = differences(&parsed(one)?, &parsed(other)?, |_| false).into_iter().next()?;
    if first.path.is_empty() {
        "the whole value".clone_into(&mut first.path);
    }
    Some(first)
}

/// Group, kind, namespace and name of an object.
fn identity(object: &Value) -> String {
    let group = text(object, "/apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
    [group, text(object, "/kind"), text(object, "/metadata/namespace"), text(object, "/metadata/name")].join("/")
}

fn applied(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("annotations")?.get(names::ANNOTATION_APPLIED)
}

/// Whether an object outlives its parent.
pub fn is_retained(object: &Value) -> bool {
    let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object);
    annotations.is_some_and(|annotations| annotations.contains_key(names::ANNOTATION_RETAINED_FOR))
}

/// A time in RFC 3339.
pub fn timestamp(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or_default();
    jiff::Timestamp::from_second(seconds).unwrap_or_default().to_string()
}

/// The status of an object of a built-in kind that is well.
pub fn healthy_status(object: &Value) -> Option<Value> {
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": "Simulated", "lastTransitionTime": timestamp(START)});
    let replicas = object.pointer("/spec/replicas").cloned().unwrap_or_else(|| json!(1));
    let generation = object.pointer("/metadata/generation").cloned().unwrap_or_else(|| json!(1));
    let requests = || object.pointer("/spec/resources/requests").cloned().unwrap_or_else(|| Value::Object(Map::new()));
    let status = match object.get("kind").and_then(Value::as_str)? {
        "Pod" => json!({"phase": "Running", "podIP": "10.0.0.9", "conditions":
            [condition("Initialized"), condition("Ready"), condition("ContainersReady"), condition("PodScheduled")]}),
        "Deployment" | "ReplicaSet" | "StatefulSet" => json!({
            "observedGeneration": generation, "replicas": replicas, "readyReplicas": replicas,
            "updatedReplicas": replicas, "availableReplicas": replicas, "currentReplicas": replicas,
            "conditions": [condition("Available"), condition("Progressing")],
        }),
        "DaemonSet" => json!({"observedGeneration": generation, "desiredNumberScheduled": 1, "numberReady": 1}),
        "Job" => json!({"succeeded": 1, "conditions": [condition("Complete")]}),
        "PersistentVolumeClaim" => json!({"phase": "Bound", "capacity": requests()}),
        "Namespace" => json!({"phase": "Active"}),
        _ => return None,
    };
    Some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_in_a_field_whose_name_has_dots_and_slashes_has_both_values() {
        let labelled = |value: &str| json!({"metadata": {"labels": {"app.kubernetes.io/name": value}}});
        let found = difference(&labelled("a"), &labelled("b"));
        assert_eq!(found, r#"metadata.labels["app.kubernetes.io/name"] is "a" and then "b""#);
        assert_eq!(difference(&json!({"a": 1}), &json!({})), "a is 1 and then absent");
    }
}
