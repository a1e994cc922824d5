//! Random desired states of each kind: any of them is valid when it is created.

use serde_json::{Value, json};

use super::choices::{items, merge, one, some, without};
use super::pods::template;

/// A kind whose objects the histories change.
pub struct Kind {
    pub resource: &'static str,
    /// A desired state without a name.
    pub desired: fn() -> Value,
}

pub const KINDS: [Kind; 16] = [
    Kind { resource: "deployments.apps", desired: deployment },
    Kind { resource: "statefulsets.apps", desired: stateful_set },
    Kind { resource: "daemonsets.apps", desired: daemon_set },
    Kind { resource: "services", desired: service },
    Kind { resource: "ingresses.networking.k8s.io", desired: ingress },
    Kind { resource: "networkpolicies.networking.k8s.io", desired: network_policy },
    Kind { resource: "cronjobs.batch", desired: cron_job },
    Kind { resource: "horizontalpodautoscalers.autoscaling", desired: autoscaler },
    Kind { resource: "poddisruptionbudgets.policy", desired: disruption_budget },
    Kind { resource: "configmaps", desired: config_map },
    Kind { resource: "secrets", desired: secret },
    Kind { resource: "serviceaccounts", desired: service_account },
    Kind { resource: "roles.rbac.authorization.k8s.io", desired: role },
    Kind { resource: "rolebindings.rbac.authorization.k8s.io", desired: role_binding },
    Kind { resource: "gauges.convergence.example", desired: gauge },
    Kind { resource: "valves.convergence.example", desired: valve },
];

/// `ConfigMaps`.
pub const CONFIG_MAP: &Kind = &KINDS[9];

/// A custom kind whose objects the plugin recreates.
pub const RELAY: &Kind = &Kind { resource: "relays.convergence.example", desired: relay };

fn metadata() -> Value {
    json!({
        "labels": some(vec![("tier", "web".into()), ("empty", "".into())]),
        "annotations": some(vec![("convergence.example/note", "n".into()), ("convergence.example/team", "t".into())]),
    })
}

fn object((api_version, kind): (&str, &str), rest: Value) -> Value {
    merge(json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata() }), rest)
}

fn selector() -> Value {
    json!({ "matchLabels": { "app": "x" } })
}

fn deployment() -> Value {
    let strategy = one(vec![
        json!({ "type": "Recreate" }),
        json!({ "type": "RollingUpdate" }),
        json!({}),
        json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 2 } }),
        json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": "30%", "maxSurge": 0 } }),
        json!({ "rollingUpdate": { "maxUnavailable": 0 } }),
    ]);
    let rest = some(vec![
        ("replicas", fastrand::u8(..4).into()),
        ("strategy", strategy),
        ("minReadySeconds", 3.into()),
        ("revisionHistoryLimit", 3.into()),
        ("progressDeadlineSeconds", 60.into()),
        ("paused", fastrand::bool().into()),
    ]);
    let spec = merge(json!({ "selector": selector(), "template": template(None) }), rest);
    object(("apps/v1", "Deployment"), json!({ "spec": spec }))
}

fn stateful_set() -> Value {
    let strategy = one(vec![
        json!({ "type": "OnDelete" }),
        json!({ "type": "RollingUpdate" }),
        json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": 1 } }),
    ]);
    let retention = one(vec![json!({ "whenDeleted": "Delete" }), json!({ "whenScaled": "Delete" }), json!({})]);
    let rest = some(vec![
        ("replicas", fastrand::u8(..4).into()),
        ("updateStrategy", strategy),
        ("minReadySeconds", 3.into()),
        ("persistentVolumeClaimRetentionPolicy", retention),
        ("ordinals", json!({ "start": 1 })),
    ]);
    let claim = json!({ "metadata": { "name": "data" }, "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } });
    let fixed = json!({ "selector": selector(), "serviceName": "x", "volumeClaimTemplates": [claim], "template": template(None) });
    object(("apps/v1", "StatefulSet"), json!({ "spec": merge(fixed, rest) }))
}

fn daemon_set() -> Value {
    let strategy = one(vec![
        json!({ "type": "OnDelete" }),
        json!({ "type": "RollingUpdate" }),
        json!({ "rollingUpdate": { "maxUnavailable": 2 } }),
        json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 0, "maxSurge": 1 } }),
    ]);
    let rest = some(vec![("updateStrategy", strategy), ("minReadySeconds", 3.into())]);
    let fixed = json!({ "selector": selector(), "template": template(None) });
    object(("apps/v1", "DaemonSet"), json!({ "spec": merge(fixed, rest) }))
}

