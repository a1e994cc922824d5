//! Children and kinds for the scripts.

use serde_json::{Value, json};
use windlass_e2e::Env;

/// A `ConfigMap` with a value.
pub fn config_map(name: &str, value: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "value": value } })
}

/// `ConfigMaps` `<parent>-0` and so on.
pub fn config_maps(count: usize, value: &str) -> Vec<Value> {
    (0..count).map(|at| config_map(&format!("${{name}}-{at}"), value)).collect()
}

/// A Secret with a value.
pub fn secret(name: &str, value: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "stringData": { "value": value } })
}

/// A Pod of an image.
pub fn pod(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": { "containers": [{ "name": "main", "image": image }] },
    })
}

/// A Deployment of an image; without replicas the API server and others decide.
pub fn deployment(name: &str, image: &str, replicas: Option<u32>) -> Value {
    let mut deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "main", "image": image }] },
            },
        },
    });
    if let Some(replicas) = replicas {
        deployment["spec"]["replicas"] = replicas.into();
    }
    deployment
}

/// A Service on a port.
pub fn service(name: &str, port: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": name },
        "spec": { "ports": [{ "name": "main", "port": port }] },
    })
}

/// A Job that ends well as soon as it runs.
pub fn job(name: &str) -> Value {
    let container = json!({ "name": "main", "image": "clean:1" });
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name },
        "spec": { "template": { "spec": { "restartPolicy": "Never", "containers": [container] } } },
    })
}

/// A `Doll` or `Mask` with a value.
pub fn toy(kind: &str, name: &str, value: &str) -> Value {
    json!({ "apiVersion": "puppets.example/v1", "kind": kind, "metadata": { "name": name }, "spec": { "value": value } })
}

/// A requirement of one `ConfigMap`.
pub fn needs(id: &str, name: &str) -> Value {
    json!({ "id": id, "apiVersion": "v1", "kind": "ConfigMap", "name": name })
}

/// Serves the kinds that `puppet-rolling` owns.
pub fn serve_toys(env: &Env) {
    env.serve_kind("Doll", "dolls.puppets.example");
    env.serve_kind("Mask", "masks.puppets.example");
}
