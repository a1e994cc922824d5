//! The kinds of the histories: where the API server serves them, their shapes, and the defaults that it sets.

use serde_json::{Value, json};
use windlass_field_management::{Field, Shape, shape_of};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    ConfigMap,
    Secret,
    ServiceAccount,
    Lease,
    Event,
    Service,
    Deployment,
    /// A custom kind whose schema declares fields of all kinds.
    Widget,
    /// A custom kind whose schema declares none, without a status subresource.
    Gadget,
}

/// The custom kinds are the most general.
pub const KINDS: [Kind; 12] = [
    Kind::ConfigMap,
    Kind::Secret,
    Kind::ServiceAccount,
    Kind::Lease,
    Kind::Event,
    Kind::Service,
    Kind::Service,
    Kind::Deployment,
    Kind::Deployment,
    Kind::Widget,
    Kind::Widget,
    Kind::Gadget,
];

impl Kind {
    pub fn api_version(self) -> &'static str {
        match self {
            Self::ConfigMap | Self::Secret | Self::ServiceAccount | Self::Event | Self::Service => "v1",
            Self::Lease => "coordination.k8s.io/v1",
            Self::Deployment => "apps/v1",
            Self::Widget | Self::Gadget => "example.com/v1",
        }
    }

    pub fn name(self) -> String {
        format!("{self:?}")
    }

    pub fn url(self) -> String {
        let version = self.api_version();
        let root = if version == "v1" { "/api" } else { "/apis" };
        format!("{root}/{version}/namespaces/default/{}s", self.name().to_lowercase())
    }

    pub fn has_status(self) -> bool {
        matches!(self, Self::Service | Self::Deployment | Self::Widget)
    }

    pub fn shape(self) -> Shape {
        let group = self.api_version().split_once('/').map_or("", |(group, _)| group);
        let shape = shape_of(group, &self.name());
        let ports = Field::ListByKeys {
            keys: vec![("port".into(), None), ("protocol".into(), Some("TCP".into()))],
            item: Box::new(Field::structure()),
        };
        match self {
            Self::Widget => shape
                .with("spec.tags", Field::Set)
                .with("spec.items", Field::list_by_keys(&["name"]))
                .with("spec.items.labels", Field::Map(Box::new(Field::Inferred)))
                .with("spec.ports", ports)
                .with("spec.map", Field::Map(Box::new(Field::Inferred)))
                .with("spec.whole", Field::Atomic)
                .with("spec.open", Field::Untyped)
                .with("status.conditions", Field::list_by_keys(&["type"])),
            Self::Gadget => shape.without_status().with("spec", Field::Untyped).with("status", Field::Untyped),
            _ => shape,
        }
    }

    /// Sets the defaults that the API server sets.
    pub fn set_defaults(self, object: &mut Value) {
        match self {
            Self::Widget => each(&mut object["spec"], "ports", |port| fill(port, &json!({"protocol": "TCP"}))),
            Self::Service => {
                each(&mut object["spec"], "ports", |port| {
                    let number = port["port"].clone();
                    fill(port, &json!({"protocol": "TCP", "targetPort": number}));
                });
                let spec = json!({"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster"});
                fill(&mut object["spec"], &spec);
                if object["spec"]["sessionAffinity"] == "ClientIP" {
                    let timeout = json!({"clientIP": {"timeoutSeconds": 10800}});
                    fill(&mut object["spec"], &json!({"sessionAffinityConfig": timeout}));
                } else if let Some(spec) = object["spec"].as_object_mut() {
                    spec.remove("sessionAffinityConfig");
                }
            }
            Self::Deployment => {
                let rolling = json!({"maxUnavailable": "25%", "maxSurge": "25%"});
                let strategy = json!({"type": "RollingUpdate"});
                fill(
                    &mut object["spec"],
                    &json!({"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600}),
                );
                fill(&mut object["spec"]["strategy"], &strategy);
                if object["spec"]["strategy"]["type"] == "RollingUpdate" {
                    fill(&mut object["spec"]["strategy"], &json!({"rollingUpdate": {}}));
                    fill(&mut object["spec"]["strategy"]["rollingUpdate"], &rolling);
                }
                pod_defaults(&mut object["spec"]["template"]["spec"]);
            }
            Self::Secret => fill(object, &json!({"type": "Opaque"})),
            Self::ConfigMap | Self::ServiceAccount | Self::Lease | Self::Event | Self::Gadget => {}
        }
        if self == Self::Widget && object["spec"].is_null() {
            object.as_object_mut().expect("an object").remove("spec");
        }
    }
}

fn pod_defaults(spec: &mut Value) {
    let defaults = json!({"restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "securityContext": {}, "schedulerName": "default-scheduler"});
    fill(spec, &defaults);
    for containers in ["containers", "initContainers"] {
        each(spec, containers, |container| {
            let tag = container["image"].as_str().unwrap_or_default().contains(':');
            let defaults = json!({"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                "imagePullPolicy": if tag { "IfNotPresent" } else { "Always" }});
            fill(container, &defaults);
            each(container, "ports", |port| fill(port, &json!({"protocol": "TCP"})));
            each(container, "env", |variable| {
                if let Some(reference) = variable.pointer_mut("/valueFrom/fieldRef") {
                    fill(reference, &json!({"apiVersion": "v1"}));
                }
            });
        });
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

fn each(object: &mut Value, list: &str, mut change: impl FnMut(&mut Value)) {
    for item in object.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
        change(item);
    }
}

fn fill(object: &mut Value, defaults: &Value) {
    let Value::Object(object) = object else { return };
    for (name, value) in defaults.as_object().into_iter().flatten() {
        object.entry(name.clone()).or_insert_with(|| value.clone());
    }
}

/// The definitions of the custom kinds.
pub fn definitions() -> [Value; 2] {
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let (text, number) = (json!({"type": "string"}), json!({"type": "integer"}));
    let map = json!({"type": "object", "additionalProperties": text});
    let keyed = |keys: Value, item: Value| {
        let (list, keys_name) = ("x-kubernetes-list-type", "x-kubernetes-list-map-keys");
        json!({"type": "array", list: "map", keys_name: keys, "items": item})
    };
    let mut item =
        object(json!({"name": text, "value": number, "labels": map, "inner": object(json!({"a": text, "b": text}))}));
    item["required"] = json!(["name"]);
    let mut port = object(json!({"port": number, "protocol": {"type": "string", "default": "TCP"}, "name": text}));
    port["required"] = json!(["port"]);
    let mut condition = object(json!({"type": text, "status": text, "reason": text}));
    condition["required"] = json!(["type"]);
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let spec = object(json!({
        "size": number, "color": text,
        "list": {"type": "array", "items": text},
        "tags": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
        "items": keyed(json!(["name"]), item),
        "ports": keyed(json!(["port", "protocol"]), port),
        "map": map,
        "whole": {"type": "object", "additionalProperties": text, "x-kubernetes-map-type": "atomic"},
        "nested": object(json!({"a": text, "b": object(json!({"c": number}))})),
        "open": open,
    }));
    let status = object(json!({"phase": text, "count": number, "conditions": keyed(json!(["type"]), condition)}));
    [
        definition("widget", &object(json!({"spec": spec, "status": status})), &json!({"status": {}})),
        definition("gadget", &object(json!({"spec": open, "status": open})), &json!({})),
    ]
}

fn definition(name: &str, schema: &Value, subresources: &Value) -> Value {
    let kind = if name == "widget" { "Widget" } else { "Gadget" };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{name}s.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": kind, "plural": format!("{name}s"), "singular": name},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": subresources}],
        },
    })
}
