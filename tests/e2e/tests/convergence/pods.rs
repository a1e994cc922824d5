//! Random templates of Pods.

use serde_json::{Value, json};

use super::choices::{items, merge, one, some, without};

fn probe() -> Value {
    let handler = one(vec![
        json!({ "httpGet": { "port": 80 } }),
        json!({ "httpGet": { "port": "web", "path": "/live", "scheme": "HTTPS" } }),
        json!({ "tcpSocket": { "port": 80 } }),
        json!({ "exec": { "command": ["true"] } }),
        json!({ "grpc": { "port": 80 } }),
    ]);
    let times = some(vec![("periodSeconds", 5.into()), ("timeoutSeconds", 2.into()), ("failureThreshold", 9.into())]);
    merge(handler, times)
}

fn env() -> Value {
    let mut variables = Vec::new();
    for name in ["A", "B", "C"] {
        let value = one(vec![
            json!({ "value": "1" }),
            json!({ "value": "" }),
            json!({}),
            json!({ "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }),
            json!({ "valueFrom": { "configMapKeyRef": { "name": "c", "key": "k" } } }),
            json!({ "valueFrom": { "secretKeyRef": { "name": "s", "key": "k", "optional": true } } }),
            json!({ "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu" } } }),
        ]);
        variables.push(merge(json!({ "name": name }), value));
    }
    items(variables)
}

fn ports() -> Value {
    items(vec![
        json!({ "containerPort": 80, "name": "web" }),
        json!({ "containerPort": 53 }),
        json!({ "containerPort": 53, "protocol": "UDP" }),
        json!({ "containerPort": 443 }),
    ])
}

fn container(name: &str) -> Value {
    let image = one([
        "a:1",
        "a:2",
        "a:latest",
        "a",
        "b@sha256:0000000000000000000000000000000000000000000000000000000000000000",
    ]
    .map(Into::into)
    .into());
    let (env, ports, liveness, readiness) = (env(), ports(), probe(), probe());
    let policy = one(["Always", "IfNotPresent", "Never"].map(Into::into).into());
    let resources = one(vec![
        json!({}),
        json!({ "limits": { "cpu": "1000m", "memory": "1Gi" } }),
        json!({ "requests": { "cpu": "0.5" }, "limits": { "cpu": 1 } }),
    ]);
    let mounts = items(vec![
        json!({ "name": "v", "mountPath": "/v" }),
        json!({ "name": "v", "mountPath": "/w", "readOnly": true }),
        json!({ "name": "v", "mountPath": "/x", "subPath": "x" }),
    ]);
    let lifecycle = one(vec![
        json!({ "preStop": { "exec": { "command": ["true"] } } }),
        json!({ "preStop": { "httpGet": { "port": 1 } } }),
        json!({ "postStart": { "httpGet": { "port": 1, "path": "/", "scheme": "HTTP" } } }),
    ]);
    let security = one(vec![
        json!({}),
        json!({ "privileged": false }),
        json!({ "runAsUser": 1, "capabilities": { "drop": ["ALL"] } }),
    ]);
    merge(
        json!({ "name": name, "image": image }),
        some(vec![
            ("imagePullPolicy", policy),
            ("env", env),
            ("ports", ports),
            ("livenessProbe", liveness),
            ("readinessProbe", readiness),
            ("resources", resources),
            ("volumeMounts", mounts),
            ("lifecycle", lifecycle),
            ("securityContext", security),
            ("terminationMessagePolicy", "FallbackToLogsOnError".into()),
            ("args", json!(["x"])),
            ("command", json!([])),
            ("tty", false.into()),
        ]),
    )
}

fn volume() -> Value {
    let source = one(vec![
        json!({ "emptyDir": {} }),
        json!({ "emptyDir": { "medium": "Memory" } }),
        json!({ "configMap": { "name": "c" } }),
        json!({ "configMap": { "name": "c", "defaultMode": 256, "items": [{ "key": "k", "path": "p" }] } }),
        json!({ "secret": { "secretName": "s" } }),
        json!({ "hostPath": { "path": "/" } }),
        json!({ "hostPath": { "path": "/", "type": "Directory" } }),
        json!({ "projected": { "sources": [{ "serviceAccountToken": { "path": "t" } }, { "configMap": { "name": "c" } }] } }),
        json!({ "downwardAPI": { "items": [{ "path": "n", "fieldRef": { "fieldPath": "metadata.name" } }] } }),
        json!({ "iscsi": { "targetPortal": "p", "iqn": "iqn.2001-04.com.example:x", "lun": 0 } }),
        json!({ "persistentVolumeClaim": { "claimName": "p" } }),
        json!({ "ephemeral": { "volumeClaimTemplate": { "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } } } }),
    ]);
    merge(json!({ "name": "v" }), source)
}

/// The template of a workload's Pods. Jobs need a restart policy.
pub fn template(restart_policy: Option<&str>) -> Value {
    let mut containers = vec![container("one")];
    if fastrand::bool() {
        let at = fastrand::usize(..=1);
        let second = container("two");
        containers.insert(at, json!(merge(second, json!({ "ports": [] }))));
    }
    let spread = json!([{ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": { "matchLabels": { "app": "x" } } }]);
    let (init, tolerations) = (
        container("init"),
        items(vec![
            json!({ "key": "a", "operator": "Exists" }),
            json!({ "effect": "NoSchedule", "key": "b", "value": "c" }),
        ]),
    );
    let init = json!([without(init, &["livenessProbe", "readinessProbe", "lifecycle"])]);
    let dns = one(["ClusterFirst", "Default"].map(Into::into).into());
    let security = one(vec![json!({}), json!({ "runAsNonRoot": true }), json!({ "fsGroup": 1, "sysctls": [] })]);
    let rest = some(vec![
        ("initContainers", init),
        ("serviceAccountName", "other".into()),
        ("hostNetwork", true.into()),
        ("dnsPolicy", dns),
        ("terminationGracePeriodSeconds", 5.into()),
        ("tolerations", tolerations),
        ("nodeSelector", json!({ "disk": "ssd", "empty": "" })),
        ("topologySpreadConstraints", spread),
        ("securityContext", security),
        ("schedulerName", "other".into()),
        ("automountServiceAccountToken", false.into()),
        ("enableServiceLinks", false.into()),
        ("hostAliases", json!([{ "ip": "1.1.1.1", "hostnames": ["a"] }])),
        ("imagePullSecrets", json!([{ "name": "pull" }])),
        ("priorityClassName", "system-node-critical".into()),
    ]);
    let mut spec = merge(json!({ "containers": containers, "volumes": [volume()] }), rest);
    if spec["hostNetwork"] == true {
        // Two containers may not use one port of the node.
        for list in ["containers", "initContainers"] {
            for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                *container = without(container.take(), &["ports"]);
            }
        }
    }
    if let Some(policy) = restart_policy {
        spec["restartPolicy"] = policy.into();
    }
    json!({ "metadata": { "labels": { "app": "x" } }, "spec": spec })
}
