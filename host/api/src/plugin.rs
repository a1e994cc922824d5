//! The `Plugin` resource: which component reconciles which kind, and within which bounds.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_core::contract::Limits;
use windlass_core::former_kinds::ChildKinds;
use windlass_core::grant::{Allowance, Beyond, Owned};
use windlass_core::guard::Record;
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
    /// Where the component comes from.
    pub source: Source,
    /// Pin: a component with another digest is refused. `sha256:` and 64 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub digest: Option<String>,
    /// Public keys of which one must have signed the component. If unset, signatures are not checked, unless the host runs with
    /// `--require-signatures`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
    /// Install and update the CustomResourceDefinition that the component carries. A definition that somebody else
    /// installed is used as it is and never changed.
    #[serde(default, rename = "installCRD")]
    pub install_crd: bool,
    /// Digest of the one component whose CustomResourceDefinition may take less than the installed one: drop fields or
    /// versions, or tighten bounds. Objects lose dropped fields at their next write. `sha256:` and 64 hexadecimal digits.
    /// Default: such a definition is not installed, and the component that runs stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub allow_schema_narrowing: Option<String>,
    /// A ServiceAccount in the host's namespace, as which the plugin's children are written, and related objects are shown
    /// to it only if this one may read them. Default: `windlass-plugin-<name>`, which `windlass push --create-rbac` makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub service_account_name: Option<String>,
    /// Kinds that the plugin may own and read.
    #[serde(default, skip_serializing_if = "GrantsSpec::is_empty")]
    pub grants: GrantsSpec,
    /// Label selector of namespaces. Objects in other namespaces are not parents of this plugin. When the labels of a namespace
    /// change so that it no longer matches, the plugin leaves the objects in it, and deletes their children as far as
    /// `deletionGuard` allows. Default: all namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "label_selector")]
    pub namespace_selector: Option<LabelSelector>,
    /// Handed to the plugin as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub config: Option<serde_json::Value>,
    /// Bounds of each call.
    #[serde(default)]
    pub limits: LimitsSpec,
    /// Time between reconciles that nothing else caused, as in `10m`; jitter of 10 % is added. Default: what the
    /// component asks for, or ten minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "duration")]
    pub resync: Option<kube::core::Duration>,
    /// How many parents are reconciled at once.
    #[serde(default = "default_concurrency")]
    #[schemars(range(min = 1, max = 64))]
    pub concurrency: i32,
    /// Take over objects that exist already under the names of children, unless something else controls them.
    #[serde(default)]
    pub adopt: bool,
    /// Deletions that nobody asked for are held.
    #[serde(default)]
    pub deletion_guard: DeletionGuard,
    /// What happens to the children when the Plugin is deleted: with `Orphan` they stay, with their parents, and another Plugin
    /// of the same kind can own them; with `Delete` they are deleted, except those that are annotated to outlive their
    /// parents. Default: `Orphan`.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// Reconcile no parent for now: nothing is written and nothing deleted because of them.
    #[serde(default)]
    pub suspend: bool,
    /// Fields that have another name now.
    #[serde(flatten)]
    pub replaced: ReplacedFields,
}

/// Fields of `spec` that have another name now. The schema keeps them so that the API server refuses a Plugin that sets one,
/// with a message that names the new field: it would drop a field that it does not know, and the Plugin would have rights,
/// parents or a deletion policy that its user did not choose.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplacedFields {
    /// Replaced by `spec.grants.children`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "objects")]
    children: Option<serde_json::Value>,
    /// Replaced by `spec.grants.related`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "objects")]
    related: Option<serde_json::Value>,
    /// Replaced by `spec.namespaceSelector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    namespaces: Option<serde_json::Value>,
    /// Replaced by `spec.deletionPolicy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    on_delete: Option<String>,
}

/// What happens to the children when their Plugin is deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// They stay as they are, with their parents: another Plugin of the same kind can own them.
    #[default]
    Orphan,
    /// They are deleted, except those that are to outlive their parents (`windlass.dev/retain`).
    Delete,
}

/// Kinds that a plugin may own and read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrantsSpec {
    /// Kinds of which the plugin may own objects. Default: the kinds that the component declares, except those that must be
    /// named here (RBAC kinds, webhooks, Namespaces and other kinds that concern the whole cluster).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub children: Option<Vec<ChildRef>>,
    /// Kinds that the plugin may read beyond the namespace of its parent: in other namespaces, and cluster-scoped kinds. Only
    /// kinds that the component declares count. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub related: Option<Vec<RelatedRef>>,
}

