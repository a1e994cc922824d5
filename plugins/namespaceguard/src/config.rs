//! The Plugin's `spec.config`: the quota and limits of guarded Namespaces, and the egress of their Pods.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::{Failure, Quantity, Value, checks, json, spec::ResourceList};

/// Quota, container limits and egress of every guarded Namespace. Each field has a default.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Hard limits of the ResourceQuota of each Namespace, by resource name. Default: 50 Pods, requests of 4 CPUs and 8Gi, limits
    /// of 8 CPUs and 16Gi.
    pub quota: ResourceList,
    /// Requests and limits of containers that set none themselves.
    pub container: Container,
    /// Egress that the default-deny NetworkPolicy allows. Default: none.
    pub network: Network,
}

/// Requests and limits of containers that set none themselves: `defaultRequest` and `default` of the LimitRange.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Container {
    /// Requests of a container that sets none, by resource name. Default: cpu 100m, memory 128Mi.
    pub request: ResourceList,
    /// Limits of a container that sets none, by resource name. Default: cpu 500m, memory 512Mi.
    pub limit: ResourceList,
}

/// Egress that the default-deny NetworkPolicy allows. Other egress from a guarded Namespace is denied, unless another policy
/// allows it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Network {
    /// Whether Pods may reach port 53 (UDP and TCP) of any server, for DNS. Default: false.
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