fn service() -> Value {
    let mut ports = vec![
        json!({ "name": "dns", "port": 53 }),
        json!({ "name": "dns-udp", "port": 53, "protocol": "UDP" }),
        json!({ "name": "web", "port": 80, "targetPort": "web" }),
    ];
    fastrand::shuffle(&mut ports);
    ports.truncate(fastrand::usize(1..=3));
    let affinity = one(vec![
        json!({ "sessionAffinity": "ClientIP" }),
        json!({ "sessionAffinity": "ClientIP", "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 5 } } }),
        json!({ "sessionAffinity": "None" }),
        json!({}),
    ]);
    let of_type = one(vec![
        json!({}),
        json!({ "type": "ClusterIP", "internalTrafficPolicy": "Local" }),
        json!({ "type": "NodePort" }),
        json!({ "type": "NodePort", "externalTrafficPolicy": "Local" }),
        json!({ "type": "LoadBalancer", "loadBalancerClass": "example.com/a" }),
        json!({ "type": "LoadBalancer", "externalTrafficPolicy": "Local", "allocateLoadBalancerNodePorts": false, "loadBalancerClass": "example.com/a" }),
        json!({ "type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.0/8"], "loadBalancerClass": "example.com/a" }),
        json!({ "type": "ExternalName", "externalName": "example.com" }),
    ]);
    let rest = some(vec![("publishNotReadyAddresses", true.into()), ("externalIPs", json!(["192.0.2.1"]))]);
    let spec = merge(merge(json!({ "ports": ports, "selector": { "app": "x" } }), of_type), merge(affinity, rest));
    object(("v1", "Service"), json!({ "spec": spec }))
}

fn ingress() -> Value {
    let backend = || {
        one(vec![
            json!({ "service": { "name": "x", "port": { "number": 80 } } }),
            json!({ "service": { "name": "x", "port": { "name": "web" } } }),
            json!({ "resource": { "apiGroup": "convergence.example", "kind": "Gauge", "name": "x" } }),
        ])
    };
    let (default, of_path) = (backend(), backend());
    let kind = one(vec!["Prefix".into(), "Exact".into(), "ImplementationSpecific".into()]);
    let rules = json!([{ "host": "example.com", "http": { "paths": [{ "path": "/", "pathType": kind, "backend": of_path }] } }]);
    let rest = some(vec![
        ("rules", rules),
        ("ingressClassName", "other".into()),
        ("tls", json!([{ "hosts": ["example.com"], "secretName": "t" }])),
    ]);
    object(("networking.k8s.io/v1", "Ingress"), json!({ "spec": merge(json!({ "defaultBackend": default }), rest) }))
}

fn network_policy() -> Value {
    let peer = || {
        one(vec![
            json!({ "podSelector": {} }),
            json!({ "namespaceSelector": { "matchLabels": { "a": "b" } } }),
            json!({ "ipBlock": { "cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"] } }),
        ])
    };
    let (from, to) = (peer(), peer());
    let types = one(vec![json!(["Ingress"]), json!(["Egress"]), json!(["Ingress", "Egress"])]);
    let rest = some(vec![
        ("ingress", json!([{ "from": [from], "ports": [{ "port": 53 }, { "port": "dns", "protocol": "UDP" }] }])),
        ("egress", json!([{ "to": [to] }])),
        ("policyTypes", types),
    ]);
    object(
        ("networking.k8s.io/v1", "NetworkPolicy"),
        json!({ "spec": merge(json!({ "podSelector": selector() }), rest) }),
    )
}

