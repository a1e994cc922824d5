//! The children of a namespace, without fields that differ between two equal runs.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_e2e::text;

/// Every kind of child.
pub const RESOURCES: &str = "pods,secrets,persistentvolumeclaims,services,deployments,ingresses,\
    horizontalpodautoscalers,networkpolicies,resourcequotas,limitranges,configmaps,jobs";

/// Children by kind and name.
pub type Children = BTreeMap<String, Value>;

/// Whether the host made this object: a Deployment's Pods carry its labels, but have another controller.
pub fn is_child(object: &Value) -> bool {
    !text(object, "/metadata/labels/windlass.dev~1plugin").is_empty()
        && !["ReplicaSet", "Job"].contains(&text(object, "/metadata/ownerReferences/0/kind").as_str())
}

/// The children among these objects: names, labels, owners and specs. `parent` is the parent's uid (empty if there was
/// none), and `namespace` is its namespace.
pub fn children(objects: &[Value], parent: &str, namespace: &str) -> Children {
    let mut children = Children::new();
    for object in objects.iter().filter(|object| is_child(object)) {
        let neutral = |text: &str| {
            let text = text.replace(namespace, "*namespace*");
            if parent.is_empty() { text } else { text.replace(parent, "*parent*") }
        };
        let key = format!("{} {}", text(object, "/kind"), text(object, "/metadata/name"));
        let child = normalized(object).to_string();
        children.insert(neutral(&key), serde_json::from_str(&neutral(&child)).expect("JSON"));
    }
    children
}

fn normalized(object: &Value) -> Value {
    let mut labels = object["metadata"]["labels"].clone();
    if let Some(labels) = labels.as_object_mut() {
        // A Pod gets these labels from its node.
        labels.retain(|key, _| !key.starts_with("topology.kubernetes.io/"));
    }
    let owners: Vec<_> = object["metadata"]["ownerReferences"].as_array().into_iter().flatten().collect();
    let owners: Vec<_> = owners.iter().map(|owner| owner["uid"].clone()).collect();
    let mut spec = object["spec"].clone();
    if let Some(spec) = spec.as_object_mut() {
        // The cluster chooses these.
        for chosen in ["clusterIP", "clusterIPs", "nodeName", "volumeName", "healthCheckNodePort"] {
            spec.remove(chosen);
        }
    }
    let is_service_account_token = |object: &Value| text(object, "/name").starts_with("kube-api-access");
    if let Some(volumes) = spec["volumes"].as_array_mut() {
        volumes.retain(|volume| !is_service_account_token(volume));
    }
    for container in spec["containers"].as_array_mut().into_iter().flatten() {
        if let Some(mounts) = container["volumeMounts"].as_array_mut() {
            mounts.retain(|mount| !is_service_account_token(mount));
        }
    }
    // A generated value differs between runs, but must not change within a run ([`crate::life::Run`]).
    let is_generated = object["kind"] == "Secret";
    let data = if is_generated {
        json!(object["data"].as_object().map(|data| data.keys().collect::<Vec<_>>()))
    } else {
        object["data"].clone()
    };
    json!({ "labels": labels, "owners": owners, "spec": spec, "data": data })
}

/// The differences, in readable form.
pub fn differences(expected: &Children, found: &Children) -> Vec<String> {
    let mut differences = Vec::new();
    for (key, child) in expected {
        match found.get(key) {
            None => differences.push(format!("lost: {key}")),
            Some(found) if found != child => differences.push(format!("differs: {key}: {found} is not {child}")),
            Some(_) => {}
        }
    }
    differences.extend(found.keys().filter(|key| !expected.contains_key(*key)).map(|key| format!("left over: {key}")));
    differences
}
