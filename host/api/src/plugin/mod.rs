//! The `Plugin` resource: the component that reconciles a kind, its grants and its limits.

mod grants;
mod limits;
mod schemas;
mod source;
mod status;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

pub use self::grants::{ChildRef, GrantsSpec, KindRef, RelatedRef};
pub use self::limits::{LimitsSpec, positive};
pub use self::source::{ConfigMapSource, ConfiguredSource, OciSource, SecretRef, Source, Verify};
pub use self::status::{PluginRollout, PluginStatus};

/// A Plugin runs a WebAssembly component as the operator of one kind.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, CustomResource, KubeSchema, Serialize, Deserialize)]
#[kube(
    group = "windlass.dev",
    version = "v1alpha1",
    kind = "Plugin",
    plural = "plugins",
    shortname = "wp",
    category = "windlass",
    status = "PluginStatus",
    doc = "A Plugin runs a WebAssembly component as the operator of one kind.",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Status", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version"),
    printcolumn(name = "Parent Kind", type_ = "string", json_path = ".status.parentKind"),
    printcolumn(name = "Parents", type_ = "integer", json_path = ".status.parents"),
    printcolumn(name = "Failing", type_ = "integer", json_path = ".status.failing"),
    printcolumn(name = "Digest", type_ = "string", json_path = ".status.digest12", priority = 1),
    printcolumn(name = "Source", type_ = "string", json_path = ".spec.source['configMap','oci']['name','reference']", priority = 1),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].message", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.size() <= 50 && !self.metadata.name.contains('.')")
        .message("a Plugin's name is a DNS label of at most 50 characters: it becomes part of labels and finalizers"),
    validation = Rule::new("!has(self.spec.children)").message("spec.children was replaced by spec.grants.children"),
    validation = Rule::new("!has(self.spec.related)").message("spec.related was replaced by spec.grants.related"),
    validation = Rule::new("!has(self.spec.namespaces)").message("spec.namespaces was replaced by spec.namespaceSelector"),
    validation = Rule::new("!has(self.spec.onDelete)")
        .message("spec.onDelete was replaced by spec.deletionPolicy (Orphan or Delete)"),
    validation = Rule::new("!has(self.spec.source.oci) || !has(self.spec.source.oci.pullSecret)")
        .message("spec.source.oci.pullSecret was replaced by spec.source.oci.pullSecretRef")
)]
#[serde(rename_all = "camelCase")]
pub struct PluginSpec {
    /// Source of the component: exactly one of `configMap` and `oci`.
    pub source: Source,
    /// Digest that the component must have; a component with another digest is rejected. `sha256:` and 64 hexadecimal
    /// digits. If unset, a component with any digest is accepted.
    #[schemars(regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub digest: Option<String>,
    /// Public keys, one of which must have signed the component. If unset, signatures are not checked, unless the host
    /// runs with `--require-signatures`: then the component is rejected.
    pub verify: Option<Verify>,
    /// Whether the host installs and updates the CustomResourceDefinition that the component carries. The host never
    /// changes a CustomResourceDefinition that it did not install. Default: false.
    #[serde(default, rename = "installCRD")]
    pub install_crd: bool,
    /// Digest of the component whose CustomResourceDefinition may narrow the schema of the installed one: it may drop
    /// fields or versions, or tighten bounds. Objects lose dropped fields at their next write. `sha256:` and 64
    /// hexadecimal digits. If unset, such a CustomResourceDefinition is not installed, and the running component stays
    /// live.
    #[schemars(regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub allow_schema_narrowing: Option<String>,
    /// Name of the ServiceAccount in the host's namespace that the host impersonates to write the plugin's children.
    /// The plugin sees a related object only if this ServiceAccount may read it. Default: `windlass-plugin-<name>`,
    /// which `windlass push --create-rbac` creates.
    #[schemars(length(min = 1, max = 253))]
    pub service_account_name: Option<String>,
    /// Kinds that the plugin may reconcile, own as children and read as related objects. Default: the kind whose
    /// CustomResourceDefinition the component carries, or an existing kind that is not sensitive and gets no finalizer; the
    /// child kinds that the component declares, except kinds that can extend permissions or affect the whole cluster; and
    /// the namespaced related kinds that the component declares, in the parent's namespace (for a cluster-scoped parent: in
    /// all namespaces except the host's own).
    #[serde(default, skip_serializing_if = "GrantsSpec::is_empty")]
    pub grants: GrantsSpec,
    /// Label selector of the namespaces in which the plugin has parents. If the labels of a namespace change so that it
    /// no longer matches, the host no longer reconciles the parents in it, and their children are deleted unless
    /// `deletionGuard` blocks that. Default: all namespaces.
    #[serde(default)]
    #[schemars(schema_with = "schemas::label_selector")]
    pub namespace_selector: Option<LabelSelector>,
    /// Configuration of the plugin: a JSON object that the host passes to the plugin unchanged. Default: none.
    #[serde(default)]
    #[schemars(schema_with = "schemas::any_object")]
    pub config: Option<serde_json::Value>,
    /// Limits of each call of the plugin. A limit above the host's cap (a flag of `windlass run`) is lowered to the
    /// cap, and the condition `Granted` names it.
    #[serde(default)]
    pub limits: LimitsSpec,
    /// Time after which a parent is reconciled again although nothing changed, as in `10m`, with a jitter of ± 10 %.
    /// Default: the interval that the component requests, or `10m`.
    #[serde(default)]
    #[schemars(schema_with = "schemas::duration")]
    pub resync: Option<kube::core::Duration>,
    /// Largest number of the plugin's parents that are reconciled at the same time, 1 to 64. One plugin also has at
    /// most half of the host's workers (`windlass run --workers`). Default: 16.
    #[serde(default = "default_concurrency")]
    #[schemars(range(min = 1, max = 64))]
    pub concurrency: i32,
    /// Whether the plugin adopts existing objects that have the names of its children and no controller. Default:
    /// false.
    #[serde(default)]
    pub adopt: bool,
    /// Thresholds above which deletions of children are blocked until a user allows them. The guard counts deletions
    /// that no user asked for: those that a rollout causes (a change of the component, its config, its grants, its
    /// limits or its selectors), those that are planned although the parent's spec did not change, and those of parents
    /// that the Plugin no longer selects. Default: more than 50 percent of at least 4 children.
    #[serde(default)]
    pub deletion_guard: DeletionGuard,
    /// What happens to the plugin's children when the Plugin is deleted. `Orphan`: children and parents stay. A
    /// Plugin of the same name can own the children again; if its component carries the parents' CRD, so can one of another name.
    /// `Delete`: children are deleted, except those with the
    /// annotation `windlass.dev/retain`, which outlive their parents. Default: `Orphan`.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// Whether the plugin is suspended: no parent is reconciled, and no child is written or deleted. Default: false.
    #[serde(default)]
    pub suspend: bool,
    /// Fields of earlier versions, which were renamed.
    #[serde(flatten)]
    pub replaced: ReplacedFields,
}

