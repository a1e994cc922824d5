//! The custom resources of Windlass. `windlass crd` generates the CRDs from these types.

mod plugin;
mod quantity;

use windlass_core::value::ids::Gvk;

pub use plugin::{
    ChildRef, ConfigMapSource, ConfiguredSource, DeletionPolicy, GrantsSpec, KindRef, LimitsSpec, OciSource, Plugin,
    PluginRollout, PluginSpec, PluginStatus, RelatedRef, SecretRef, Verify, positive,
};
pub use quantity::ByteQuantity;

/// Name of the CRD of Plugins.
pub const PLUGIN_CRD: &str = "plugins.windlass.dev";

/// The kind `Plugin` in `windlass.dev/v1alpha1`.
pub fn plugin_kind() -> Gvk {
    Gvk::from_api_version("windlass.dev/v1alpha1", "Plugin")
}

/// The `OpenAPI` schema of `status.conditions` (KEP-1623), shared by all resources whose status the host writes.
pub fn conditions_schema() -> serde_json::Value {
    serde_json::json!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "reason", "message", "lastTransitionTime"],
            "properties": {
                "type": {"type": "string", "maxLength": 316},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "reason": {"type": "string", "maxLength": 1024},
                "message": {"type": "string", "maxLength": 32768},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "observedGeneration": {"type": "integer", "format": "int64"},
            },
        },
    })
}
