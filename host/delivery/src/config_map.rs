//! Reads components from ConfigMaps: a single ConfigMap, or a head and its parts.

use std::fmt::Display;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client};
use windlass_api::ConfigMapSource;
use windlass_core::object::names::{
    ANNOTATION_APPLIED, ANNOTATION_MARK, ANNOTATION_RETAINED_FOR, LABEL_PARENT_UID, LABEL_PLUGIN,
};
use windlass_core::object::reason::PluginReason;
use windlass_core::value::digest::Digest;
use windlass_core::value::ids::is_dns_subdomain;

use super::{Delivered, DeliveryError, Encoding, MAX_COMPONENT_BYTES};
use crate::in_time;

/// Key of a component in a ConfigMap's `binaryData`; a packed component adds `.zst` or `.gz`.
pub const PLUGIN_KEY: &str = "plugin.wasm";
/// Key of the component's signature, a sigstore bundle (`cosign sign-blob --bundle`), in `data` or `binaryData`. The
/// signature is of the unpacked component.
pub const SIGNATURE_KEY: &str = "plugin.wasm.sigstore.json";
/// Key of the component's digest in a head's `data`.
pub const KEY_DIGEST: &str = "digest";
/// Key of the encoding in a head's `data`.
pub const KEY_ENCODING: &str = "encoding";
/// Key of the parts' names in a head's `data`: one name per line, in order.
pub const KEY_PARTS: &str = "parts";
/// Key of a part's bytes in its `binaryData`.
pub const KEY_PART: &str = "part";

/// Maximum number of parts. No component needs as many: each part has up to 1 MiB.
const MAX_PARTS: usize = 128;

/// A component as it is stored in ConfigMaps.
pub struct Packed {
    /// Namespace and name of the single ConfigMap, or of the head.
    name: String,
    encoding: Encoding,
    bytes: Vec<u8>,
    /// Digest of the unpacked component that the head gives; `None` for a single ConfigMap.
    digest: Option<Digest>,
    signature: Option<Vec<u8>>,
}

impl Packed {
    /// Returns the unpacked component. It must have the head's digest, so parts of two updates never form one
    /// component. Blocks while it unpacks and hashes up to 64 MiB.
    ///
    /// # Errors
    /// If the component cannot be unpacked, or its digest differs from the head's.
    pub fn unpack(self) -> Result<Delivered, DeliveryError> {
        let Self { name, encoding, bytes, digest: wanted, signature } = self;
        let useless = |problem: String| match wanted {
            Some(_) => incomplete(&name, &problem),
            None => invalid(&name, &problem),
        };
        let bytes = encoding.unpack(bytes, MAX_COMPONENT_BYTES).map_err(useless)?;
        let digest = Digest::of(&bytes);
        match wanted.filter(|wanted| *wanted != digest) {
            Some(wanted) => Err(useless(format!("its parts make up {digest} instead of {wanted}"))),
            None => Ok(Delivered { digest, bytes, signature }),
        }
    }
}

/// Fetches a component.
///
/// # Errors
/// If the component, or a part of it, is missing, invalid or not readable.
pub async fn fetch(client: &Client, source: &ConfigMapSource) -> Result<Packed, DeliveryError> {
    let api = Api::namespaced(client.clone(), &source.namespace);
    let mut head = get(&api, source, &source.name).await?.ok_or_else(|| {
        let message = format!("ConfigMap {source} does not exist; create it with `windlass push`");
        DeliveryError::new(PluginReason::SourceNotFound, message)
    })?;
    let signature = signature(&mut head);
    let packed = match Head::of(source, &head)? {
        Some(head) => assemble(&api, source, &head).await?,
        None => single(source, head)?,
    };
    Ok(Packed { signature, ..packed })
}