fn cron_job() -> Value {
    let template = template(Some("Never"));
    let job = some(vec![
        ("backoffLimit", 2.into()),
        ("parallelism", 2.into()),
        ("completionMode", "Indexed".into()),
        ("activeDeadlineSeconds", 100.into()),
        ("ttlSecondsAfterFinished", 100.into()),
    ]);
    let mut job = merge(json!({ "template": without(template, &["metadata"]) }), job);
    if job["completionMode"] == "Indexed" {
        job = merge(job, json!({ "completions": 2 }));
    }
    let concurrency = one(vec!["Allow".into(), "Forbid".into()]);
    let rest = some(vec![
        ("concurrencyPolicy", concurrency),
        ("suspend", fastrand::bool().into()),
        ("successfulJobsHistoryLimit", 1.into()),
        ("failedJobsHistoryLimit", 0.into()),
        ("startingDeadlineSeconds", 10.into()),
        ("timeZone", "Etc/UTC".into()),
    ]);
    let fixed = json!({ "schedule": "0 0 29 2 *", "jobTemplate": { "spec": job } });
    object(("batch/v1", "CronJob"), json!({ "spec": merge(fixed, rest) }))
}

fn autoscaler() -> Value {
    let metric = one(vec![
        json!({ "type": "Resource", "resource": { "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 50 } } }),
        json!({ "type": "Resource", "resource": { "name": "memory", "target": { "type": "AverageValue", "averageValue": "1Gi" } } }),
        json!({ "type": "Pods", "pods": { "metric": { "name": "m" }, "target": { "type": "AverageValue", "averageValue": "1" } } }),
    ]);
    let behavior = one(vec![
        json!({ "scaleDown": { "stabilizationWindowSeconds": 10 } }),
        json!({ "scaleUp": { "policies": [{ "type": "Pods", "value": 1, "periodSeconds": 5 }] } }),
        json!({ "scaleUp": { "selectPolicy": "Min" }, "scaleDown": { "selectPolicy": "Disabled" } }),
    ]);
    let rest = some(vec![("minReplicas", 2.into()), ("metrics", json!([metric])), ("behavior", behavior)]);
    let fixed =
        json!({ "maxReplicas": 5, "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "x" } });
    object(("autoscaling/v2", "HorizontalPodAutoscaler"), json!({ "spec": merge(fixed, rest) }))
}

fn disruption_budget() -> Value {
    let bound =
        one(vec![json!({ "minAvailable": 1 }), json!({ "maxUnavailable": "30%" }), json!({ "minAvailable": "50%" })]);
    let rest = some(vec![("unhealthyPodEvictionPolicy", "AlwaysAllow".into())]);
    let spec = merge(merge(json!({ "selector": selector() }), bound), rest);
    object(("policy/v1", "PodDisruptionBudget"), json!({ "spec": spec }))
}

fn config_map() -> Value {
    let data = some(vec![("a", "1".into()), ("b", "".into()), ("c", "3".into())]);
    let binary = some(vec![("x", "eA==".into()), ("y", "eQ==".into())]);
    let rest = some(vec![("data", data), ("binaryData", binary)]);
    object(("v1", "ConfigMap"), rest)
}

fn secret() -> Value {
    let data = some(vec![("a", "eA==".into()), ("b", "".into()), ("c", "eQ==".into())]);
    let text = some(vec![("a", "x".into()), ("d", "".into()), ("e", "e".into())]);
    let rest = some(vec![("data", data), ("stringData", text)]);
    object(("v1", "Secret"), rest)
}

fn service_account() -> Value {
    let secrets = items(vec![json!({ "name": "a" }), json!({ "name": "b" })]);
    let rest = some(vec![
        ("secrets", secrets.clone()),
        ("imagePullSecrets", secrets),
        ("automountServiceAccountToken", fastrand::bool().into()),
    ]);
    object(("v1", "ServiceAccount"), rest)
}

fn role() -> Value {
    let rules = items(vec![
        json!({ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"] }),
        json!({ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"], "resourceNames": ["a"] }),
    ]);
    object(("rbac.authorization.k8s.io/v1", "Role"), json!({ "rules": rules }))
}

fn role_binding() -> Value {
    let group = "rbac.authorization.k8s.io";
    let subjects = items(vec![
        json!({ "kind": "ServiceAccount", "name": "a", "namespace": "default" }),
        json!({ "kind": "User", "name": "u" }),
        json!({ "kind": "User", "name": "v", "apiGroup": group }),
        json!({ "kind": "Group", "name": "g" }),
    ]);
    let rest = some(vec![("subjects", subjects)]);
    let fixed = json!({ "roleRef": { "apiGroup": group, "kind": "Role", "name": "reader" } });
    object(("rbac.authorization.k8s.io/v1", "RoleBinding"), merge(fixed, rest))
}

fn gauge() -> Value {
    let ports = items(vec![
        json!({ "port": 53 }),
        json!({ "port": 53, "protocol": "UDP" }),
        json!({ "port": 80, "weight": 3 }),
    ]);
    let source =
        one(vec![json!({ "plain": { "text": "t" } }), json!({ "plain": {} }), json!({ "remote": { "url": "u" } })]);
    let unit = one(vec![json!({}), json!({ "name": "m" }), json!({ "name": "s", "factor": 2 })]);
    let rest = some(vec![
        ("ports", ports),
        ("source", source),
        ("unit", unit),
        ("size", fastrand::u8(..3).into()),
        ("tags", json!(["a", "b"])),
        ("levels", json!([{ "at": 1 }, { "at": 2, "colour": "red" }])),
        ("enabled", fastrand::bool().into()),
        ("text", "".into()),
    ]);
    object(("convergence.example/v1", "Gauge"), json!({ "spec": rest }))
}

fn valve() -> Value {
    let kept = some(vec![
        ("a", json!({ "b": 1 })),
        ("list", json!([1, { "c": 2 }])),
        ("empty", json!({})),
        ("zero", 0.into()),
    ]);
    let rest = some(vec![("free", kept), ("limit", one_of_both()), ("note", "n".into())]);
    object(("convergence.example/v1", "Valve"), json!({ "spec": rest }))
}

fn relay() -> Value {
    object(("convergence.example/v1", "Relay"), json!({ "spec": { "size": fastrand::u8(..200) } }))
}

fn one_of_both() -> Value {
    one(vec![5.into(), "50%".into()])
}

/// The CRDs of the custom kinds: with defaults, a list with keys (one of which has a default), a set, a list with a single owner, a union
/// whose rule refuses two members, and fields without a schema.
pub fn definitions() -> Vec<Value> {
    let string = || json!({ "type": "string" });
    let gauge = json!({ "type": "object", "default": {}, "properties": {
        "size": { "type": "integer", "default": 1 },
        "enabled": { "type": "boolean", "default": true },
        "text": string(),
        "tags": { "type": "array", "items": string(), "x-kubernetes-list-type": "set" },
        "levels": { "type": "array", "items": { "type": "object", "properties": {
            "at": { "type": "integer" }, "colour": { "type": "string", "default": "green" },
        } } },
        "ports": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": { "type": "object", "required": ["port", "protocol"], "properties": {
                "port": { "type": "integer" }, "protocol": { "type": "string", "default": "TCP" }, "weight": { "type": "integer", "default": 1 },
        } } },
        "unit": { "type": "object", "default": { "name": "kg" }, "properties": {
            "name": string(), "factor": { "type": "integer", "default": 1 },
        } },
        "source": { "type": "object", "properties": {
            "plain": { "type": "object", "properties": { "text": { "type": "string", "default": "none" } } },
            "remote": { "type": "object", "properties": { "url": string(), "retries": { "type": "integer", "default": 3 } } },
        }, "x-kubernetes-validations": [{ "rule": "!(has(self.plain) && has(self.remote))", "message": "plain or remote, not both" }] },
    } });
    let valve = json!({ "type": "object", "properties": {
        "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        "limit": { "x-kubernetes-int-or-string": true, "default": 1 },
        "note": string(),
    } });
    let relay = json!({ "type": "object", "properties": { "size": { "type": "integer" } } });
    [("gauge", "Gauge", gauge), ("valve", "Valve", valve), ("relay", "Relay", relay)].map(|(singular, kind, spec)| json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{singular}s.convergence.example") },
        "spec": { "group": "convergence.example", "scope": "Namespaced", "names": { "plural": format!("{singular}s"), "singular": singular, "kind": kind },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": spec } } } }] },
    })).into()
}
