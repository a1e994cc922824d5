//! Types that the specs of many kinds share. They have the same fields as the Kubernetes types of these names, and a schema with
//! the bounds that the API server checks.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;

/// Quantities by the name of their resource: `cpu`, `memory`, `ephemeral-storage`, `example.com/gpu`.
pub type ResourceList = BTreeMap<String, Quantity>;

/// Environment variable of a container.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct EnvVar {
    /// Name of the environment variable.
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[-._a-zA-Z][-._a-zA-Z0-9]*$"))]
    pub name: String,
    /// Value of the environment variable. Default: empty.
    #[serde(default)]
    #[schemars(length(max = 32768))]
    pub value: String,
}
