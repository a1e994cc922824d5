//! The spec of a cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::{
    Failure, Quantity,
    checks::{self, DNS_SUBDOMAIN, positive_rule},
};

/// Independent MySQL servers. They know nothing of each other: no replication is set up.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [positive_rule("storageSize")]))]
pub struct MySQLClusterSpec {
    /// The version of MySQL: a tag of the image `mysql`.
    #[schemars(length(min = 1, max = 128), regex(pattern = "^[A-Za-z0-9_][A-Za-z0-9_.-]*$"))]
    pub version: String,
    /// How many servers.
    #[schemars(range(min = 1, max = 9))]
    pub replicas: u32,
    /// The size of each server's volume. It may grow, where the storage class can do it, and never shrinks: that is up to
    /// the volumes that exist, so that a growth which turned out to be impossible can be taken back.
    pub storage_size: Quantity,
    /// What each server gets: no less, and no more.
    #[serde(default)]
    pub resources: Resources,
    /// The Secret that holds the password of `root`. Without it, one is generated. MySQL reads it when a server starts for
    /// the first time: changed later, servers that have data keep the password that they have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_password_secret_ref: Option<SecretKeyRef>,
    /// Delete the volumes and the generated password with the cluster. Otherwise they stay, and the next cluster of this
    /// name has them.
    #[serde(default)]
    pub delete_data: bool,
}

/// What each server gets: requests and limits are the same.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("x-kubernetes-validations" = [positive_rule("cpu"), positive_rule("memory")]))]
pub struct Resources {
    /// Processors, like 500m.
    pub cpu: Quantity,
    /// Memory, like 1Gi.
    pub memory: Quantity,
}

impl Default for Resources {
    fn default() -> Self {
        Self { cpu: Quantity::from_static("500m"), memory: Quantity::from_static("1Gi") }
    }
}

/// A key of a Secret in the cluster's namespace.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct SecretKeyRef {
    /// The Secret's name.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,
    /// Its key that holds the password.
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
    /// Checks what the schema of the CRD checks too, for objects that are older than the schema.
    ///
    /// # Errors
    ///
    /// [`Failure::invalid`], naming the field.
    pub fn check(&self) -> Result<(), Failure> {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        let is_tag = (1..=128).contains(&self.version.len())
            && self.version.bytes().all(inner)
            && !self.version.starts_with(['.', '-']);
        if !is_tag {
            return Err(Failure::invalid(format!("spec.version: {:?} is not the tag of an image", self.version)));
        }
        checks::range("spec.replicas", self.replicas, 1..=9)?;
        checks::positive("spec.storageSize", &self.storage_size)?;
        checks::positive("spec.resources.cpu", &self.resources.cpu)?;
        checks::positive("spec.resources.memory", &self.resources.memory)?;
        match &self.root_password_secret_ref {
            Some(secret) => checks::dns_subdomain("spec.rootPasswordSecretRef.name", &secret.name),
            None => Ok(()),
        }
    }
}
