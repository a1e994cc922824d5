//! A component into a registry, in the layout of the CNCF ("Wasm OCI Artifact layout").

use std::collections::BTreeMap;

use serde_json::json;
use windlass_core::digest::Digest;

use super::manifest::{MANIFEST, WASM_CONFIG, WASM_LAYER};
use super::{Registry, RegistryError};

/// A component that is to be an artifact.
#[derive(Debug)]
pub struct NewArtifact<'a> {
    /// The component.
    pub bytes: Vec<u8>,
    /// The interfaces that it imports.
    pub imports: &'a [String],
    /// The interfaces that it exports.
    pub exports: &'a [String],
    /// What is said of it.
    pub annotations: BTreeMap<&'a str, &'a str>,
}

/// Puts a component where the registry's reference says; answers with its manifest's digest. The same component with the
/// same annotations is the same artifact.
///
/// # Errors
/// If the registry does not take it.
pub async fn push(registry: &Registry, new: NewArtifact<'_>) -> Result<Digest, RegistryError> {
    let NewArtifact { bytes: component, imports, exports, annotations } = new;
    let layer = Digest::of(&component).to_string();
    let config = json!({
        "created": "1970-01-01T00:00:00Z",
        "architecture": "wasm",
        "os": "wasip2",
        "layerDigests": [layer],
        "component": {"exports": exports, "imports": imports},
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