fn signature(map: &mut ConfigMap) -> Option<Vec<u8>> {
    let text = map.data.as_mut().and_then(|data| data.remove(SIGNATURE_KEY)).map(String::into_bytes);
    text.or_else(|| Some(map.binary_data.as_mut()?.remove(SIGNATURE_KEY)?.0))
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
        let rejected = |problem: String| invalid(source, &problem);
        let digest = text(KEY_DIGEST).ok_or_else(|| rejected("the head has parts but no digest".to_owned()))?;
        let encoding = text(KEY_ENCODING).map_or(Ok(Encoding::Identity), |name| name.parse());
        let parts: Vec<_> = parts.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
        if parts.is_empty() || parts.len() > MAX_PARTS {
            return Err(rejected(format!("the head names {} parts; it must be 1 to {MAX_PARTS}", parts.len())));
        }
        // Each name becomes part of a URL path.
        if let Some(part) = parts.iter().find(|part| !is_dns_subdomain(part)) {
            return Err(rejected(format!("the head names the part {part:?}, which no ConfigMap can be named")));
        }
        Ok(Some(Self {
            digest: digest.trim().parse().map_err(|error| rejected(format!("{error}")))?,
            encoding: encoding.map_err(rejected)?,
            parts,
        }))
    }
}

async fn assemble(api: &Api<ConfigMap>, source: &ConfigMapSource, head: &Head) -> Result<Packed, DeliveryError> {
    let lacking = |problem: String| incomplete(source, &problem);
    let mut bytes = Vec::new();
    for part in &head.parts {
        let map = get(api, source, part).await?;
        let found = map.and_then(|map| map.binary_data?.remove(KEY_PART));
        let found = found.ok_or_else(|| lacking(format!("part {part} is missing or has no {KEY_PART:?}")))?;
        add(&mut bytes, &found.0).map_err(lacking)?;
    }
    let Head { digest, encoding, .. } = *head;
    Ok(Packed { name: source.to_string(), encoding, bytes, digest: Some(digest), signature: None })
}

/// Appends a part to the parts before it. The limit of an unpacked component applies to a packed one, too.
fn add(packed: &mut Vec<u8>, part: &[u8]) -> Result<(), String> {
    if (packed.len() + part.len()) as u64 > MAX_COMPONENT_BYTES {
        return Err(format!("its parts are larger than the limit of {MAX_COMPONENT_BYTES} bytes together"));
    }
    packed.extend_from_slice(part);
    Ok(())
}

fn single(source: &ConfigMapSource, map: ConfigMap) -> Result<Packed, DeliveryError> {
    let rejected = |problem: String| invalid(source, &problem);
    let mut data = map.binary_data.unwrap_or_default();
    let mut found: Vec<_> = Encoding::ALL
        .into_iter()
        .filter_map(|encoding| Some((encoding, data.remove(&format!("{PLUGIN_KEY}{}", encoding.key_suffix()))?)))
        .collect();
    let (encoding, packed) = match (found.pop(), found.is_empty()) {
        (Some(one), true) => one,
        (Some(_), false) => return Err(rejected(format!("several forms of {PLUGIN_KEY}; keep one"))),
        (None, _) => {
            return Err(rejected(format!(
                "no {PLUGIN_KEY}, {PLUGIN_KEY}.zst or {PLUGIN_KEY}.gz in binaryData; create it with \
                 `kubectl create configmap {} --from-file={PLUGIN_KEY}=FILE` or `windlass push`",
                source.name
            )));
        }
    };
    Ok(Packed { name: source.to_string(), encoding, bytes: packed.0, digest: None, signature: None })
}

async fn get(api: &Api<ConfigMap>, source: &ConfigMapSource, name: &str) -> Result<Option<ConfigMap>, DeliveryError> {
    let name_in_full = format!("{}/{name}", source.namespace);
    let found = in_time(api.get_opt(name)).await.map_err(|error| match error {
        kube::Error::Api(status) if matches!(status.code, 401 | 403) => DeliveryError::new(
            PluginReason::SourceForbidden,
            format!(
                "ConfigMap {name_in_full} cannot be read: {}. Allow the host to get, list and watch ConfigMaps there",
                status.message
            ),
        ),
        error => {
            DeliveryError::new(PluginReason::ApiError, format!("ConfigMap {name_in_full} could not be read: {error}"))
        }
    })?;
    match found.as_ref().and_then(|map| child_mark(&map.metadata)) {
        Some(mark) => Err(invalid(
            &name_in_full,
            &format!(
                "it has the mark of a plugin's child ({mark}), and no child is loaded as a component; push the component to a \
                 ConfigMap of its own"
            ),
        )),
        None => Ok(found),
    }
}

