//! The `Plugin` resource: the component that reconciles a kind, its grants and its limits.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_core::contract::Limits;
use windlass_core::former_kinds::KnownChildKinds;
use windlass_core::grant::{ChildGrant, RelatedGrant, SpecGrants};
use windlass_core::guard::RolloutRecord;
use windlass_core::ids::Gvk;

use super::quantity::ByteQuantity;

/// A Plugin runs a WebAssembly component as the operator of one kind.
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub digest: Option<String>,
    /// Public keys, one of which must have signed the component. If unset, signatures are not checked, unless the host
    /// runs with `--require-signatures`: then the component is rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
    /// Whether the host installs and updates the CustomResourceDefinition that the component carries. The host never
    /// changes a CustomResourceDefinition that it did not install. Default: false.
    #[serde(default, rename = "installCRD")]
    pub install_crd: bool,
    /// Digest of the component whose CustomResourceDefinition may narrow the schema of the installed one: it may drop
    /// fields or versions, or tighten bounds. Objects lose dropped fields at their next write. `sha256:` and 64
    /// hexadecimal digits. If unset, such a CustomResourceDefinition is not installed, and the running component stays
    /// live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub allow_schema_narrowing: Option<String>,
    /// Name of the ServiceAccount in the host's namespace that the host impersonates to write the plugin's children.
    /// The plugin sees a related object only if this ServiceAccount may read it. Default: `windlass-plugin-<name>`,
    /// which `windlass push --create-rbac` creates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub service_account_name: Option<String>,
    /// Kinds that the plugin may own as children and read as related objects. Default: the child kinds that the
    /// component declares, except kinds that can extend permissions or affect the whole cluster, and the namespaced
    /// related kinds that the component declares, in the parent's namespace (for a cluster-scoped parent: in all
    /// namespaces except the host's own).
    #[serde(default, skip_serializing_if = "GrantsSpec::is_empty")]
    pub grants: GrantsSpec,
    /// Label selector of the namespaces in which the plugin has parents. If the labels of a namespace change so that it
    /// no longer matches, the host no longer reconciles the parents in it, and their children are deleted unless
    /// `deletionGuard` blocks that. Default: all namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "label_selector")]
    pub namespace_selector: Option<LabelSelector>,
    /// Configuration of the plugin: a JSON object that the host passes to the plugin unchanged. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub config: Option<serde_json::Value>,
    /// Limits of each call of the plugin. A limit above the host's cap (a flag of `windlass run`) is lowered to the
    /// cap, and the condition `Granted` names it.
    #[serde(default)]
    pub limits: LimitsSpec,
    /// Time after which a parent is reconciled again although nothing changed, as in `10m`, with a jitter of ± 10 %.
    /// Default: the interval that the component requests, or `10m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "duration")]
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplacedFields {
    /// Renamed: use `spec.grants.children`. A Plugin that sets this field is rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "objects")]
    children: Option<serde_json::Value>,
    /// Renamed: use `spec.grants.related`. A Plugin that sets this field is rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "objects")]
    related: Option<serde_json::Value>,
    /// Renamed: use `spec.namespaceSelector`. A Plugin that sets this field is rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    namespaces: Option<serde_json::Value>,
    /// Renamed: use `spec.deletionPolicy`. A Plugin that sets this field is rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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

/// Kinds that a plugin may own as children and read as related objects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrantsSpec {
    /// Kinds of which the plugin may own objects as children. Default: the kinds that the component declares, except
    /// RBAC kinds, webhooks, Namespaces and other kinds that affect the whole cluster; the plugin may own those only if
    /// they are listed here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub children: Option<Vec<ChildRef>>,
    /// Kinds of related objects that the plugin may read outside its parent's namespace: in other namespaces, or
    /// cluster-scoped. A kind that the component does not declare has no effect. Default: none; a plugin may read the
    /// namespaced kinds that its component declares in the parent's namespace, or in all namespaces except the host's
    /// own if the parent is cluster-scoped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub related: Option<Vec<RelatedRef>>,
}

