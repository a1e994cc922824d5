//! The kinds of the histories, and where they are served.

use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    ConfigMap,
    Secret,
    /// A custom kind with a status subresource.
    Part,
    /// The same, cluster-scoped: its names begin with the name of the history's namespace.
    Whole,
    /// Namespaces beside that of the history, whose names begin with its name.
    Namespace,
    /// The namespace of the history.
    Home,
}

/// The kinds that are listed and watched.
pub const LISTED: [Kind; 4] = [Kind::ConfigMap, Kind::Secret, Kind::Part, Kind::Namespace];

impl Kind {
    pub fn api_version(self) -> &'static str {
        if matches!(self, Self::Part | Self::Whole) { "example.com/v1" } else { "v1" }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::Part => "Part",
            Self::Whole => "Whole",
            Self::Namespace | Self::Home => "Namespace",
        }
    }

    pub fn is_namespaced(self) -> bool {
        !matches!(self, Self::Whole | Self::Namespace | Self::Home)
    }

    pub fn plural(self) -> String {
        self.name().to_lowercase() + "s"
    }

    /// The path of its collection in a namespace, or in all.
    pub fn collection(self, namespace: Option<&str>) -> String {
        let root = if self.api_version() == "v1" { "/api/v1" } else { "/apis/example.com/v1" };
        let plural = self.plural();
        match namespace.filter(|_| self.is_namespaced()) {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
            None => format!("{root}/{plural}"),
        }
    }

    /// The path of an object.
    pub fn path(self, namespace: &str, name: &str) -> String {
        format!("{}/{name}", self.collection(Some(namespace)))
    }
}

/// The definitions of the custom kinds.
pub fn definitions() -> [Value; 2] {
    [definition(Kind::Part), definition(Kind::Whole)]
}

fn definition(kind: Kind) -> Value {
    let (text, number) = (json!({"type": "string"}), json!({"type": "integer"}));
    let spec = json!({"type": "object", "properties": {"size": number, "color": text}});
    let status = json!({"type": "object", "properties": {"phase": text, "count": number}});
    let (plural, singular) = (kind.plural(), kind.name().to_lowercase());
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": if kind.is_namespaced() { "Namespaced" } else { "Cluster" },
            "names": {"kind": kind.name(), "listKind": format!("{}List", kind.name()), "plural": plural, "singular": singular},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
            }],
        },
    })
}
