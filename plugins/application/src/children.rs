//! What should exist.

use windlass_plugin::{Request, Value, json};

use crate::{
    Application, ApplicationSpec,
    scale::Scale,
    spec::{Claim, Probe, SecurityContext, ServiceType},
};

/// The Pods' labels select them, so they never change.
fn labels(request: &Request<Application>) -> Value {
    json!({ "app": request.name(), "managed-by": "windlass" })
}

fn metadata(request: &Request<Application>) -> Value {
    json!({ "name": request.name(), "labels": labels(request) })
}

pub(crate) fn claim_name(application: &str, claim: &str) -> String {
    format!("{application}-{claim}")
}

pub(crate) fn claim(request: &Request<Application>, claim: &Claim) -> Value {
    let mut spec = json!({
        "accessModes": claim.access_modes,
        "resources": { "requests": { "storage": claim.size } },
    });
    put(&mut spec, "storageClassName", claim.storage_class_name.as_ref().map(|class| json!(class)));
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": { "name": claim_name(request.name(), &claim.name), "labels": labels(request) },
        "spec": spec,
    })
}

/// Sets a field that is there.
fn put(object: &mut Value, field: &str, value: Option<Value>) {
    if let (Some(object), Some(value)) = (object.as_object_mut(), value) {
        object.insert(field.to_owned(), value);
    }
}

pub(crate) fn deployment(request: &Request<Application>, scale: Scale) -> Value {
    let mut metadata = metadata(request);
    put(&mut metadata, "annotations", scale.annotations());
    let mut spec = json!({
        "selector": { "matchLabels": { "app": request.name() } },
        "template": { "metadata": { "labels": labels(request) }, "spec": pod(request) },
    });
    put(&mut spec, "replicas", scale.replicas().map(|replicas| json!(replicas)));
    // A Pod that waits for a volume which the Pod before it holds would wait forever.
    let is_held = request.spec.storage.persistent_volume_claims.iter().any(|claim| !claim.is_shared());
    let one_by_one = || json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 0, "maxUnavailable": 1 } });
    put(&mut spec, "strategy", is_held.then(one_by_one));
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec })
}

fn pod(request: &Request<Application>) -> Value {
    let ApplicationSpec { image, port, environment, resources, health_check, storage, security, .. } = &request.spec;
    let claims = &storage.persistent_volume_claims;
    let mut container = json!({
        "name": "app",
        "image": image,
        "ports": [{ "name": "http", "containerPort": port }],
        "env": environment,
        "resources": resources,
    });
    put(&mut container, "livenessProbe", health_check.liveness_probe.as_ref().map(probe));
    put(&mut container, "readinessProbe", health_check.readiness_probe.as_ref().map(probe));
    let mounts: Vec<_> = claims.iter().map(|claim| json!({ "name": claim.name, "mountPath": claim.path() })).collect();
    put(&mut container, "volumeMounts", (!mounts.is_empty()).then(|| json!(mounts)));

    let mut pod = json!({});
    if let Some(context) = &security.security_context {
        // A group that owns volumes is the Pod's; all else is the container's as well.
        let SecurityContext { fs_group, .. } = context;
        let context = SecurityContext { fs_group: None, ..context.clone() };
        put(&mut container, "securityContext", Some(json!(context)));
        put(&mut pod, "securityContext", fs_group.map(|group| json!({ "fsGroup": group })));
    }
    put(&mut pod, "containers", Some(json!([container])));
    put(&mut pod, "serviceAccountName", security.service_account.as_ref().map(|account| json!(account)));
    let secrets = &security.image_pull_secrets;
    put(&mut pod, "imagePullSecrets", (!secrets.is_empty()).then(|| json!(secrets)));
    let volumes: Vec<_> = claims
        .iter()
        .map(|claim| {
            let name = claim_name(request.name(), &claim.name);
            json!({ "name": claim.name, "persistentVolumeClaim": { "claimName": name } })
        })
        .collect();
    put(&mut pod, "volumes", (!volumes.is_empty()).then(|| json!(volumes)));
    pod
}

fn probe(probe: &Probe) -> Value {
    let mut value = json!(probe);
    if let Some(get) = value.get_mut("httpGet").filter(|get| get.get("port").is_none()) {
        put(get, "port", Some(json!("http")));
    }
    value
}

pub(crate) fn service(request: &Request<Application>) -> Value {
    let network = &request.spec.network;
    let mut spec = json!({
        "type": network.service_type,
        "selector": { "app": request.name() },
        "ports": [{ "name": "http", "port": request.spec.port, "targetPort": "http" }],
    });
    let balancer = network.load_balancer.as_ref().filter(|_| network.service_type == ServiceType::LoadBalancer);
    let ranges = balancer.map(|balancer| &balancer.source_ranges).filter(|ranges| !ranges.is_empty());
    put(&mut spec, "loadBalancerSourceRanges", ranges.map(|ranges| json!(ranges)));
    json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata(request), "spec": spec })
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

/// Whoever it is may reach the port, and nothing else.
pub(crate) fn network_policy(request: &Request<Application>) -> Option<Value> {
    let policy = || {
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
    };
    request.spec.security.network_policy.then(policy)
}