impl GrantsSpec {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Thresholds above which deletions that no user asked for are blocked until a user allows them. The thresholds apply
/// to the children of each parent; in a rollout (a change of the component, its config, its grants, its limits or its
/// selectors), also to the children of all parents together; and to the children in one namespace when the Plugin no
/// longer selects that namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeletionGuard {
    /// Largest share of the children that may be deleted at once although no user asked for it, in percent, 0 to 100.
    /// With 100 no deletion is blocked. Default: 50.
    #[serde(default = "default_max_percent")]
    #[schemars(range(min = 0, max = 100))]
    pub max_percent: i32,
    /// Smallest number of children that the guard protects: deletions are never blocked for a parent, or for a group of
    /// parents, with fewer children.
    /// Default: 4.
    #[serde(default = "default_min_children")]
    #[schemars(range(min = 0))]
    pub min_children: i32,
}

impl Default for DeletionGuard {
    fn default() -> Self {
        Self { max_percent: default_max_percent(), min_children: default_min_children() }
    }
}

/// Source of a component: exactly one of the fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, KubeSchema, Serialize, Deserialize)]
#[x_kube(validation = Rule::new("[has(self.configMap), has(self.oci)].filter(one, one).size() == 1")
    .message("a source is exactly one of configMap and oci"))]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// ConfigMap that contains the component, or the head of a component in parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ConfigMapSource>,
    /// OCI artifact in a registry that contains the component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oci: Option<OciSource>,
}

/// The source that a Plugin sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfiguredSource<'a> {
    /// A ConfigMap, or the head of a component in parts.
    ConfigMap(&'a ConfigMapSource),
    /// An artifact in an OCI registry.
    Oci(&'a OciSource),
}

impl Source {
    /// The source that the Plugin sets.
    ///
    /// # Errors
    /// If the Plugin sets no source or several; the message is for users. The schema rejects such a Plugin, but an
    /// older CRD may be installed.
    pub fn configured(&self) -> Result<ConfiguredSource<'_>, String> {
        match (&self.config_map, &self.oci) {
            (Some(source), None) => Ok(ConfiguredSource::ConfigMap(source)),
            (None, Some(source)) => Ok(ConfiguredSource::Oci(source)),
            _ => Err("spec.source must be exactly one of configMap and oci".to_owned()),
        }
    }
}

/// A component in an OCI registry, in the CNCF Wasm layout (layer `application/wasm`) or the older layout (layer
/// `application/vnd.wasm.content.layer.v1+wasm`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OciSource {
    /// Reference of the artifact, as in `registry.example/team/echo:1.2`. With `@sha256:…` in place of the tag, the
    /// reference names the artifact of that digest, even if tags move.
    #[schemars(length(min = 1, max = 512))]
    pub reference: String,
    /// Secret of type `kubernetes.io/dockerconfigjson` in the host's namespace, with the registry's credentials.
    /// Default: none; the registry is read anonymously.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_secret_ref: Option<SecretRef>,
    /// Renamed: use `spec.source.oci.pullSecretRef`. A Plugin that sets this field is rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub pull_secret: Option<serde_json::Value>,
    /// Time between two checks of the digest that the tag points to, as in `5m`. Default: `5m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "duration")]
    pub interval: Option<kube::core::Duration>,
}

/// A Secret in the host's namespace. The host needs permission to get it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Public keys, one of which must have signed the component. A component that none of them signed is rejected before it
/// is compiled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verify {
    /// Public keys of cosign, 1 to 16. A signature by any one of them is enough.
    #[schemars(length(min = 1, max = 16))]
    pub public_keys: Vec<PublicKey>,
}

/// Public keys as PEM text, in exactly one of the fields.
#[derive(Debug, Clone, PartialEq, Eq, KubeSchema, Serialize, Deserialize)]
#[x_kube(validation = Rule::new("has(self.inline) != has(self.secret)")
    .message("a public key is exactly one of inline and secret"))]
#[serde(rename_all = "camelCase")]
pub struct PublicKey {
    /// One or more public keys in PEM, as in `cosign.pub`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16384))]
    pub inline: Option<String>,
    /// Key of a Secret in the host's namespace that contains one or more public keys in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretKeyRef>,
}