/// Fields of `spec` that were renamed. The schema keeps the old names, so the API server rejects a Plugin that sets
/// one, with a message that names the new field. Without them the API server would drop the unknown field, and the
/// Plugin would have grants, parents or a deletion policy that its user did not choose.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplacedFields {
    /// Renamed: use `spec.grants.children`. A Plugin that sets this field is rejected.
    #[schemars(schema_with = "schemas::objects")]
    children: Option<serde_json::Value>,
    /// Renamed: use `spec.grants.related`. A Plugin that sets this field is rejected.
    #[schemars(schema_with = "schemas::objects")]
    related: Option<serde_json::Value>,
    /// Renamed: use `spec.namespaceSelector`. A Plugin that sets this field is rejected.
    #[schemars(schema_with = "schemas::any_object")]
    namespaces: Option<serde_json::Value>,
    /// Renamed: use `spec.deletionPolicy`. A Plugin that sets this field is rejected.
    on_delete: Option<String>,
}

/// What happens to the children of a plugin when its Plugin is deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// Children and parents stay; a Plugin of the same name can own the children again.
    #[default]
    Orphan,
    /// Children are deleted, except those with the annotation `windlass.dev/retain`, which outlive their parents.
    Delete,
}

/// Thresholds above which deletions that no user asked for are blocked until a user allows them. The thresholds apply
/// to the children of each parent; in a rollout (a change of the component, its config, its grants, its limits or its
/// selectors), also to the children of all parents together; and to the children in one namespace when the Plugin no
/// longer selects that namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct DeletionGuard {
    /// Largest share of the children that may be deleted at once although no user asked for it, in percent, 0 to 100.
    /// With 100 no deletion is blocked. Default: 50.
    #[schemars(range(min = 0, max = 100))]
    pub max_percent: i32,
    /// Smallest number of children that the guard protects: deletions are never blocked for a parent, or for a group of
    /// parents, with fewer children.
    /// Default: 4.
    #[schemars(range(min = 0))]
    pub min_children: i32,
}

