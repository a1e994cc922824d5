//! Reads components from OCI registries: resolves a reference to a manifest, checks its signatures, and downloads the
//! component.

mod clients;
mod credentials;
mod failure;
#[cfg(test)]
mod fuzz;
pub(crate) mod manifest;
mod reach;
mod reference;
mod registry;
mod response;
mod spool;
mod upload;

use std::path::Path;

use windlass_core::object::reason::PluginReason;
use windlass_core::reconcile::outcome::bounded;
use windlass_core::value::digest::Digest;

use self::manifest::Manifest;
use self::spool::Spool;
use super::trust::{self, Trust};
use super::{Cause, DeliveryError, MAX_SIGNATURE_BYTES};
pub use clients::Http;
pub use credentials::{Credentials, DOCKER_CONFIG_KEY, of_docker_config};
pub use manifest::Descriptor;
pub use reference::{Reference, Version};
pub use registry::{Registry, Spooled};
pub use upload::{NewArtifact, push};

/// Maximum number of signatures that are checked per artifact and format.
const MAX_SIGNATURES: usize = 32;

/// A component in a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Artifact {
    /// Digest of the manifest, which signatures refer to.
    pub manifest: Digest,
    /// Digest of the component.
    pub component: Digest,
    /// Size of the component in bytes.
    pub size: u64,
}

/// Returns the artifact that the reference points to now.
///
/// # Errors
/// If the registry does not return the manifest, or the artifact is not a component.
pub async fn resolve(registry: &Registry) -> Result<Artifact, DeliveryError> {
    let (digest, bytes) = registry.manifest(&registry.reference.version).await?;
    let layer = Manifest::parse(&bytes).and_then(|manifest| manifest.component());
    let layer = layer.map_err(|why| DeliveryError::new(PluginReason::SourceInvalid, bounded(why)));
    let (component, size) = layer?;
    Ok(Artifact { manifest: digest, component, size })
}

/// Downloads the component into an unnamed file on the file system of `folder`. The component takes memory only when
/// the file is read.
///
/// # Errors
/// If the download fails, or the file cannot be written.
pub async fn pull_to(folder: &Path, registry: &Registry, artifact: Artifact) -> Result<Spooled, DeliveryError> {
    let spool = Spool::new(folder).map_err(DeliveryError::unkept)?;
    registry.spool_blob(artifact.component, artifact.size, spool).await
}

/// Returns whether the reference still points to this artifact.
///
/// # Errors
/// If the registry does not respond.
pub async fn is_still(registry: &Registry, artifact: &Artifact) -> Result<bool, DeliveryError> {
    let version = &registry.reference.version;
    if let Version::Digest(digest) = version {
        return Ok(*digest == artifact.manifest);
    }
    Ok(registry.digest(version).await? == Some(artifact.manifest))
}

/// Checks that one of the keys signed the artifact, in the format of cosign 3 or of earlier versions. Content that
/// refers to the artifact and is not a valid signature does not make the check fail.
///
/// # Errors
/// If no key signed the artifact, or the registry does not respond.
pub async fn verify(registry: &Registry, manifest: Digest, trust: &Trust) -> Result<(), DeliveryError> {
    let mut search = Search { registry, manifest, trust, why: None, unasked: None };
    if search.in_bundles().await || search.in_payloads().await {
        return Ok(());
    }
    if let Some(error) = search.unasked {
        return Err(error);
    }
    let what = registry.reference.at(manifest).to_string();
    let Some(why) = search.why else {
        let command = "cosign sign --key KEY --use-signing-config=false --tlog-upload=false";
        return Err(trust::unsigned(&what, &format!("sign it with `{command} {what}`")));
    };
    Err(trust::not_by_keys(&what, &why))
}

/// The search for a valid signature.
struct Search<'a> {
    registry: &'a Registry,
    manifest: Digest,
    trust: &'a Trust,
    /// What is wrong with the last invalid signature.
    why: Option<String>,
    /// Why a signature that may be valid could not be read.
    unasked: Option<DeliveryError>,
}