/// A key of a Secret in the host's namespace. The host needs permission to get the Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretKeyRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key in the Secret's data. Default: `cosign.pub`, the key that `cosign generate-key-pair k8s://…` writes.
    #[serde(default = "default_public_key")]
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// A ConfigMap that contains a component under `plugin.wasm`, `plugin.wasm.zst` or `plugin.wasm.gz`, or the head of a
/// component in parts that `windlass push` wrote.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ConfigMapSource {
    /// Namespace of the ConfigMap. The host may read ConfigMaps in its own namespace; any other namespace needs an
    /// additional permission.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// Name of the ConfigMap.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

impl std::fmt::Display for ConfigMapSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A kind, by `apiVersion` and `kind`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KindRef {
    /// API version of the kind, as in `apps/v1`.
    #[schemars(length(min = 1, max = 317))]
    pub api_version: String,
    /// Name of the kind, as in `Deployment`.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
}

/// A kind that a plugin may own, and the namespaces in which it may own objects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChildRef {
    /// The kind.
    #[serde(flatten)]
    pub kind: KindRef,
    /// Namespaces in which a cluster-scoped parent may have children of this kind. Default: all except kube-system,
    /// kube-public and kube-node-lease, which must be listed here, and the host's own namespace, in which no plugin may
    /// have children. A namespaced parent always has its children in its own namespace; this list does not apply to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 63)))]
    pub namespaces: Option<Vec<String>>,
    /// Whether the plugin may own Secrets of the types `kubernetes.io/service-account-token` and
    /// `bootstrap.kubernetes.io/token`; for kind Secret only. The control plane fills a Secret of the first type with
    /// the token of a ServiceAccount in its namespace, and a Secret of the second type is itself a credential for
    /// joining nodes, so the plugin can act as these accounts. Default: false.
    #[serde(default)]
    pub service_account_tokens: bool,
}

/// A kind that a plugin may read, and the namespaces in which it may read objects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RelatedRef {
    /// The kind.
    #[serde(flatten)]
    pub kind: KindRef,
    /// Namespaces, other than the parent's own, in which the plugin may read objects of this kind. Default: for a
    /// namespaced parent none, for a cluster-scoped parent all except the host's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 63)))]
    pub namespaces: Option<Vec<String>>,
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
        match set.into_iter().find(|(is_set, ..)| *is_set) {
            Some((_, old, new)) => Err(format!("spec.{old} was replaced by spec.{new}")),
            None => Ok(()),
        }
    }

    /// The grants of the Plugin: the kinds that it may own as children, and the related kinds that it may read.
    pub fn spec_grants(&self) -> SpecGrants {
        let shared = |names: &Option<Vec<String>>| {
            names.as_ref().map(|names| names.iter().map(|name| Arc::from(name.as_str())).collect())
        };
        let child_grant = |named: &ChildRef| ChildGrant {
            kind: named.kind.gvk(),
            namespaces: shared(&named.namespaces),
            tokens: named.service_account_tokens,
        };
        let related_grant =
            |named: &RelatedRef| RelatedGrant { kind: named.kind.gvk(), namespaces: shared(&named.namespaces) };
        SpecGrants {
            children: self.grants.children.as_ref().map(|kinds| kinds.iter().map(child_grant).collect()),
            related: self.grants.related.iter().flatten().map(related_grant).collect(),
        }
    }
}

impl KindRef {
    /// The group, version and kind.
    pub fn gvk(&self) -> Gvk {
        Gvk::from_api_version(&self.api_version, &self.kind)
    }
}

/// Limits of each call of the plugin. A limit that is not set has the contract's default. A limit above the host's cap
/// (a flag of `windlass run`) is lowered to the cap, and the condition `Granted` names it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LimitsSpec {
    /// Largest linear memory of a call, over all memories of the component, in bytes. Default: 64Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<ByteQuantity>,
    /// Largest number of elements over all tables of the component; an element takes 8 bytes of the host's memory.
    /// Default: 1048576.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10_000_000))]
    pub table_elements: Option<i32>,
    /// Largest number of core instances in the component. Default: 512.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub instances: Option<i32>,
    /// Longest wall time of a whole call, including host calls, as in `1s`. Default: 1s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "duration")]
    pub deadline: Option<kube::core::Duration>,
    /// Largest size of a request to the plugin, in bytes: parent, children, related objects and config. Default: 4Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_bytes: Option<ByteQuantity>,
    /// Largest size of a response of the plugin, in bytes. Default: 4Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_bytes: Option<ByteQuantity>,
    /// Largest number of children in a response. Default: 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub children: Option<i32>,
    /// Largest size of the log lines, span attributes and span events that are kept of a call, in bytes. The host drops
    /// and counts what exceeds it. Default: 64Ki.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_bytes: Option<ByteQuantity>,
    /// Largest number of events in a response. Default: 16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub events: Option<i32>,
    /// Largest number of requirements (requests for related objects) in a response. Default: 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub requirements: Option<i32>,
    /// Largest nesting depth of each JSON document in a response. Default: 128.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 200))]
    pub json_depth: Option<i32>,
}