impl GrantsSpec {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// When deletions are held until a person allows them: new logic, configuration or inputs would delete so many of a
/// parent's children although its spec did not change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeletionGuard {
    /// Largest part of a parent's children that may go at once, in percent. 100 holds nothing.
    #[serde(default = "default_max_percent")]
    #[schemars(range(min = 0, max = 100))]
    pub max_percent: i32,
    /// With fewer children than this nothing is held.
    #[serde(default = "default_min_children")]
    #[schemars(range(min = 0))]
    pub min_children: i32,
}

impl Default for DeletionGuard {
    fn default() -> Self {
        Self { max_percent: default_max_percent(), min_children: default_min_children() }
    }
}

/// Where a component comes from: exactly one of the fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, KubeSchema, Serialize, Deserialize)]
#[x_kube(validation = Rule::new("[has(self.configMap), has(self.oci)].filter(one, one).size() == 1")
    .message("a source is exactly one of configMap and oci"))]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// A ConfigMap, or the head of a set of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ConfigMapSource>,
    /// An artifact in a registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oci: Option<OciSource>,
}

/// The one source that a Plugin names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'a> {
    /// A ConfigMap, or the head of a set of them.
    ConfigMap(&'a ConfigMapSource),
    /// An artifact in a registry.
    Oci(&'a OciSource),
}

impl Source {
    /// The one that is given.
    ///
    /// # Errors
    /// None or several are, in words for a user. The schema refuses that, but an older CRD may be installed.
    pub fn place(&self) -> Result<Place<'_>, String> {
        match (&self.config_map, &self.oci) {
            (Some(source), None) => Ok(Place::ConfigMap(source)),
            (None, Some(source)) => Ok(Place::Oci(source)),
            _ => Err("spec.source must be exactly one of configMap and oci".to_owned()),
        }
    }
}

/// A component in an OCI registry: the CNCF's Wasm layout (layer `application/wasm`), or the older one (layer
/// `application/vnd.wasm.content.layer.v1+wasm`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OciSource {
    /// As in `registry.example/team/echo:1.2`, or with `@sha256:…` in place of the tag for the one artifact of that
    /// digest, whatever becomes of tags.
    #[schemars(length(min = 1, max = 512))]
    pub reference: String,
    /// A Secret of type `kubernetes.io/dockerconfigjson` in the host's namespace, with the registry's credentials. Default:
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_secret_ref: Option<SecretRef>,
    /// Replaced by `spec.source.oci.pullSecretRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub pull_secret: Option<serde_json::Value>,
    /// Time between looks at what the tag names, as in `5m`. Default: five minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "duration")]
    pub interval: Option<kube::core::Duration>,
}

/// A Secret in the host's namespace, which the host must be allowed to get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretRef {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Public keys of which one must have signed the component. A component that none of them signed is rejected before it is compiled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verify {
    /// Public keys of cosign, any of which may have signed.
    #[schemars(length(min = 1, max = 16))]
    pub public_keys: Vec<PublicKey>,
}

/// A public key, or several in one text: exactly one of the fields.
#[derive(Debug, Clone, PartialEq, Eq, KubeSchema, Serialize, Deserialize)]
#[x_kube(validation = Rule::new("has(self.inline) != has(self.secret)")
    .message("a public key is exactly one of inline and secret"))]
#[serde(rename_all = "camelCase")]
pub struct PublicKey {
    /// In PEM, as `cosign.pub` holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16384))]
    pub inline: Option<String>,
    /// A Secret that holds it in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretKeyRef>,
}

/// A key of a Secret in the host's namespace, which the host must be allowed to get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretKeyRef {
    /// The Secret's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The key in its data. Default: `cosign.pub`, as `cosign generate-key-pair k8s://…` writes it.
    #[serde(default = "default_public_key")]
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// A ConfigMap with a component under `plugin.wasm`, `plugin.wasm.zst` or `plugin.wasm.gz`, or the head of a chunked
/// set as `windlass push` writes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ConfigMapSource {
    /// Its namespace. The host reads ConfigMaps of its own namespace; others need a right of their own.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

impl std::fmt::Display for ConfigMapSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A kind, as objects name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KindRef {
    /// As in `apps/v1`.
    #[schemars(length(min = 1, max = 317))]
    pub api_version: String,
    /// As in `Deployment`.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
}

/// A kind that a plugin may own, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChildRef {
    /// The kind.
    #[serde(flatten)]
    pub kind: KindRef,
    /// Namespaces in which a cluster-scoped parent may have children of this kind. Default: all but kube-system, kube-public
    /// and kube-node-lease, which must be named here, and the host's own, in which no plugin may have children. A namespaced
    /// parent has its children in its own namespace, whatever is named here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 63)))]
    pub namespaces: Option<Vec<String>>,
    /// For kind Secret: allow children of type `kubernetes.io/service-account-token`. The control plane fills such a Secret
    /// with the token of a ServiceAccount of its namespace, so the plugin can act as each of them. Default: false.
    #[serde(default)]
    pub service_account_tokens: bool,
}

