//! The desired children.

use windlass_plugin::{Request, Value, json};

use crate::{MyApp, MyAppSpec};

/// The labels of all children. A Deployment's selector is immutable, so they never change.
fn labels(request: &Request<MyApp>) -> Value {
    json!({ "app": request.name(), "managed-by": "windlass" })
}

pub(crate) fn deployment(request: &Request<MyApp>) -> Value {
    let MyAppSpec { image, replicas, port, resources, env, .. } = &request.spec;
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": request.name(), "labels": labels(request) },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": request.name() } },
            "template": {
                "metadata": { "labels": labels(request) },
                "spec": {
                    "containers": [{
                        "name": "app",
                        "image": image,
                        "ports": [{ "name": "http", "containerPort": port }],
                        "env": env,
                        "resources": { "requests": resources },
                    }],
                },
            },
        },
    })
}

pub(crate) fn service(request: &Request<MyApp>) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": request.name(), "labels": labels(request) },
        "spec": {
            "type": "ClusterIP",
            "selector": { "app": request.name() },
            "ports": [{ "name": "http", "port": request.spec.port, "targetPort": "http" }],
        },
    })
}

pub(crate) fn ingress(request: &Request<MyApp>) -> Option<Value> {
    let host = request.spec.ingress_host.as_ref()?;
    Some(json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": { "name": request.name(), "labels": labels(request) },
        "spec": {
            "rules": [{
                "host": host,
                "http": {
                    "paths": [{
                        "path": "/",
                        "pathType": "Prefix",
                        "backend": { "service": { "name": request.name(), "port": { "name": "http" } } },
                    }],
                },
            }],
        },
    }))
}
