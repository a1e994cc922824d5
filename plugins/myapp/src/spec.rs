//! What a user asks for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::{Failure, Quantity, checks};

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
    #[schemars(
        length(max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub ingress_host: Option<String>,
}

/// What each Pod asks of its node.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "quantity(string(self.cpu)).isGreaterThan(quantity('0'))", "message": "cpu must be more than 0", "fieldPath": ".cpu" },
    { "rule": "quantity(string(self.memory)).isGreaterThan(quantity('0'))", "message": "memory must be more than 0", "fieldPath": ".memory" },
]))]
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

/// One environment variable.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct EnvVar {
    /// Its name.
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[-._a-zA-Z][-._a-zA-Z0-9]*$"))]
    pub name: String,
    /// Its value.
    #[serde(default)]
    #[schemars(length(max = 32768))]
    pub value: String,
}

fn one() -> u32 {
    1
}

fn port() -> u32 {
    8080
}

impl MyAppSpec {
    /// Says what is wrong with it. The CRD's schema says the same, to who writes through the API server today.
    ///
    /// # Errors
    ///
    /// [`Failure::invalid`] with the field.
    pub fn check(&self) -> Result<(), Failure> {
        checks::image("spec.image", &self.image)?;
        checks::range("spec.replicas", self.replicas, 1..=100)?;
        checks::range("spec.port", self.port, 1..=65535)?;
        checks::positive("spec.resources.cpu", &self.resources.cpu)?;
        checks::positive("spec.resources.memory", &self.resources.memory)?;
        checks::env_names("spec.env", self.env.iter().map(|variable| &*variable.name))?;
        self.ingress_host.iter().try_for_each(|host| checks::dns_subdomain("spec.ingressHost", host))
    }
}