/// A kind that a plugin may read, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RelatedRef {
    /// The kind.
    #[serde(flatten)]
    pub kind: KindRef,
    /// Namespaces beside the parent's own. Left out: for a namespaced parent no others, for a cluster-scoped one any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 63)))]
    pub namespaces: Option<Vec<String>>,
}

impl PluginSpec {
    /// Refuses fields that have another name now. The schema refuses them as well, but an older one may be installed, or a
    /// Plugin may have been stored before.
    ///
    /// # Errors
    /// One of them is set: the message names it and the new field.
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

    /// What it grants of the kinds that the component asks for.
    pub fn allowance(&self) -> Allowance {
        let shared = |names: &Option<Vec<String>>| {
            names.as_ref().map(|names| names.iter().map(|name| Arc::from(name.as_str())).collect())
        };
        let owned = |named: &ChildRef| Owned {
            kind: named.kind.gvk(),
            namespaces: shared(&named.namespaces),
            tokens: named.service_account_tokens,
        };
        let beyond = |named: &RelatedRef| Beyond { kind: named.kind.gvk(), namespaces: shared(&named.namespaces) };
        Allowance {
            children: self.grants.children.as_ref().map(|kinds| kinds.iter().map(owned).collect()),
            related: self.grants.related.iter().flatten().map(beyond).collect(),
        }
    }
}

impl KindRef {
    /// The kind.
    pub fn gvk(&self) -> Gvk {
        Gvk::from_api_version(&self.api_version, &self.kind)
    }
}

/// Bounds of each call. What is not given has the contract's default. What is more than the host's caps (flags of
/// `windlass run`) is the cap, and the condition `Granted` says so.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LimitsSpec {
    /// Linear memory. Default 64Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<ByteQuantity>,
    /// Elements over all tables of the component. Default 1048576.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10_000_000))]
    pub table_elements: Option<i32>,
    /// Core instances that the component is made of. Default 512.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub instances: Option<i32>,
    /// Wall time of a whole call, as in `1s`. Default 1s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "duration")]
    pub deadline: Option<kube::core::Duration>,
    /// Bytes handed to the plugin. Default 4Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_bytes: Option<ByteQuantity>,
    /// Bytes of an answer. Default 4Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_bytes: Option<ByteQuantity>,
    /// Children in an answer. Default 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub children: Option<i32>,
    /// Bytes kept of what a call logs; what is more is dropped and counted. Default 64Ki.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_bytes: Option<ByteQuantity>,
    /// Events in an answer. Default 16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub events: Option<i32>,
    /// Requirements in an answer. Default 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub requirements: Option<i32>,
    /// Depth of each JSON document in an answer. Default 128.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 200))]
    pub json_depth: Option<i32>,
}

impl LimitsSpec {
    /// The limits, with defaults for what is not given.
    ///
    /// # Errors
    /// An amount or a time that makes no sense, in words for a user. The schema refuses most of them, but an older CRD may
    /// be installed.
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
        some.ok_or_else(|| format!("{wanted} makes no sense as a limit; write it as in 64Mi"))
    });
    bytes.map_err(|error| in_limits(field, &error))
}

fn count(field: &str, wanted: Option<i32>, range: RangeInclusive<i32>, default: usize) -> Result<usize, String> {
    let Some(wanted) = wanted else { return Ok(default) };
    let inside = range.contains(&wanted).then_some(wanted).and_then(|wanted| usize::try_from(wanted).ok());
    inside
        .ok_or_else(|| in_limits(field, &format!("{wanted} is not a number from {} to {}", range.start(), range.end())))
}

/// A duration that is longer than nothing.
///
/// # Errors
/// In words for a user, to follow the name of a field.
pub fn positive(duration: &kube::core::Duration) -> Result<Duration, String> {
    let plain = Duration::from(*duration);
    if duration.is_negative() || plain.is_zero() {
        return Err("must be longer than nothing".to_owned());
    }
    Ok(plain)
}

