//! The desired children. `Response` drops fields that are null, so an `Option` is an optional field.

use windlass_plugin::{Request, Value, json};

use crate::{
    Application, ApplicationSpec,
    scale::Scale,
    spec::{Claim, Probe, SecurityContext, ServiceType},
};

/// The labels of all children. A Deployment's selector is immutable, so they never change.
fn labels(request: &Request<Application>) -> Value {
    json!({ "app": request.name(), "managed-by": "windlass" })
}

fn metadata(request: &Request<Application>) -> Value {
    json!({ "name": request.name(), "labels": labels(request) })
}

/// A list, or none if it is empty.
fn list<T>(items: impl IntoIterator<Item = T>) -> Option<Vec<T>> {
    let items: Vec<_> = items.into_iter().collect();
    (!items.is_empty()).then_some(items)
}

pub(crate) fn claim_name(application: &str, claim: &str) -> String {
    format!("{application}-{claim}")
}

pub(crate) fn claim(request: &Request<Application>, claim: &Claim) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": { "name": claim_name(request.name(), &claim.name), "labels": labels(request) },
        "spec": {
            "accessModes": claim.access_modes,
            "resources": { "requests": { "storage": claim.size } },
            "storageClassName": claim.storage_class_name,
        },
    })
}

pub(crate) fn deployment(request: &Request<Application>, scale: Scale) -> Value {
    // A new Pod would wait forever for a volume that the old Pod holds.
    let is_held = request.spec.storage.persistent_volume_claims.iter().any(|claim| !claim.is_shared());
    let one_by_one = || json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 0, "maxUnavailable": 1 } });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": request.name(), "labels": labels(request), "annotations": scale.annotations() },
        "spec": {
            "replicas": scale.replicas(),
            "selector": { "matchLabels": { "app": request.name() } },
            "strategy": is_held.then(one_by_one),
            "template": { "metadata": { "labels": labels(request) }, "spec": pod(request) },
        },
    })
}

fn pod(request: &Request<Application>) -> Value {
    let ApplicationSpec { image, port, environment, resources, health_check, storage, security, .. } = &request.spec;
    let claims = &storage.persistent_volume_claims;
    let volume = |claim: &Claim| {
        let name = claim_name(request.name(), &claim.name);
        json!({ "name": claim.name, "persistentVolumeClaim": { "claimName": name } })
    };
    // The group that owns volumes is a field of the Pod, all others are the container's.
    let context = security.security_context.clone();
    let group = context.as_ref().and_then(|context| context.fs_group);
    let context = context.map(|context| SecurityContext { fs_group: None, ..context });
    json!({
        "containers": [{
            "name": "app",
            "image": image,
            "ports": [{ "name": "http", "containerPort": port }],
            "env": environment,
            "resources": resources,
            "livenessProbe": health_check.liveness_probe.as_ref().map(probe),
            "readinessProbe": health_check.readiness_probe.as_ref().map(probe),
            "volumeMounts": list(claims.iter().map(|claim| json!({ "name": claim.name, "mountPath": claim.path() }))),
            "securityContext": context,
        }],
        "securityContext": group.map(|group| json!({ "fsGroup": group })),
        "serviceAccountName": security.service_account,
        "imagePullSecrets": list(&security.image_pull_secrets),
        "volumes": list(claims.iter().map(volume)),
    })
}

/// A probe of the application's port, unless it names another one.
fn probe(probe: &Probe) -> Value {
    let mut value = json!(probe);
    if let (None, Some(Value::Object(get))) = (probe.http_get.port, value.get_mut("httpGet")) {
        get.insert("port".to_owned(), json!("http"));
    }
    value
}

pub(crate) fn service(request: &Request<Application>) -> Value {
    let network = &request.spec.network;
    let balancer = network.load_balancer.as_ref().filter(|_| network.service_type == ServiceType::LoadBalancer);
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(request),
        "spec": {
            "type": network.service_type,
            "selector": { "app": request.name() },
            "ports": [{ "name": "http", "port": request.spec.port, "targetPort": "http" }],
            "loadBalancerSourceRanges": balancer.and_then(|balancer| list(&balancer.source_ranges)),
        },
    })
}

pub(crate) fn autoscaler(request: &Request<Application>) -> Option<Value> {
    let scaling = request.spec.scaling.as_ref()?;
    let metric = |resource: &str, target: u32| {
        json!({
            "type": "Resource",
            "resource": { "name": resource, "target": { "type": "Utilization", "averageUtilization": target } },
        })
    };
    let cpu = scaling.target_cpu.map(|target| metric("cpu", target));
    let memory = scaling.target_memory.map(|target| metric("memory", target));
    Some(json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata(request),
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": request.name() },
            "minReplicas": scaling.min_replicas,
            "maxReplicas": scaling.max_replicas,
            "metrics": cpu.into_iter().chain(memory).collect::<Vec<_>>(),
        },
    }))
}

/// Lets every client reach the application's port, and no other port.
pub(crate) fn network_policy(request: &Request<Application>) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(request),
        "spec": {
            "podSelector": { "matchLabels": { "app": request.name() } },
            "policyTypes": ["Ingress"],
            "ingress": [{ "ports": [{ "protocol": "TCP", "port": "http" }] }],
        },
    })
}
