//! Parses the manifests of artifacts, and finds the layer with the component.

use std::fmt;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use windlass_core::value::digest::Digest;

use crate::MAX_COMPONENT_BYTES;

/// Media type of a manifest (OCI image specification 1.1).
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// Media type of a list of manifests (an image index).
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// Media type of a component's configuration (CNCF, "Wasm OCI Artifact layout").
pub const WASM_CONFIG: &str = "application/vnd.wasm.config.v0+json";
/// Media type of a component's layer in the CNCF layout.
pub const WASM_LAYER: &str = "application/wasm";
/// Media type of a component's layer in the layout that preceded CNCF's.
const OLD_WASM_LAYER: &str = "application/vnd.wasm.content.layer.v1+wasm";

/// Maximum number of layers of an artifact, and of manifests in a list. The entry `{},` has three bytes, but takes
/// fifty times as many in memory.
const MAX_ENTRIES: usize = 1000;

/// A manifest, or a list of manifests, with the fields that the host reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// Media type; empty if the manifest omits it.
    #[serde(default)]
    pub media_type: String,
    /// Type of the artifact; empty if the manifest gives none.
    #[serde(default)]
    pub artifact_type: String,
    /// Layers of the artifact.
    #[serde(default, deserialize_with = "entries")]
    pub layers: Vec<Descriptor>,
    /// Manifests of a list (an image index); empty for a single manifest.
    #[serde(default, deserialize_with = "entries")]
    pub manifests: Vec<Descriptor>,
}

/// A descriptor: a reference to content in a registry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// Media type of the content.
    #[serde(default)]
    pub media_type: String,
    /// Type of the artifact, for a manifest in a list; otherwise empty.
    #[serde(default)]
    pub artifact_type: String,
    /// Digest of the content, by any algorithm.
    #[serde(default)]
    pub digest: String,
    /// Size of the content in bytes.
    #[serde(default)]
    pub size: u64,
    /// Annotations of the descriptor.
    #[serde(default)]
    pub annotations: Annotations,
}

/// The annotations that the host reads. All other annotations are dropped while parsing, because their number is
/// unlimited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Annotations {
    /// Type of the bundle's statement, set by cosign.
    #[serde(rename = "dev.sigstore.bundle.predicateType")]
    pub predicate_type: Option<String>,
    /// Signature of a layer that is a payload of cosign 1 or 2, in base64.
    #[serde(rename = "dev.cosignproject.cosign/signature")]
    pub signature: Option<String>,
}

/// Deserializes a list of at most [`MAX_ENTRIES`].
fn entries<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Descriptor>, D::Error> {
    struct Entries;

    impl<'de> Visitor<'de> for Entries {
        type Value = Vec<Descriptor>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {MAX_ENTRIES} entries")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut entries = Vec::new();
            while let Some(entry) = list.next_element()? {
                if entries.len() == MAX_ENTRIES {
                    return Err(A::Error::custom(format_args!("a list of more than {MAX_ENTRIES} entries")));
                }
                entries.push(entry);
            }
            Ok(entries)
        }
    }

    deserializer.deserialize_seq(Entries)
}

impl Manifest {
    /// Parses a manifest.
    ///
    /// # Errors
    /// If the bytes are not a valid manifest; the message is for users.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes).map_err(|error| format!("invalid manifest: {error}"))
    }

    /// Digest and size of the component, whose layer is not compressed, if the artifact has exactly one.
    ///
    /// # Errors
    /// Why the artifact is not a component; the message is for users.
    pub fn component(&self) -> Result<(Digest, u64), String> {
        if !self.manifests.is_empty() || self.media_type == INDEX {
            return Err("it is a list of manifests (an image index); name the one manifest of the component".to_owned());
        }
        let is_component = |layer: &&Descriptor| matches!(&*layer.media_type, WASM_LAYER | OLD_WASM_LAYER);
        let mut components = self.layers.iter().filter(is_component);
        let layer = match (components.next(), components.next()) {
            (Some(layer), None) => layer,
            (Some(_), Some(_)) => return Err("it has several layers of WebAssembly; a component is one".to_owned()),
            (None, _) => {
                let types: Vec<_> = self.layers.iter().take(4).map(|layer| format!("{:?}", layer.media_type)).collect();
                let found = if types.is_empty() { "nothing".to_owned() } else { types.join(", ") };
                return Err(format!(
                    "it has no layer of the type {WASM_LAYER:?} or {OLD_WASM_LAYER:?}, but {found}; push a component with \
                     `windlass push --oci`"
                ));
            }
        };
        if layer.size > MAX_COMPONENT_BYTES {
            return Err(format!(
                "the component has {} bytes, more than the limit of {MAX_COMPONENT_BYTES}",
                layer.size
            ));
        }
        let digest = layer.digest.parse().map_err(|error| format!("the component's layer: {error}"))?;
        Ok((digest, layer.size))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn component(manifest: &Value) -> Result<(Digest, u64), String> {
        Manifest::parse(manifest.to_string().as_bytes())?.component()
    }

    fn layer(media_type: &str, size: u64) -> Value {
        json!({"mediaType": media_type, "digest": Digest::of(b"component").to_string(), "size": size})
    }

    #[test]
    fn component_layer_is_found_under_both_media_types() {
        for media_type in ["application/wasm", "application/vnd.wasm.content.layer.v1+wasm"] {
            let readme = layer("text/markdown", 3);
            let manifest = json!({"schemaVersion": 2, "layers": [readme, layer(media_type, 9)]});
            assert_eq!(component(&manifest), Ok((Digest::of(b"component"), 9)));
        }
    }

    #[test]
    fn manifest_without_exactly_one_component_layer_is_rejected_with_the_reason() {
        let wasm = layer(WASM_LAYER, 9);
        let bad_digest = json!({"mediaType": WASM_LAYER, "digest": "sha512:ab", "size": 9});
        for (manifest, reason) in [
            (json!({"layers": []}), "but nothing; push a component"),
            (json!({"layers": [layer("application/vnd.oci.image.layer.v1.tar+gzip", 9)]}), "tar+gzip"),
            (json!({"layers": [wasm, wasm]}), "several layers"),
            (json!({"mediaType": INDEX}), "image index"),
            (json!({"manifests": [{"digest": "sha256:ab"}]}), "image index"),
            (json!({"layers": [layer(WASM_LAYER, MAX_COMPONENT_BYTES + 1)]}), "more than the limit"),
            (json!({"layers": [bad_digest]}), "is not a digest"),
            (json!({"layers": 3}), "invalid manifest"),
            (json!({"layers": vec![json!({}); 1000]}), "no layer of the type"),
            (json!({"layers": vec![json!({}); 1001]}), "more than 1000 entries"),
            (json!({"manifests": vec![json!({}); 1001]}), "more than 1000 entries"),
            (json!([]), "but nothing"),
            (json!("text"), "invalid manifest"),
        ] {
            let error = component(&manifest).expect_err(reason);
            assert!(error.contains(reason), "{error}");
        }
    }
}
