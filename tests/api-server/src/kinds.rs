//! The kinds that the model serves: built-in ones, and that of each CustomResourceDefinition.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_field_management::{Shape, shape_of};

use super::{ApiServer, Id};

/// A kind that the API server serves.
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
#[derive(Debug, Clone)]
pub struct Served {
    /// API group; empty for the core group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Kind, as in objects.
    pub kind: String,
    /// Plural name, as in paths.
    pub plural: String,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// Whether the status is written through a subresource.
    pub has_status: bool,
    /// Whether objects have a generation.
    pub has_generation: bool,
    /// Whether a PUT must say which version it replaces.
    pub needs_version: bool,
    /// Whether a CustomResourceDefinition defines it.
    pub is_custom: bool,
    /// How its fields merge.
    pub shape: Arc<Shape>,
    /// The schema of a custom resource, for its defaults; null for a built-in kind.
    pub schema: Arc<Value>,
}

impl Served {
    fn new(api_version: &str, kind: &str, plural: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let shape = Arc::new(shape_of(group, kind));
        let (group, version, kind) = (group.to_owned(), version.to_owned(), kind.to_owned());
        let plural = plural.to_owned();
        Self {
            group,
            version,
            kind,
            plural,
            namespaced: true,
            has_status: false,
            has_generation: false,
            needs_version: false,
            is_custom: false,
            shape,
            schema: Arc::default(),
        }
    }

    fn cluster(self) -> Self {
        Self { namespaced: false, ..self }
    }

    fn with_status(self) -> Self {
        Self { has_status: true, has_generation: true, ..self }
    }

    fn with_needed_version(self) -> Self {
        Self { needs_version: true, ..self }
    }

    /// The apiVersion of its objects.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Its entry in the discovery of its group's version, and that of its status.
    pub(super) fn discovered(&self) -> Vec<Value> {
        let verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
        let mut found = vec![json!({
            "name": self.plural, "singularName": self.kind.to_lowercase(), "namespaced": self.namespaced,
            "kind": self.kind, "verbs": verbs,
        })];
        if self.has_status {
            found.push(json!({
                "name": format!("{}/status", self.plural), "singularName": "", "namespaced": self.namespaced,
                "kind": self.kind, "verbs": ["get", "patch", "update"],
            }));
        }
        found
    }
}

/// The built-in kinds.
pub(super) fn built_in() -> Vec<Served> {
    vec![
        Served::new("v1", "ConfigMap", "configmaps"),
        Served::new("v1", "Secret", "secrets"),
        Served { has_status: true, ..Served::new("v1", "Namespace", "namespaces").cluster() },
        Served::new("v1", "Pod", "pods").with_status(),
        Served { has_status: true, ..Served::new("v1", "Service", "services") },
        Served::new("v1", "ServiceAccount", "serviceaccounts").with_needed_version(),
        Served { has_status: true, ..Served::new("v1", "PersistentVolumeClaim", "persistentvolumeclaims") },
        Served::new("apps/v1", "Deployment", "deployments").with_status(),
        Served::new("apps/v1", "StatefulSet", "statefulsets").with_status(),
        Served::new("batch/v1", "Job", "jobs").with_status(),
        Served::new("rbac.authorization.k8s.io/v1", "Role", "roles"),
        Served::new("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings"),
        Served::new("coordination.k8s.io/v1", "Lease", "leases").with_needed_version(),
        Served::new("events.k8s.io/v1", "Event", "events"),
        Served::new("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions")
            .cluster()
            .with_status()
            .with_needed_version(),
        Served::new("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies")
            .cluster(),
        Served::new(
            "admissionregistration.k8s.io/v1",
            "ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
        )
        .cluster(),
    ]
}

impl ApiServer {
    /// Serves the kind of a CustomResourceDefinition that was created, or no longer serves that of a removed one.
    pub(super) fn follow_definition(&mut self, id: &Id, definition: Option<&Value>) {
        if id.resource != "customresourcedefinitions.apiextensions.k8s.io" {
            return;
        }
        self.kinds.retain(|kind| super::target::resource(&kind.plural, &kind.group) != id.name);
        let Some(definition) = definition else { return };
        let text = |at: &str| definition.pointer(at).and_then(Value::as_str).unwrap_or_default();
        let stored = definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
        let Some(stored) = stored.into_iter().find(|version| version.get("storage") == Some(&Value::Bool(true))) else {
            return;
        };
        let version = stored.get("name").and_then(Value::as_str).unwrap_or_default();
        let has_status = stored.pointer("/subresources/status").is_some();
        let schema = Arc::new(stored.pointer("/schema/openAPIV3Schema").cloned().unwrap_or_default());
        self.kinds.push(Served {
            namespaced: text("/spec/scope") == "Namespaced",
            has_status,
            has_generation: true,
            needs_version: true,
            schema,
            is_custom: true,
            ..Served::new(
                &format!("{}/{version}", text("/spec/group")),
                text("/spec/names/kind"),
                text("/spec/names/plural"),
            )
        });
    }
}

/// The status that the API server gives to a new CustomResourceDefinition.
pub(super) fn established(definition: &Value) -> Value {
    let condition = |of: &str| json!({ "type": of, "status": "True", "reason": of, "message": "" });
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let stored: Vec<_> = versions
        .filter(|version| version.get("storage") == Some(&Value::Bool(true)))
        .filter_map(|version| version.get("name").cloned())
        .collect();
    json!({
        "acceptedNames": definition.pointer("/spec/names").cloned().unwrap_or_default(),
        "conditions": [condition("NamesAccepted"), condition("Established")], "storedVersions": stored,
    })
}