impl LimitsSpec {
    /// The limits, with the contract's defaults for limits that are not set.
    ///
    /// # Errors
    /// If a size, number or duration is invalid; the message is for users. The schema rejects most invalid values, but
    /// an older CRD may be installed.
    pub fn resolve(&self) -> Result<Limits, String> {
        let default = Limits::default();
        let deadline = self.deadline.as_ref().map(|time| positive(time).map_err(|error| in_limits("deadline", &error)));
        Ok(Limits {
            memory: bytes("memory", self.memory.as_ref(), default.memory)?,
            table_elements: count("tableElements", self.table_elements, 0..=10_000_000, default.table_elements)?,
            instances: count("instances", self.instances, 1..=10_000, default.instances)?,
            deadline: deadline.transpose()?.unwrap_or(default.deadline),
            request_bytes: bytes("requestBytes", self.request_bytes.as_ref(), default.request_bytes)?,
            response_bytes: bytes("responseBytes", self.response_bytes.as_ref(), default.response_bytes)?,
            children: count("children", self.children, 0..=100_000, default.children)?,
            log_bytes: bytes("logBytes", self.log_bytes.as_ref(), default.log_bytes)?,
            events: count("events", self.events, 0..=1000, default.events)?,
            requirements: count("requirements", self.requirements, 0..=1000, default.requirements)?,
            json_depth: count("jsonDepth", self.json_depth, 2..=200, default.json_depth)?,
        })
    }
}

fn in_limits(field: &str, error: &str) -> String {
    format!("spec.limits.{field}: {error}")
}

fn bytes<T: TryFrom<u64>>(field: &str, wanted: Option<&ByteQuantity>, default: T) -> Result<T, String> {
    let Some(wanted) = wanted else { return Ok(default) };
    let bytes = wanted.bytes().and_then(|bytes| {
        let some = (bytes > 0).then_some(bytes).and_then(|bytes| T::try_from(bytes).ok());
        some.ok_or_else(|| format!("invalid limit {wanted}: must be a size greater than zero, as in 64Mi"))
    });
    bytes.map_err(|error| in_limits(field, &error))
}

fn count(field: &str, wanted: Option<i32>, range: RangeInclusive<i32>, default: usize) -> Result<usize, String> {
    let Some(wanted) = wanted else { return Ok(default) };
    let inside = range.contains(&wanted).then_some(wanted).and_then(|wanted| usize::try_from(wanted).ok());
    inside
        .ok_or_else(|| in_limits(field, &format!("{wanted} is not a number from {} to {}", range.start(), range.end())))
}

/// A duration greater than zero.
///
/// # Errors
/// If the duration is zero or negative. The message is for users; the caller puts the field's name before it.
pub fn positive(duration: &kube::core::Duration) -> Result<Duration, String> {
    let plain = Duration::from(*duration);
    if duration.is_negative() || plain.is_zero() {
        return Err("must be greater than zero".to_owned());
    }
    Ok(plain)
}

