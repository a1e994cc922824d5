//! The spec of an application.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::{
    Failure, Quantity,
    checks::{self, DNS_SUBDOMAIN, positive_rule},
    spec::EnvVar,
};

/// A web application.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MyAppSpec {
    /// The image that it runs.
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^\S+$"))]
    pub image: String,
    /// How many Pods.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100))]
    pub replicas: u32,
    /// The port on which it listens, and its Service.
    #[serde(default = "port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: u32,
    /// What each Pod asks of its node.
    #[serde(default)]
    pub resources: Resources,
    /// Environment variables.
    #[serde(default)]
    #[schemars(
        length(max = 500),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub env: Vec<EnvVar>,
    /// The host name under which an Ingress makes it known. Without it there is no Ingress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub ingress_host: Option<String>,
}

/// What each Pod asks of its node.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("x-kubernetes-validations" = [positive_rule("cpu"), positive_rule("memory")]))]
pub struct Resources {
    /// Processors, like 100m.
    pub cpu: Quantity,
    /// Memory, like 128Mi.
    pub memory: Quantity,
}

impl Default for Resources {
    fn default() -> Self {
        Self { cpu: Quantity::from_static("100m"), memory: Quantity::from_static("128Mi") }
    }
}

fn one() -> u32 {
    1
}

fn port() -> u32 {
    8080
}

impl MyAppSpec {
    /// Checks what the schema of the CRD checks too, for objects that are older than the schema.
    ///
    /// # Errors
    ///
    /// [`Failure::invalid`], naming the field.
    pub fn check(&self) -> Result<(), Failure> {
        checks::image("spec.image", &self.image)?;
        checks::range("spec.replicas", self.replicas, 1..=100)?;
        checks::range("spec.port", self.port, 1..=65535)?;
        checks::positive("spec.resources.cpu", &self.resources.cpu)?;
        checks::positive("spec.resources.memory", &self.resources.memory)?;
        checks::env_vars("spec.env", &self.env)?;
        self.ingress_host.iter().try_for_each(|host| checks::dns_subdomain("spec.ingressHost", host))
    }
}
