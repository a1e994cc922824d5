//! The spec of an application.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::{
    Failure, Quantity,
    checks::{self, DNS_SUBDOMAIN, positive_rule},
    spec::EnvVar,
};

/// Desired state of a MyApp.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MyAppSpec {
    /// Container image of the Pods.
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^\S+$"))]
    pub image: String,
    /// Desired number of Pods, 1 to 100. Default: 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100))]
    pub replicas: u32,
    /// Port of the container and of the Service, 1 to 65535. Default: 8080.
    #[serde(default = "port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: u32,
    /// Compute resources that each Pod requests.
    #[serde(default)]
    pub resources: Resources,
    /// Environment variables of the container, at most 500. Their names must be unique.
    #[serde(default)]
    #[schemars(
        length(max = 500),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub env: Vec<EnvVar>,
    /// Host name of the Ingress. If unset, there is no Ingress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub ingress_host: Option<String>,
}

/// Compute resources that each Pod requests.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("x-kubernetes-validations" = [positive_rule("cpu"), positive_rule("memory")]))]
pub struct Resources {
    /// CPU request of each Pod, as in `500m`. Default: 100m.
    pub cpu: Quantity,
    /// Memory request of each Pod, as in `256Mi`. Default: 128Mi.
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
    /// Checks what only CEL rules of the schema say.
    ///
    /// # Errors
    ///
    /// [`Failure::invalid_field`], naming the field.
    pub fn check(&self) -> Result<(), Failure> {
        checks::positive("spec.resources.cpu", &self.resources.cpu)?;
        checks::positive("spec.resources.memory", &self.resources.memory)
    }
}