/// Status of a Plugin, written by the host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginStatus {
    /// Generation of the Plugin that the host acted on last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Digest of the live component. If no component is live: digest of the component that was live last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_digest: Option<String>,
    /// First twelve hexadecimal digits of `activeDigest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest12: Option<String>,
    /// Digest of the last component with which every parent has been reconciled at least once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconciled_digest: Option<String>,
    /// Value of the annotation `windlass.dev/pushed-at` that the host acted on last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handled_push: Option<String>,
    /// Digest of a component that was delivered but is not live: a step failed, or is not finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate_digest: Option<String>,
    /// Digest of the component that was live before the live one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_digest: Option<String>,
    /// Digest of the component that a user rolled back from with the annotation `windlass.dev/rollback`. A newer
    /// component in the source still goes live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolled_back_from: Option<String>,
    /// Version of the live component, as the component reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Kind of the plugin's parents, as in `Echo.v1.my-operator.dev`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_kind: Option<String>,
    /// Time since which the Plugin has its parent kind. Only one Plugin can reconcile a kind whose CRD its component
    /// carries: the Plugin with the earliest such time. Several Plugins can reconcile one kind that exists without
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "date_time")]
    pub parent_kind_since: Option<String>,
    /// Kinds that the plugin may own as children.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_kinds: Option<Vec<String>>,
    /// Kinds that the plugin owned before and may no longer own. Children of these kinds may still exist; the host
    /// leaves them alone until the Plugin is deleted, and then deletes them if `spec.deletionPolicy` is `Delete`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_child_kinds: Option<Vec<String>>,
    /// Whether the Plugin adds children to objects of another owner: the component does not carry the CRD of its parent
    /// kind (a built-in kind, or another operator's). The host does not write the status of such parents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decorates: Option<bool>,
    /// Whether parents may have the finalizer `windlass.dev/<plugin>`: the live component finalizes, or an earlier one
    /// did. If the live component does not finalize, the host removes the finalizer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_finalizers: Option<bool>,
    /// Number of parents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parents: Option<i64>,
    /// Number of parents whose last reconcile did not reach the desired state (`Reconciling` or `Stalled`, even if the
    /// host does not write these conditions), or whose status the API server rejected. Written at most every ten
    /// seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing: Option<i64>,
    /// Newest failure of a parent. Written at most every ten seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<LastFailure>,
    /// Hash of the deletions that are blocked for all parents together. Set the Plugin's annotation
    /// `windlass.dev/allow-deletion` to this value to allow them. The hash stays until the deletions are allowed or no
    /// longer desired, even while no component is live and when another component is delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_deletions_hash: Option<String>,
    /// Progress of the last rollout to all parents. A rollout begins when the component, its config, its grants, its
    /// limits or its selectors change. The host writes this field before the rollout begins, so that the number of
    /// children that existed before is known after a restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<PluginRollout>,
    /// Conditions of the Plugin: `Fetched`, `Verified`, `Compiled`, `Granted`, `Synced`, `Ready` and `Available`;
    /// `Reconciling` and `Stalled` only while they are True.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Option<Vec<Condition>>,
}

impl PluginStatus {
    /// The kinds of which the plugin may have children: kinds that it may own now, and kinds that it owned before.
    pub fn known_child_kinds(&self) -> KnownChildKinds {
        let kinds = self.former_child_kinds.iter().chain(&self.child_kinds).flatten();
        let mut known = KnownChildKinds::default();
        known.add(&kinds.filter_map(|kind| kind.parse::<Gvk>().ok()).collect::<Vec<_>>());
        known
    }
}

/// Rollout of a component, its config, its grants, its limits and its selectors to all parents of a Plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginRollout {
    /// Hash of the component, config, grants, limits and selectors that are rolled out.
    pub hash: String,
    /// Whether the rollout is decided: the host has planned the writes of every parent at least once in this rollout,
    /// and no deletion is blocked.
    pub decided: bool,
    /// Number of children that all parents had before the rollout. Set while `decided` is false, and a parent has not
    /// been reconciled in this rollout or deletions are blocked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children: Option<i64>,
    /// Time at which the rollout began. Set together with `children`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "date_time")]
    pub since: Option<String>,
    /// Whether the hosts share the parents (`windlass run --shards`). If not, the leader reconciles all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<bool>,
}

impl PluginRollout {
    /// The rollout as the deletion guard reads it.
    pub fn record(&self) -> RolloutRecord {
        let children = self.children.and_then(|children| usize::try_from(children).ok());
        let since = self.since.as_ref().and_then(|since| since.parse().ok());
        RolloutRecord { hash: self.hash.clone(), is_decided: self.decided, began: children.zip(since) }
    }
}

/// The newest failure of a parent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastFailure {
    /// Reason of the failure, as in the condition `Ready` of the parent.
    pub reason: String,
    /// Namespace and name of the parent.
    pub object: String,
    /// Message of the failure, as in the condition `Ready` of the parent.
    pub message: String,
    /// Time since which the parent fails with this reason and message.
    #[schemars(schema_with = "date_time")]
    pub time: String,
}