impl Default for DeletionGuard {
    fn default() -> Self {
        Self { max_percent: 50, min_children: 4 }
    }
}

impl PluginSpec {
    /// Rejects fields that were renamed. The schema rejects them too, but an older CRD may be installed, or the Plugin
    /// may have been stored before the rename.
    ///
    /// # Errors
    /// If a renamed field is set; the message names the old and the new field.
    pub fn check_replaced_fields(&self) -> Result<(), String> {
        let ReplacedFields { children, related, namespaces, on_delete } = &self.replaced;
        let pull_secret = self.source.oci.as_ref().and_then(|oci| oci.pull_secret.as_ref());
        let set = [
            (children.is_some(), "children", "grants.children"),
            (related.is_some(), "related", "grants.related"),
            (namespaces.is_some(), "namespaces", "namespaceSelector"),
            (on_delete.is_some(), "onDelete", "deletionPolicy (Orphan or Delete)"),
            (pull_secret.is_some(), "source.oci.pullSecret", "source.oci.pullSecretRef"),
        ];
        let replaced = set.into_iter().find(|(is_set, ..)| *is_set);
        replaced.map_or(Ok(()), |(_, old, new)| Err(format!("spec.{old} was replaced by spec.{new}")))
    }
}

fn default_concurrency() -> i32 {
    16
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn every_sample_manifest_of_a_plugin_is_valid() {
        let samples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/samples");
        let mut plugins = 0;
        for entry in std::fs::read_dir(samples).expect("the samples") {
            let path = entry.expect("an entry").path();
            let text = std::fs::read_to_string(&path).expect("a sample");
            let documents: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
            for document in documents {
                let name = document.pointer("/metadata/name").and_then(Value::as_str);
                assert!(name.is_some() && document["apiVersion"].is_string(), "{}", path.display());
                if document["kind"] == "Plugin" {
                    let plugin: Plugin = serde_json::from_value(document).expect("a whole Plugin");
                    assert!(plugin.spec.source.configured().is_ok(), "{}", path.display());
                    plugins += 1;
                }
            }
        }
        assert!(plugins > 0, "no sample contains a Plugin");
    }

    #[test]
    fn replaced_field_is_rejected_by_schema_and_host_with_the_name_of_the_new_field() {
        let crd = serde_json::to_value(Plugin::crd()).expect("a CRD");
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let rules = schema["x-kubernetes-validations"].as_array().expect("rules");
        for (path, value, new) in [
            ("/children", json!([{"apiVersion": "v1", "kind": "Pod"}]), "spec.grants.children"),
            ("/related", json!([{"apiVersion": "v1", "kind": "Pod"}]), "spec.grants.related"),
            ("/namespaces", json!({"matchLabels": {"a": "b"}}), "spec.namespaceSelector"),
            ("/onDelete", json!("Prune"), "spec.deletionPolicy"),
            ("/source/oci/pullSecret", json!({"name": "regcred"}), "spec.source.oci.pullSecretRef"),
        ] {
            let old = path.replace('/', ".");
            let message = format!("spec{old} was replaced by {new}");
            let is_ruled = rules.iter().any(|rule| {
                let has = |field: &str, text: &str| rule[field].as_str().is_some_and(|content| content.contains(text));
                has("message", &message) && has("rule", &format!("has(self.spec{old})"))
            });
            assert!(is_ruled, "{message}: {rules:#?}");
            // The API server drops a field that the schema does not have before it checks any rule.
            let properties = format!("/properties/spec{}", path.replace('/', "/properties/"));
            assert!(schema.pointer(&properties).is_some(), "{properties}");

            let mut spec = json!({"source": {"oci": {"reference": "registry.example/echo:1"}}});
            let (parent, field) = path.rsplit_once('/').expect("a path");
            spec.pointer_mut(parent).expect("the parent")[field] = value;
            let spec: PluginSpec = serde_json::from_value(spec).expect("a spec");
            assert!(spec.check_replaced_fields().is_err_and(|error| error.starts_with(&message)), "{path}");
        }
    }
}
