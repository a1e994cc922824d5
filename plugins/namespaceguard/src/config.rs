//! The Plugin's `spec.config`: the sizes of guarded Namespaces, and what their Pods may reach.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::{Failure, Quantity, Value, checks, json, spec::ResourceList};

/// The sizes of every guarded Namespace. What is left out is as in [`Config::default`].
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// What all Pods of a Namespace may take together: a ResourceQuota's `hard`.
    pub quota: ResourceList,
    /// What a container has that says nothing itself.
    pub container: Container,
    /// What Pods may ask of others.
    pub network: Network,
}

/// What a container has that says nothing itself: a LimitRange's `defaultRequest` and `default`.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Container {
    /// What it is sure to get.
    pub request: ResourceList,
    /// What it gets at most.
    pub limit: ResourceList,
}

/// What Pods may ask of others. Nothing but this leaves a guarded Namespace, unless another policy allows it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Network {
    /// Names of any server on port 53.
    pub allow_dns: bool,
}

fn amounts<const N: usize>(amounts: [(&str, &'static str); N]) -> ResourceList {
    amounts.into_iter().map(|(resource, amount)| (resource.to_owned(), Quantity::from_static(amount))).collect()
}

impl Default for Config {
    fn default() -> Self {
        Self {
            quota: amounts([
                ("pods", "50"),
                ("requests.cpu", "4"),
                ("requests.memory", "8Gi"),
                ("limits.cpu", "8"),
                ("limits.memory", "16Gi"),
            ]),
            container: Container::default(),
            network: Network::default(),
        }
    }
}

impl Default for Container {
    fn default() -> Self {
        Self {
            request: amounts([("cpu", "100m"), ("memory", "128Mi")]),
            limit: amounts([("cpu", "500m"), ("memory", "512Mi")]),
        }
    }
}

impl Config {
    /// Checks what the API server would reject.
    ///
    /// # Errors
    ///
    /// [`Failure::failed`], naming the resource.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match checks::request_over_limit(&self.container.request, &self.container.limit) {
            Some((resource, request, limit)) => Err(Failure::failed(format!(
                "the Plugin's spec.config.container: a request of {request} {resource} is more than the limit of {limit}"
            ))),
            None => Ok(()),
        }
    }
}

impl Network {
    pub(crate) fn egress(&self) -> Vec<Value> {
        let port = |protocol: &str| json!({ "protocol": protocol, "port": 53 });
        if self.allow_dns { vec![json!({ "ports": [port("UDP"), port("TCP")] })] } else { Vec::new() }
    }
}