fn date_time(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "string", "format": "date-time"})
}

fn default_public_key() -> String {
    "cosign.pub".to_owned()
}

fn default_concurrency() -> i32 {
    16
}

fn default_max_percent() -> i32 {
    50
}

fn default_min_children() -> i32 {
    4
}

fn any_object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn objects(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array", "maxItems": 64, "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    })
}

/// Schema of a label selector, as in the API of Kubernetes (meta/v1, `LabelSelector`).
fn label_selector(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "properties": {
            "matchLabels": {"type": "object", "maxProperties": 64, "additionalProperties": {"type": "string", "maxLength": 63}},
            "matchExpressions": {
                "type": "array",
                "maxItems": 64,
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": {"type": "string", "maxLength": 317},
                        "operator": {"type": "string", "enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
                        "values": {"type": "array", "maxItems": 64, "x-kubernetes-list-type": "atomic",
                            "items": {"type": "string", "maxLength": 63}},
                    },
                },
            },
        },
    })
}

fn duration(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "string", "pattern": "^([0-9]{1,6}(\\.[0-9]{1,3})?(ns|us|ms|s|m|h)){1,3}$"})
}

fn conditions(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    super::conditions_schema().try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use serde_json::{Value, json};

    use super::*;

    fn resolve(spec: Value) -> Result<Limits, String> {
        serde_json::from_value::<LimitsSpec>(spec).expect("limits").resolve()
    }

    fn schema() -> Value {
        let crd = serde_json::to_value(Plugin::crd()).expect("a CRD");
        crd.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/limits/properties")
            .expect("limits")
            .clone()
    }

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

    #[test]
    fn unset_limits_have_the_contracts_defaults() {
        assert_eq!(resolve(json!({})), Ok(Limits::default()));
    }

    #[test]
    fn every_limit_can_be_set() {
        let given = json!({
            "memory": "1Mi", "tableElements": 1, "instances": 2, "deadline": "3s", "requestBytes": "4Ki",
            "responseBytes": "5Ki", "children": 6, "logBytes": "7Ki", "events": 8, "requirements": 9, "jsonDepth": 10,
        });
        let names = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&given), names(&schema()), "left: here, right: in the CRD");
        let limits = Limits {
            memory: 1 << 20,
            table_elements: 1,
            instances: 2,
            deadline: Duration::from_secs(3),
            request_bytes: 4 << 10,
            response_bytes: 5 << 10,
            children: 6,
            log_bytes: 7 << 10,
            events: 8,
            requirements: 9,
            json_depth: 10,
        };
        assert_eq!(resolve(given), Ok(limits));
    }

    #[test]
    fn number_outside_the_schemas_bounds_is_rejected_by_the_host_with_the_field_name() {
        let mut numbers = 0;
        for (name, schema) in schema().as_object().expect("an object") {
            let bound = |field: &str| schema[field].as_f64()?.to_string().parse::<i32>().ok();
            let (Some(min), Some(max)) = (bound("minimum"), bound("maximum")) else { continue };
            numbers += 1;
            for inside in [min, max] {
                assert!(resolve(json!({name: inside})).is_ok(), "{name}: {inside}");
            }
            for outside in [min - 1, max + 1] {
                let error = resolve(json!({name: outside})).expect_err(name);
                assert!(error.contains(&format!("spec.limits.{name}: {outside} is not a number from")), "{error}");
            }
        }
        assert_eq!(numbers, 6);
    }

    #[test]
    fn invalid_quantities_and_durations_are_rejected_with_the_field_name() {
        for name in ["memory", "requestBytes", "responseBytes", "logBytes"] {
            for bad in ["0", "0Mi", "much"] {
                let error = resolve(json!({name: bad})).expect_err(bad);
                assert!(error.starts_with(&format!("spec.limits.{name}: ")) && error.contains("as in 64Mi"), "{error}");
            }
        }
        for bad in ["0s", "-1s"] {
            let error = resolve(json!({"deadline": bad})).expect_err(bad);
            assert_eq!(error, "spec.limits.deadline: must be greater than zero");
        }
    }
}