impl Search<'_> {
    /// Whether a bundle that refers to the artifact has a valid signature.
    async fn in_bundles(&mut self) -> bool {
        let mut found = Candidates::default();
        let registry = self.registry;
        let listed = registry.referrers(self.manifest, |list| {
            if let Some(list) = self.parse(list) {
                found.take(&list.manifests);
            }
        });
        listed.await.unwrap_or_else(|error| self.not_looked_at(error));
        for candidate in found.best() {
            let Some(bundle) = self.bundle(candidate).await else { continue };
            match trust::of_artifact(self.trust, &bundle, self.manifest) {
                Ok(()) => return true,
                Err(why) => self.wrong(why),
            }
        }
        false
    }

    /// Whether a payload under the tag of cosign 1 and 2 has a valid signature.
    async fn in_payloads(&mut self) -> bool {
        let tag = format!("sha256-{}.sig", self.manifest.hex());
        let signatures = self.registry.tagged(&tag).await.unwrap_or_else(|error| self.not_looked_at(error));
        let Some(signatures) = signatures.and_then(|bytes| self.parse(&bytes)) else { return false };
        for layer in
            signatures.layers.iter().filter(|layer| layer.media_type == trust::PAYLOAD_TYPE).take(MAX_SIGNATURES)
        {
            let Some(signature) = &layer.annotations.signature else { continue };
            let Some(payload) = self.blob(layer).await else { continue };
            match trust::of_payload(self.trust, &payload, signature, self.manifest) {
                Ok(()) => return true,
                Err(why) => self.wrong(why),
            }
        }
        false
    }

    async fn bundle(&mut self, candidate: Digest) -> Option<Vec<u8>> {
        let manifest = match self.registry.manifest(&Version::Digest(candidate)).await {
            Ok((_, bytes)) => self.parse(&bytes)?,
            Err(error) => return self.not_looked_at(error),
        };
        let layer = manifest.layers.iter().find(|layer| layer.media_type.starts_with(trust::BUNDLE_TYPE))?;
        self.blob(layer).await
    }

    /// Reads a signature's bytes. A blob that is too large or has an invalid digest is not a signature.
    async fn blob(&mut self, layer: &Descriptor) -> Option<Vec<u8>> {
        let digest = layer.digest.parse::<Digest>().ok()?;
        if layer.size > MAX_SIGNATURE_BYTES {
            let size = layer.size;
            self.wrong(format!("the signature has {size} bytes, more than the limit of {MAX_SIGNATURE_BYTES}"));
            return None;
        }
        match self.registry.blob(digest, layer.size).await {
            Ok(bytes) => Some(bytes),
            Err(error) => self.not_looked_at(error),
        }
    }

    fn parse(&mut self, bytes: &[u8]) -> Option<Manifest> {
        Manifest::parse(bytes).map_err(|why| self.wrong(why)).ok()
    }

    /// Records what is wrong with a signature; the text may quote parts of it.
    fn wrong(&mut self, why: String) {
        self.why = Some(bounded(why));
    }

    /// Records why a signature could not be read, and returns the default value.
    fn not_looked_at<T: Default>(&mut self, error: DeliveryError) -> T {
        match error.cause {
            Cause::NoResponse | Cause::Denied => self.unasked = Some(error),
            Cause::NotInRegistry
            | Cause::InvalidResponse
            | Cause::Tampered
            | Cause::Unkept
            | Cause::Distrust
            | Cause::Other => self.wrong(error.to_string()),
        }
        T::default()
    }
}

/// Content that refers to an artifact and may be a signature.
#[derive(Default)]
struct Candidates {
    /// Content whose artifact type is that of a bundle.
    bundles: Vec<Digest>,
    /// Content of another type: old clients write another type into the list under the tag that replaces the referrers
    /// API.
    others: Vec<Digest>,
}

impl Candidates {
    /// Adds the candidates of a list, up to the limit, because the number and length of lists are not limited.
    fn take(&mut self, list: &[Descriptor]) {
        for descriptor in list.iter().filter(|descriptor| trust::may_be_signature(descriptor)) {
            let is_bundle = descriptor.artifact_type.starts_with(trust::BUNDLE_TYPE);
            let like = if is_bundle { &mut self.bundles } else { &mut self.others };
            if like.len() < MAX_SIGNATURES {
                like.extend(descriptor.digest.parse::<Digest>());
            }
        }
    }

    fn best(self) -> impl Iterator<Item = Digest> {
        self.bundles.into_iter().chain(self.others).take(MAX_SIGNATURES)
    }
}

#[cfg(test)]
pub(super) mod tests;
