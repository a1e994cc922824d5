//! The kinds of the histories, and where they are served.

use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    ConfigMap,
    Secret,
    /// A custom kind with a status subresource.
    Part,
    /// Namespaces beside that of the history, whose names begin with its name.
    Namespace,
    /// The namespace of the history.
    Home,
}

/// The kinds that are listed and watched.
pub const LISTED: [Kind; 4] = [Kind::ConfigMap, Kind::Secret, Kind::Part, Kind::Namespace];

impl Kind {
    pub fn api_version(self) -> &'static str {
        if self == Self::Part { "example.com/v1" } else { "v1" }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::Part => "Part",
            Self::Namespace | Self::Home => "Namespace",
        }
    }

    pub fn is_namespaced(self) -> bool {
        !matches!(self, Self::Namespace | Self::Home)
    }

    /// The path of its collection in a namespace, or in all.
    pub fn collection(self, namespace: Option<&str>) -> String {
        let root = if self == Self::Part { "/apis/example.com/v1" } else { "/api/v1" };
        let plural = self.name().to_lowercase() + "s";
        match namespace.filter(|_| self.is_namespaced()) {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
            None => format!("{root}/{plural}"),
        }
    }
}

/// The definition of the custom kind.
pub fn definition() -> Value {
    let (text, number) = (json!({"type": "string"}), json!({"type": "integer"}));
    let spec = json!({"type": "object", "properties": {"size": number, "color": text}});
    let status = json!({"type": "object", "properties": {"phase": text, "count": number}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "parts.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Part", "listKind": "PartList", "plural": "parts", "singular": "part"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
            }],
        },
    })
}
