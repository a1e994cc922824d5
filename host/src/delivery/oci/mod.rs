//! Components in registries: a reference → its manifest → whoever signed it → the component.

mod credentials;
mod manifest;
mod reference;
mod registry;
mod upload;

use windlass_core::digest::Digest;

use super::trust::{self, Distrust, Trust};
pub use credentials::{Credentials, DOCKER_CONFIG_KEY, of_docker_config};
use manifest::{Descriptor, Manifest};
pub use reference::Reference;
pub use registry::{Http, Registry, RegistryError};
pub use upload::push;

/// The most signatures of one artifact that are looked at, and the bytes of each.
const MAX_SIGNATURES: usize = 32;
const MAX_SIGNATURE: u64 = 1 << 20;

/// A component in a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Artifact {
    /// Digest of its manifest: what is signed.
    pub manifest: Digest,
    /// Digest of the component.
    pub component: Digest,
    /// Bytes of the component.
    pub size: u64,
}

/// Why there is no component.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OciError {
    /// The registry said so, or nothing.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The artifact is none, by its manifest.
    #[error("{0}")]
    NoComponent(String),
    /// Nobody who is trusted signed it.
    #[error(transparent)]
    Distrusted(#[from] Distrust),
}

/// What the reference names now.
///
/// # Errors
/// If that cannot be found out, or is no component.
pub async fn resolve(registry: &Registry) -> Result<Artifact, OciError> {
    let (digest, bytes) = registry.manifest(&registry.reference().version).await?;
    let layer = Manifest::parse(&bytes).and_then(|manifest| manifest.component()).map_err(OciError::NoComponent)?;
    Ok(Artifact { manifest: digest, component: layer.digest, size: layer.size })
}

/// The component's bytes, which are those of its digest.
///
/// # Errors
/// If the registry gives something else, or nothing.
pub async fn pull(registry: &Registry, artifact: Artifact) -> Result<Vec<u8>, OciError> {
    Ok(registry.blob(artifact.component, artifact.size).await?)
}

/// Whether one of the keys signed the artifact: as cosign 3 does, or as it did before.
///
/// # Errors
/// If nobody did, or the registry cannot be asked.
pub async fn verify(registry: &Registry, manifest: Digest, trust: &Trust) -> Result<(), OciError> {
    let mut last = None;
    for bundle in bundles(registry, manifest).await? {
        match trust::of_artifact(trust, &bundle, manifest) {
            Ok(()) => return Ok(()),
            Err(why) => last = Some(why),
        }
    }
    for (payload, signature) in payloads(registry, manifest).await? {
        match trust::of_payload(trust, &payload, &signature, manifest) {
            Ok(()) => return Ok(()),
            Err(why) => last = Some(why),
        }
    }
    let what = registry.reference().at(manifest).to_string();
    Err(match last {
        Some(why) => Distrust::NotByKeys { what, why },
        None => Distrust::Unsigned { how: format!("sign it with `cosign sign --key KEY {what}`"), what },
    }
    .into())
}

/// The bundles that refer to a manifest.
async fn bundles(registry: &Registry, manifest: Digest) -> Result<Vec<Vec<u8>>, OciError> {
    let Some(list) = registry.referrers(manifest).await? else { return Ok(Vec::new()) };
    let is_bundle = |descriptor: &&Descriptor| {
        // The tag that stands in for a registry's list need not tell the types.
        descriptor.artifact_type.is_empty() || descriptor.artifact_type.starts_with(trust::BUNDLE_TYPE)
    };
    let mut bundles = Vec::new();
    for descriptor in parse(&list)?.manifests.iter().filter(is_bundle).take(MAX_SIGNATURES) {
        let Ok(digest) = descriptor.digest.parse::<Digest>() else { continue };
        let (_, signature) = registry.manifest(&reference::Version::Digest(digest)).await?;
        let layers = parse(&signature)?.layers;
        if let Some(layer) = layers.iter().find(|layer| layer.media_type.starts_with(trust::BUNDLE_TYPE)) {
            bundles.extend(blob(registry, layer).await?);
        }
    }
    Ok(bundles)
}

/// Payloads and their signatures, under the tag of cosign 1 and 2.
async fn payloads(registry: &Registry, manifest: Digest) -> Result<Vec<(Vec<u8>, String)>, OciError> {
    let tag = format!("sha256-{}.sig", manifest.hex());
    let Some(signatures) = registry.tagged(&tag).await? else { return Ok(Vec::new()) };
    let mut payloads = Vec::new();
    for layer in parse(&signatures)?.layers.iter().take(MAX_SIGNATURES) {
        let signature = layer.annotations.get(trust::SIGNATURE_ANNOTATION);
        if let Some(signature) = signature.filter(|_| layer.media_type == trust::PAYLOAD_TYPE)
            && let Some(payload) = blob(registry, layer).await?
        {
            payloads.push((payload, signature.clone()));
        }
    }
    Ok(payloads)
}

/// A signature's bytes. One that nobody could have made in good faith is none.
async fn blob(registry: &Registry, layer: &Descriptor) -> Result<Option<Vec<u8>>, OciError> {
    let Ok(digest) = layer.digest.parse::<Digest>() else { return Ok(None) };
    if layer.size > MAX_SIGNATURE {
        return Ok(None);
    }
    match registry.blob(digest, layer.size).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(RegistryError::Tampered { .. } | RegistryError::NotFound(_) | RegistryError::Invalid(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn parse(bytes: &[u8]) -> Result<Manifest, OciError> {
    Manifest::parse(bytes).map_err(|problem| RegistryError::Invalid(format!("a signature: {problem}")).into())
}
