//! Components in ConfigMaps: one, or a head and its parts.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use windlass_core::digest::Digest;

use super::{Delivered, DeliveryError, Encoding, MAX_COMPONENT_BYTES};
use crate::api::ConfigMapSource;

/// Key of a component in a ConfigMap's `binaryData`; packed ones add `.zst` or `.gz`.
pub const PLUGIN_KEY: &str = "plugin.wasm";
/// Key of the component's digest in a head's `data`.
pub const KEY_DIGEST: &str = "digest";
/// Key of the packing in a head's `data`.
pub const KEY_ENCODING: &str = "encoding";
/// Key of the parts' names in a head's `data`, one a line, in their order.
pub const KEY_PARTS: &str = "parts";
/// Key of a part's bytes in its `binaryData`.
pub const KEY_PART: &str = "part";

/// More parts than any component needs: each holds up to 1 MiB.
const MAX_PARTS: usize = 128;

/// Fetches a component and checks its digest.
///
/// # Errors
/// Whatever keeps it from being whole and the right one; then nothing of it may be used.
pub async fn fetch(
    client: &Client,
    source: &ConfigMapSource,
    pinned: Option<Digest>,
) -> Result<Delivered, DeliveryError> {
    let api = Api::namespaced(client.clone(), &source.namespace);
    let head = get(&api, source, &source.name).await?.ok_or_else(|| DeliveryError::NotFound(source.to_string()))?;
    let delivered = match Head::of(source, &head)? {
        Some(head) => assemble(&api, source, &head).await?,
        None => single(source, head)?,
    };
    match pinned {
        Some(pinned) if pinned != delivered.digest => Err(DeliveryError::NotPinned { found: delivered.digest, pinned }),
        _ => Ok(delivered),
    }
}

struct Head {
    digest: Digest,
    encoding: Encoding,
    parts: Vec<String>,
}

impl Head {
    fn of(source: &ConfigMapSource, map: &ConfigMap) -> Result<Option<Self>, DeliveryError> {
        let text = |key: &str| map.data.as_ref().and_then(|data| data.get(key));
        let Some(parts) = text(KEY_PARTS) else { return Ok(None) };
        let invalid = |problem: String| DeliveryError::Invalid { name: source.to_string(), problem };
        let digest = text(KEY_DIGEST).ok_or_else(|| invalid("the head has parts but no digest".to_owned()))?;
        let encoding = text(KEY_ENCODING).map_or(Ok(Encoding::Identity), |name| name.parse());
        let parts: Vec<_> = parts.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
        if parts.is_empty() || parts.len() > MAX_PARTS {
            return Err(invalid(format!("the head names {} parts; it must be 1 to {MAX_PARTS}", parts.len())));
        }
        Ok(Some(Self {
            digest: digest.trim().parse().map_err(|error| invalid(format!("{error}")))?,
            encoding: encoding.map_err(invalid)?,
            parts,
        }))
    }
}

/// All parts must hash to the head's digest: parts of two updates never make one component.
async fn assemble(api: &Api<ConfigMap>, source: &ConfigMapSource, head: &Head) -> Result<Delivered, DeliveryError> {
    let incomplete = |problem: String| DeliveryError::Incomplete { name: source.to_string(), problem };
    let mut packed = Vec::new();
    for part in &head.parts {
        let map = get(api, source, part).await?;
        let bytes = map.and_then(|map| map.binary_data?.remove(KEY_PART));
        let bytes = bytes.ok_or_else(|| incomplete(format!("part {part} is missing or has no {KEY_PART:?}")))?;
        packed.extend_from_slice(&bytes.0);
    }
    let bytes = head.encoding.unpack(packed, MAX_COMPONENT_BYTES).map_err(incomplete)?;
    let digest = Digest::of(&bytes);
    if digest != head.digest {
        return Err(incomplete(format!("its parts make up {digest} instead of {}", head.digest)));
    }
    Ok(Delivered { digest, bytes })
}

fn single(source: &ConfigMapSource, map: ConfigMap) -> Result<Delivered, DeliveryError> {
    let invalid = |problem: String| DeliveryError::Invalid { name: source.to_string(), problem };
    let mut data = map.binary_data.unwrap_or_default();
    let mut found: Vec<_> = Encoding::ALL
        .into_iter()
        .filter_map(|encoding| Some((encoding, data.remove(&format!("{PLUGIN_KEY}{}", encoding.key_suffix()))?)))
        .collect();
    let (encoding, packed) = match (found.pop(), found.is_empty()) {
        (Some(one), true) => one,
        (Some(_), false) => return Err(invalid(format!("several forms of {PLUGIN_KEY}; keep one"))),
        (None, _) => {
            return Err(invalid(format!(
                "no {PLUGIN_KEY}, {PLUGIN_KEY}.zst or {PLUGIN_KEY}.gz in binaryData; create it with \
                 `kubectl create configmap {} --from-file={PLUGIN_KEY}=FILE` or `windlass push`",
                source.name
            )));
        }
    };
    let bytes = encoding.unpack(packed.0, MAX_COMPONENT_BYTES).map_err(invalid)?;
    Ok(Delivered { digest: Digest::of(&bytes), bytes })
}

async fn get(api: &Api<ConfigMap>, source: &ConfigMapSource, name: &str) -> Result<Option<ConfigMap>, DeliveryError> {
    let full_name = format!("{}/{name}", source.namespace);
    api.get_opt(name).await.map_err(|error| match error {
        kube::Error::Api(status) if matches!(status.code, 401 | 403) => {
            DeliveryError::Forbidden { name: full_name, message: status.message }
        }
        error => DeliveryError::Unavailable { name: full_name, message: error.to_string() },
    })
}
