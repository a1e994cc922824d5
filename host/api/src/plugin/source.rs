//! The source of a component, and the keys that must have signed it.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::schemas;

/// Source of a component: exactly one of the fields.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, KubeSchema, Serialize, Deserialize)]
#[x_kube(validation = Rule::new("[has(self.configMap), has(self.oci)].filter(one, one).size() == 1")
    .message("a source is exactly one of configMap and oci"))]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// ConfigMap that contains the component, or the head of a component in parts.
    pub config_map: Option<ConfigMapSource>,
    /// OCI artifact in a registry that contains the component.
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
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OciSource {
    /// Reference of the artifact, as in `registry.example/team/echo:1.2`. With `@sha256:…` in place of the tag, the
    /// reference names the artifact of that digest, even if tags move.
    #[schemars(length(min = 1, max = 512))]
    pub reference: String,
    /// Secret of type `kubernetes.io/dockerconfigjson` in the host's namespace, with the registry's credentials.
    /// Default: none; the registry is read anonymously.
    pub pull_secret_ref: Option<SecretRef>,
    /// Renamed: use `spec.source.oci.pullSecretRef`. A Plugin that sets this field is rejected.
    #[serde(default)]
    #[schemars(schema_with = "schemas::any_object")]
    pub pull_secret: Option<serde_json::Value>,
    /// Time between two checks of the digest that the tag points to, as in `5m`. Default: `5m`.
    #[serde(default)]
    #[schemars(schema_with = "schemas::duration")]
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
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, KubeSchema, Serialize, Deserialize)]
#[x_kube(validation = Rule::new("has(self.inline) != has(self.secret)")
    .message("a public key is exactly one of inline and secret"))]
#[serde(rename_all = "camelCase")]
pub struct PublicKey {
    /// One or more public keys in PEM, as in `cosign.pub`.
    #[schemars(length(min = 1, max = 16384))]
    pub inline: Option<String>,
    /// Key of a Secret in the host's namespace that contains one or more public keys in PEM.
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

fn default_public_key() -> String {
    "cosign.pub".to_owned()
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