/// What the host says of a Plugin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginStatus {
    /// The generation that was acted on last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Digest of the live component; while `Available` is False, of the one that was live last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_digest: Option<String>,
    /// The first twelve digits of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest12: Option<String>,
    /// Digest of the component about which the host has asked for every parent once since it went live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconciled_digest: Option<String>,
    /// Value of the annotation `windlass.dev/pushed-at` that the host acted upon last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handled_push: Option<String>,
    /// Digest of logic that was delivered but is not live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate_digest: Option<String>,
    /// Digest of the logic that was live before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_digest: Option<String>,
    /// Digest of the logic that a person went back from (`windlass.dev/rollback`). Newer logic goes live as ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolled_back_from: Option<String>,
    /// Version of the live logic, as it calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The kind whose objects are reconciled, as in `Echo.v1.my-operator.dev`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_kind: Option<String>,
    /// Since when the Plugin has that kind. A kind has one Plugin: of several that want it the one that has it longest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "date_time")]
    pub parent_kind_since: Option<String>,
    /// The kinds that it may own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_kinds: Option<Vec<String>>,
    /// Kinds that it owned before and may no longer own: of some of them there may be children still, which are left alone
    /// and go with the Plugin if `deletionPolicy` says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_child_kinds: Option<Vec<String>>,
    /// Whether that kind is somebody else's: the status of its objects is left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decorates: Option<bool>,
    /// Whether parents may have the finalizer `windlass.dev/<plugin>`, which logic that does not finalize takes off: some
    /// that does is live, or was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_finalizers: Option<bool>,
    /// How many parents there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parents: Option<i64>,
    /// How many of them are not as the plugin wants them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing: Option<i64>,
    /// The newest failure of a parent; written at most every ten seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<LastFailure>,
    /// Name of the deletions that are held for all parents, as the annotation `windlass.dev/allow-deletion` takes it. It
    /// stays until they are allowed or wanted no longer, also while nothing is live and when other logic comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_deletions_hash: Option<String>,
    /// How far the live component, config and grants are on their way to all parents. It is written before they go live, so
    /// that a host that starts again knows what there was before them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<PluginRollout>,
    /// Conditions `Fetched`, `Verified`, `Compiled`, `Granted`, `Ready` and `Available`; `Reconciling` and `Stalled` while they are true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Option<Vec<Condition>>,
}

impl PluginStatus {
    /// The kinds of which there may be children.
    pub fn had(&self) -> ChildKinds {
        let kinds = self.former_child_kinds.iter().chain(&self.child_kinds).flatten();
        let mut had = ChildKinds::default();
        had.add(&kinds.filter_map(|kind| kind.parse::<Gvk>().ok()).collect::<Vec<_>>());
        had
    }
}

/// A component, config and grants on their way to all parents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginRollout {
    /// Names the component, config, grants, limits and selectors.
    pub hash: String,
    /// Whether every parent was reconciled with them at least once and no deletion is blocked.
    pub decided: bool,
    /// How many children all parents had before; there while their deletions are undecided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children: Option<i64>,
    /// When it began; there while deletions are undecided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "date_time")]
    pub since: Option<String>,
}

impl PluginRollout {
    /// As the guard of deletions knows it.
    pub fn record(&self) -> Record {
        let children = self.children.and_then(|children| usize::try_from(children).ok());
        let since = self.since.as_ref().and_then(|since| since.parse().ok());
        Record { hash: self.hash.clone(), is_decided: self.decided, began: children.zip(since) }
    }
}

/// Why a parent is not as the plugin wants it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastFailure {
    /// As in a parent's condition `Ready`.
    pub reason: String,
    /// Namespace and name of the parent.
    pub object: String,
    /// As in a parent's condition `Ready`.
    pub message: String,
    /// Since when it fails like this.
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

/// As in the API of Kubernetes (meta/v1, `LabelSelector`).
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
    fn every_plugin_among_the_samples_is_a_whole_manifest() {
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
                    assert!(plugin.spec.source.place().is_ok(), "{}", path.display());
                    plugins += 1;
                }
            }
        }
        assert!(plugins > 0, "there is one with its configuration");
    }

    #[test]
    fn plugin_with_a_replaced_field_is_refused_with_the_name_of_the_new_one_by_schema_and_host() {
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
                let says = |field: &str, text: &str| rule[field].as_str().is_some_and(|said| said.contains(text));
                says("message", &message) && says("rule", &format!("has(self.spec{old})"))
            });
            assert!(is_ruled, "{message}: {rules:#?}");
            // The API server knows a field only if the schema has it.
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
    fn limits_that_are_not_given_are_those_of_the_contract() {
        assert_eq!(resolve(json!({})), Ok(Limits::default()));
    }

    #[test]
    fn every_limit_can_be_given() {
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
    fn a_number_outside_the_schemas_bounds_is_refused_by_name_also_where_an_older_schema_lets_it_in() {
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
    fn amounts_and_times_that_make_no_sense_are_refused_by_name() {
        for name in ["memory", "requestBytes", "responseBytes", "logBytes"] {
            for bad in ["0", "0Mi", "much"] {
                let error = resolve(json!({name: bad})).expect_err(bad);
                assert!(error.starts_with(&format!("spec.limits.{name}: ")) && error.contains("as in 64Mi"), "{error}");
            }
        }
        for bad in ["0s", "-1s"] {
            let error = resolve(json!({"deadline": bad})).expect_err(bad);
            assert_eq!(error, "spec.limits.deadline: must be longer than nothing");
        }
    }
}
