//! A component into a registry, in the layout of the CNCF ("Wasm OCI Artifact layout").

use std::collections::BTreeMap;

use serde_json::json;
use windlass_core::digest::Digest;

use super::manifest::{MANIFEST, WASM_CONFIG, WASM_LAYER};
use super::{Registry, RegistryError};

/// Puts a component where the registry's reference says, with what is said of it; answers with its manifest's digest. The
/// same component with the same annotations is the same artifact.
///
/// # Errors
/// If the registry does not take it.
pub async fn push(
    registry: &Registry,
    component: Vec<u8>,
    annotations: &BTreeMap<&str, String>,
) -> Result<Digest, RegistryError> {
    let layer = Digest::of(&component).to_string();
    let config = json!({
        "created": "1970-01-01T00:00:00Z",
        "architecture": "wasm",
        "os": "wasip2",
        "layerDigests": [layer],
        "component": {"exports": [], "imports": []},
    })
    .to_string();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": WASM_CONFIG, "digest": Digest::of(config.as_bytes()).to_string(), "size": config.len()},
        "layers": [{"mediaType": WASM_LAYER, "digest": layer, "size": component.len()}],
        "annotations": annotations,
    })
    .to_string();
    registry.put_blob(config.into_bytes()).await?;
    registry.put_blob(component).await?;
    registry.put_manifest(manifest.into_bytes()).await
}
