//! Uploads a component to a registry, in the CNCF layout ("Wasm OCI Artifact layout").

use std::collections::BTreeMap;

use serde_json::json;
use windlass_core::value::digest::Digest;

use super::Registry;
use super::manifest::{MANIFEST, WASM_CONFIG, WASM_LAYER};
use crate::DeliveryError;

/// A component to upload as an artifact.
#[derive(Debug)]
pub struct NewArtifact<'a> {
    /// The bytes of the component.
    pub bytes: Vec<u8>,
    /// Interfaces that the component imports.
    pub imports: &'a [String],
    /// Interfaces that the component exports.
    pub exports: &'a [String],
    /// Annotations of the artifact.
    pub annotations: BTreeMap<&'a str, &'a str>,
}

/// Uploads a component under the registry's reference; returns the digest of its manifest. The same component with the
/// same annotations, imports and exports gives the same artifact.
///
/// # Errors
/// If the registry rejects the upload.
pub async fn push(registry: &Registry, new: NewArtifact<'_>) -> Result<Digest, DeliveryError> {
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
