//! The defaults of built-in kinds: what the API server sets in an object when it decodes it, before it manages fields.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Sets the defaults of a kind, by its API group (empty for core): those of a Secret, a Service and a Deployment; of the latter, what
/// Deployments usually have.
pub fn set_defaults(group: &str, kind: &str, object: &mut Value) {
    match (group, kind) {
        ("", "Secret") => secret(object),
        ("", "Service") => object.get_mut("spec").map(service).unwrap_or_default(),
        ("apps", "Deployment") => object.get_mut("spec").map(deployment).unwrap_or_default(),
        _ => {}
    }
}

fn secret(secret: &mut Value) {
    let texts = secret.as_object_mut().and_then(|secret| secret.remove("stringData"));
    if let Some(Value::Object(texts)) = texts
        && !texts.is_empty()
    {
        fill(secret, &json!({"data": {}}));
        let data = secret.get_mut("data").and_then(Value::as_object_mut);
        let encoded = |text: &Value| STANDARD.encode(text.as_str().unwrap_or_default()).into();
        if let Some(data) = data {
            data.extend(texts.iter().map(|(key, text)| (key.clone(), encoded(text))));
        }
    }
    fill(secret, &json!({"type": "Opaque"}));
}

fn service(spec: &mut Value) {
    each(spec, "ports", |port| {
        let number = port["port"].clone();
        fill(port, &json!({"protocol": "TCP", "targetPort": number}));
    });
    fill(spec, &json!({"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster"}));
    if spec["sessionAffinity"] == "ClientIP" {
        fill(spec, &json!({"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}}));
    } else if let Some(spec) = spec.as_object_mut() {
        spec.remove("sessionAffinityConfig");
    }
}

fn deployment(spec: &mut Value) {
    let strategy = json!({"type": "RollingUpdate"});
    fill(
        spec,
        &json!({"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, "strategy": strategy}),
    );
    if let Some(own) = spec.get_mut("strategy") {
        fill(own, &strategy);
        if own.get("type") == strategy.get("type") {
            fill(own, &json!({"rollingUpdate": {}}));
        }
        if let Some(rolling) = own.get_mut("rollingUpdate") {
            fill(rolling, &json!({"maxUnavailable": "25%", "maxSurge": "25%"}));
        }
    }
    if let Some(pod) = spec.pointer_mut("/template/spec") {
        self::pod(pod);
    }
}

fn pod(spec: &mut Value) {
    let defaults = json!({"restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "securityContext": {}, "schedulerName": "default-scheduler"});
    fill(spec, &defaults);
    for containers in ["containers", "initContainers"] {
        each(spec, containers, container);
    }
    each(spec, "volumes", |volume| {
        if let Some(config_map) = volume.get_mut("configMap") {
            fill(config_map, &json!({"defaultMode": 420}));
        }
        if volume.as_object().is_some_and(|volume| volume.len() == 1) {
            volume["emptyDir"] = json!({});
        }
    });
}

fn container(container: &mut Value) {
    let has_tag = container["image"].as_str().unwrap_or_default().contains(':');
    let policy = if has_tag { "IfNotPresent" } else { "Always" };
    let defaults = json!({"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        "imagePullPolicy": policy});
    fill(container, &defaults);
    each(container, "ports", |port| fill(port, &json!({"protocol": "TCP"})));
    each(container, "env", |variable| {
        if let Some(reference) = variable.pointer_mut("/valueFrom/fieldRef") {
            fill(reference, &json!({"apiVersion": "v1"}));
        }
    });
}

/// Changes each item of a list.
pub fn each(object: &mut Value, list: &str, mut change: impl FnMut(&mut Value)) {
    for item in object.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
        change(item);
    }
}

/// Adds the fields that an object lacks.
pub fn fill(object: &mut Value, defaults: &Value) {
    let Value::Object(object) = object else { return };
    for (name, value) in defaults.as_object().into_iter().flatten() {
        object.entry(name.clone()).or_insert_with(|| value.clone());
    }
}
