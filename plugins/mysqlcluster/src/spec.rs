//! The spec of a cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::{
    Failure, Quantity,
    checks::{self, DNS_SUBDOMAIN, positive_rule},
};

/// Desired state of a MySQLCluster: independent MySQL servers without replication.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [positive_rule("storageSize")]))]
pub struct MySQLClusterSpec {
    /// Version of MySQL: a tag of the image `mysql`, as in `8.4`.
    #[schemars(length(min = 1, max = 128), regex(pattern = "^[A-Za-z0-9_][A-Za-z0-9_.-]*$"))]
    pub version: String,
    /// Desired number of MySQL servers, 1 to 9.
    #[schemars(range(min = 1, max = 9))]
    pub replicas: u32,
    /// Requested capacity of each server's volume, as in `10Gi`. It can grow if the storage class allows it, but not be less
    /// than the size of an existing volume.
    pub storage_size: Quantity,
    /// Compute resources of each server. Requests and limits are equal.
    #[serde(default)]
    pub resources: Resources,
    /// Secret with the password of the MySQL user `root`. A server reads it only at its first start, so a later change does
    /// not affect servers that have data. If unset, a password is generated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_password_secret_ref: Option<SecretKeyRef>,
    /// Whether to delete the volumes and the generated password with the MySQLCluster. If false, they are retained for a
    /// later MySQLCluster of the same name. Default: false.
    #[serde(default)]
    pub delete_data: bool,
}

/// Compute resources of each server. Requests and limits are equal.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("x-kubernetes-validations" = [positive_rule("cpu"), positive_rule("memory")]))]
pub struct Resources {
    /// CPU request and limit of each server, as in `500m`. Default: 500m.
    pub cpu: Quantity,
    /// Memory request and limit of each server, as in `1Gi`. Default: 1Gi.
    pub memory: Quantity,
}

impl Default for Resources {
    fn default() -> Self {
        Self { cpu: Quantity::from_static("500m"), memory: Quantity::from_static("1Gi") }
    }
}

/// Reference to a key of a Secret in the namespace of the MySQLCluster.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct SecretKeyRef {
    /// Name of the Secret, in the namespace of the MySQLCluster.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,
    /// Key of the password in the Secret. Default: password.
    #[serde(default = "password")]
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[-._a-zA-Z0-9]+$"))]
    pub key: String,
}

/// The key of a generated password, and the default key.
pub(crate) const PASSWORD: &str = "password";

fn password() -> String {
    PASSWORD.to_owned()
}

impl MySQLClusterSpec {
    /// Checks what only CEL rules of the schema say.
    ///
    /// # Errors
    ///
    /// [`Failure::invalid_field`], naming the field.
    pub fn check(&self) -> Result<(), Failure> {
        checks::positive("spec.storageSize", &self.storage_size)?;
        checks::positive("spec.resources.cpu", &self.resources.cpu)?;
        checks::positive("spec.resources.memory", &self.resources.memory)
    }
}
