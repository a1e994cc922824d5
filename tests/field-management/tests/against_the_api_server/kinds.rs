//! The kinds of the histories: where the API server serves them, their shapes, and the defaults that it sets.

use serde_json::{Value, json};
use windlass_field_management::{Field, Shape, each, fill, set_defaults, shape_of};

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

    fn group(self) -> &'static str {
        self.api_version().split_once('/').map_or("", |(group, _)| group)
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
        let shape = shape_of(self.group(), &self.name());
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
        if self != Self::Widget {
            return set_defaults(self.group(), &self.name(), object);
        }
        if let Some(spec) = object.get_mut("spec") {
            each(spec, "ports", |port| fill(port, &json!({"protocol": "TCP"})));
        }
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