/// The error for a ConfigMap that does not contain exactly one valid component, or is a plugin's child.
fn invalid(name: &impl Display, problem: &str) -> DeliveryError {
    DeliveryError::new(PluginReason::SourceInvalid, format!("ConfigMap {name}: {problem}"))
}

/// The error for a head whose parts are missing, or do not form a component with the digest that the head gives.
fn incomplete(name: &impl Display, problem: &str) -> DeliveryError {
    let message = format!("ConfigMap {name}: {problem}; nothing of it is loaded");
    DeliveryError::new(PluginReason::PartsIncomplete, message)
}

/// The first of the host's marks on an object; `None` if the object is no plugin's child. With the plugin label, it is
/// the plugin's name. The host reads no component, key or credentials from a child: a plugin must not
/// choose another plugin's component, its own next component, or the keys that verify it.
pub(super) fn child_mark(meta: &ObjectMeta) -> Option<String> {
    let label = |name: &str| meta.labels.as_ref().and_then(|labels| labels.get(name));
    let annotation = |name: &str| meta.annotations.as_ref().and_then(|annotations| annotations.get(name));
    let marks = [
        label(LABEL_PLUGIN),
        annotation(ANNOTATION_RETAINED_FOR),
        label(LABEL_PARENT_UID),
        annotation(ANNOTATION_MARK),
        annotation(ANNOTATION_APPLIED),
    ];
    marks.into_iter().flatten().next().cloned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::ByteString;
    use proptest::prelude::*;

    use super::*;

    fn source() -> ConfigMapSource {
        ConfigMapSource { namespace: "n".to_owned(), name: "echo".to_owned() }
    }

    fn head(data: BTreeMap<String, String>) -> Result<Option<Head>, DeliveryError> {
        Head::of(&source(), &ConfigMap { data: Some(data), ..ConfigMap::default() })
    }

    #[test]
    fn config_map_of_a_plugins_child_is_distinguished_from_a_pushed_one() {
        let plugin_with = |labels: &[(&str, &str)], annotations: &[(&str, &str)]| {
            let map = |entries: &[(&str, &str)]| {
                Some(entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
            };
            let mut found = ConfigMap::default();
            (found.metadata.labels, found.metadata.annotations) = (map(labels), map(annotations));
            child_mark(&found.metadata)
        };
        assert_eq!(plugin_with(&[("windlass.dev/plugin", "guard")], &[]).as_deref(), Some("guard"));
        for (labels, annotations) in [
            (&[("windlass.dev/parent-uid", "u")][..], &[][..]),
            (&[], &[("windlass.dev/retained-for", "guard/Namespace./n")]),
            (&[], &[("windlass.dev/applied", "1:0")]),
            (&[], &[("windlass.dev/mark", "1:0")]),
        ] {
            assert!(plugin_with(labels, annotations).is_some(), "{labels:?} {annotations:?}");
        }
        assert_eq!(plugin_with(&[("app", "echo")], &[("windlass.dev/pushed-at", "now")]), None);
        assert_eq!(child_mark(&ObjectMeta::default()), None);
    }

    fn encoding() -> impl Strategy<Value = Encoding> {
        proptest::sample::select(Encoding::ALL.to_vec())
    }

    /// Damage to parts in transit: none, one part lost, two swapped, bits flipped, parts added.
    #[derive(Debug, Clone)]
    enum Harm {
        Nothing,
        Lost(prop::sample::Index),
        Swapped(prop::sample::Index, prop::sample::Index),
        Turned(prop::sample::Index, prop::sample::Index, u8),
        Longer(Vec<u8>),
    }

    fn harm() -> impl Strategy<Value = Harm> {
        let at = any::<prop::sample::Index>;
        prop_oneof![
            Just(Harm::Nothing),
            at().prop_map(Harm::Lost),
            (at(), at()).prop_map(|(one, other)| Harm::Swapped(one, other)),
            (at(), at(), 1..=u8::MAX).prop_map(|(part, byte, bits)| Harm::Turned(part, byte, bits)),
            proptest::collection::vec(any::<u8>(), 1..64).prop_map(Harm::Longer),
        ]
    }

    #[test]
    fn parts_are_fetched_up_to_the_size_limit_of_a_component() {
        let mut packed = vec![0; usize::try_from(MAX_COMPONENT_BYTES).expect("a size") - 2];
        add(&mut packed, &[1; 2]).expect("as large as it may be");
        let error = add(&mut packed, &[1]).expect_err("too large");
        assert!(error.contains("larger than the limit") && packed.len() as u64 == MAX_COMPONENT_BYTES, "{error}");
    }

    proptest! {
        #[test]
        fn parts_yield_the_component_that_the_head_names_or_an_error(
            component in proptest::collection::vec(any::<u8>(), 1..4096),
            encoding in encoding(),
            size in 1..512_usize,
            harm in harm(),
        ) {
            let packed = encoding.pack(&component).expect("packs");
            let mut parts: Vec<Vec<u8>> = packed.chunks(size).map(<[u8]>::to_vec).collect();
            let count = parts.len();
            match &harm {
                Harm::Nothing => {}
                Harm::Lost(at) => drop(parts.remove(at.index(count))),
                Harm::Swapped(one, other) => parts.swap(one.index(count), other.index(count)),
                Harm::Turned(part, byte, bits) => {
                    let part = part.index(count);
                    let byte = byte.index(parts[part].len());
                    parts[part][byte] ^= bits;
                }
                Harm::Longer(more) => parts.push(more.clone()),
            }
            let (name, digest) = (source().to_string(), Some(Digest::of(&component)));
            let packed = Packed { name, encoding, bytes: parts.concat(), digest, signature: None };
            match packed.unpack() {
                Ok(delivered) => prop_assert_eq!(delivered.bytes, component),
                Err(_) => prop_assert!(!matches!(harm, Harm::Nothing)),
            }
        }

        #[test]
        fn head_is_valid_or_rejected_with_the_reason(
            digest in prop_oneof![Just(Digest::of(b"a").to_string()), "(sha256:)?[0-9a-f]{0,70}", ".{0,20}"],
            encoding in prop_oneof![Just("zstd".to_owned()), Just("gzip".to_owned()), ".{0,8}"],
            parts in proptest::collection::vec("[a-z .\r-]{0,6}", 0..160),
        ) {
            let named = parts.iter().filter(|part| !part.trim().is_empty()).count();
            let data = BTreeMap::from([
                (KEY_DIGEST.to_owned(), digest),
                (KEY_ENCODING.to_owned(), encoding),
                (KEY_PARTS.to_owned(), parts.join("\n")),
            ]);
            match head(data) {
                Ok(Some(head)) => prop_assert!((1..=MAX_PARTS).contains(&head.parts.len())),
                Ok(None) => prop_assert!(false, "a head with parts is not recognized"),
                Err(error) => {
                    prop_assert!(error.to_string().contains("n/echo"));
                    prop_assert!(named <= MAX_PARTS || error.to_string().contains("parts"));
                }
            }
        }

        #[test]
        fn config_map_with_any_content_delivers_its_component_or_an_error_that_names_it(
            keys in proptest::collection::btree_map(
                proptest::sample::select(vec!["plugin.wasm", "plugin.wasm.zst", "plugin.wasm.gz", "other"]),
                proptest::collection::vec(any::<u8>(), 0..256),
                0..4,
            ),
        ) {
            let plain = keys.get("plugin.wasm").cloned();
            let data = keys.into_iter().map(|(key, bytes)| (key.to_owned(), ByteString(bytes))).collect();
            let map = ConfigMap { binary_data: Some(data), ..ConfigMap::default() };
            match single(&source(), map).and_then(Packed::unpack) {
                Ok(delivered) => {
                    prop_assert_eq!(delivered.digest, Digest::of(&delivered.bytes));
                    prop_assert!(plain.is_none_or(|plain| plain == delivered.bytes));
                }
                Err(error) => prop_assert!(error.to_string().starts_with("ConfigMap n/echo: ")),
            }
        }
    }
}
