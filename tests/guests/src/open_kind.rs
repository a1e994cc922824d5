//! The CRD of a kind of parents whose spec and status may have any fields.

use serde_json::json;

/// A kind of parents in JSON.
pub fn definition(kind: &str) -> Vec<u8> {
    let singular = kind.to_lowercase();
    let plural = format!("{singular}s");
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut status = any.clone();
    status["properties"] = json!({
        "observedGeneration": {"type": "integer", "format": "int64"},
        "conditions": {
            "type": "array", "items": any, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
        },
    });
    status["properties"]["conditions"]["items"]["required"] = json!(["type"]);
    status["properties"]["conditions"]["items"]["properties"] = json!({"type": {"type": "string"}});
    let schema = json!({"type": "object", "properties": {"spec": any, "status": status}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.puppets.example")},
        "spec": {
            "group": "puppets.example", "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": singular},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}},
            }],
        },
    })
    .to_string()
    .into_bytes()
}
