//! Builds the ConfigMaps of a component, and the Plugin that names them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use windlass_api::GrantsSpec;
use windlass_core::value::digest::Digest;
use windlass_delivery::{Encoding, KEY_DIGEST, KEY_ENCODING, KEY_PART, KEY_PARTS, PLUGIN_KEY, SIGNATURE_KEY};

use super::super::fields::set;
use super::super::pushed::PART_OF_LABEL;

/// Largest number of component bytes in one ConfigMap; a ConfigMap has at most 1 MiB in total, including keys.
const CHUNK: usize = 1_000_000;

/// A component to push.
#[derive(Debug)]
pub struct Pushed {
    /// Digest of the component.
    pub digest: Digest,
    /// Names of the parts; empty if one ConfigMap holds the component.
    pub parts: Vec<String>,
    /// The ConfigMaps, in the order in which they are written: the head comes last.
    pub objects: Vec<Value>,
}

/// Splits a component into as few ConfigMaps as possible: unpacked, packed, or packed and in parts.
///
/// # Errors
/// If packing fails.
pub fn split(name: &str, namespace: &str, bytes: &[u8], signature: Option<&str>) -> anyhow::Result<Pushed> {
    let digest = Digest::of(bytes);
    let signed = |mut data: Map<String, Value>| {
        data.extend(signature.map(|signature| (SIGNATURE_KEY.to_owned(), signature.into())));
        data
    };
    let config_map = |map_name: &str, mut map: Value| {
        let metadata = json!({"name": map_name, "namespace": namespace});
        json_patch::merge(&mut map, &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}));
        map
    };
    let single = |encoding: Encoding, packed: &[u8]| {
        let key = format!("{PLUGIN_KEY}{}", encoding.key_suffix());
        let map = json!({"binaryData": {key: STANDARD.encode(packed)}, "data": signed(Map::new())});
        Pushed { digest, parts: Vec::new(), objects: vec![config_map(name, map)] }
    };
    if bytes.len() <= CHUNK {
        return Ok(single(Encoding::Identity, bytes));
    }
    let packed = Encoding::Zstd.pack(bytes)?;
    if packed.len() <= CHUNK {
        return Ok(single(Encoding::Zstd, &packed));
    }
    let mut objects = Vec::new();
    let mut parts = Vec::new();
    for (at, chunk) in packed.chunks(CHUNK).enumerate() {
        let part = format!("{name}-{}-{at}", digest.short());
        let map = config_map(&part, json!({"immutable": true, "binaryData": {KEY_PART: STANDARD.encode(chunk)}}));
        objects.push(labelled(map, name));
        parts.push(part);
    }
    let head =
        [(KEY_DIGEST, digest.to_string()), (KEY_ENCODING, Encoding::Zstd.to_string()), (KEY_PARTS, parts.join("\n"))];
    let head = head.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
    objects.push(config_map(name, json!({"data": signed(head)})));
    Ok(Pushed { digest, parts, objects })
}

/// The fields of a Plugin that a push sets.
#[derive(Debug)]
pub struct PluginFields<'a> {
    /// Name of the Plugin.
    pub name: &'a str,
    /// ServiceAccount that the host impersonates.
    pub account: &'a str,
    /// Source of the component.
    pub source: Value,
    /// Public keys that must have signed the component, if any.
    pub verify: Option<Value>,
    /// Digest of the component whose CRD may narrow the installed schema, if any.
    pub may_narrow: Option<Digest>,
    /// The grants that the push sets.
    pub grants: GrantsSpec,
}

/// The Plugin. It is applied, so fields that a user set stay.
pub fn plugin_object(fields: PluginFields<'_>) -> Value {
    let PluginFields { name, account, source, verify, may_narrow, grants } = fields;
    let mut spec = json!({"source": source, "installCRD": true, "serviceAccountName": account});
    // A field with null is left out.
    let digest = may_narrow.map(|digest| digest.to_string());
    let grants = (!grants.is_empty()).then_some(grants);
    json_patch::merge(&mut spec, &json!({"verify": verify, "allowSchemaNarrowing": digest, "grants": grants}));
    json!({"apiVersion": "windlass.dev/v1alpha1", "kind": "Plugin", "metadata": {"name": name}, "spec": spec})
}

/// Labels a part of a component, or a permission, with its Plugin, so that `windlass remove` finds it: a ServiceAccount has no
/// fields, so its managedFields do not show the writer.
pub fn labelled(mut object: Value, name: &str) -> Value {
    set(&mut object, &["metadata", "labels", PART_OF_LABEL], name);
    object
}

/// Makes the Plugin the owner of a ConfigMap: the garbage collector deletes the ConfigMap with the Plugin. Permissions
/// have no such owner, because the host needs them until it has finished with a deleted Plugin.
pub fn own_by(mut map: Value, plugin: &Value, uid: &str) -> Value {
    let text = |pointer: &str| plugin.pointer(pointer).cloned().unwrap_or_default();
    let owner = json!([{
        "apiVersion": text("/apiVersion"), "kind": text("/kind"), "name": text("/metadata/name"), "uid": uid,
    }]);
    set(&mut map, &["metadata", "ownerReferences"], owner);
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rbac_object_gets_the_label_of_its_plugin_and_keeps_its_own_labels() {
        let role = json!({"kind": "ClusterRole", "metadata": {"name": "r", "labels": {"a": "b"}}});
        let labels = labelled(role, "echo")["metadata"]["labels"].clone();
        assert_eq!(labels, json!({"a": "b", PART_OF_LABEL: "echo"}));
        let account = labelled(json!({"kind": "ServiceAccount", "metadata": {"name": "s"}}), "echo");
        assert_eq!(account["metadata"]["labels"], json!({PART_OF_LABEL: "echo"}));
    }

    #[test]
    fn every_config_map_of_a_component_is_owned_by_its_plugin() {
        let grants = GrantsSpec::default();
        let fields =
            PluginFields { name: "echo", account: "writer", source: json!({}), verify: None, may_narrow: None, grants };
        let plugin = plugin_object(fields);
        let pushed = split("echo", "ns", &noise(2_500_000), None).expect("splits");
        let owner = json!([{"apiVersion": "windlass.dev/v1alpha1", "kind": "Plugin", "name": "echo", "uid": "7"}]);
        assert_eq!(pushed.objects.len(), 4, "three parts and their head");
        for object in pushed.objects {
            assert_eq!(own_by(object, &plugin, "7")["metadata"]["ownerReferences"], owner);
        }
    }

    fn noise(length: usize) -> Vec<u8> {
        let mut state = 1_u64;
        std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_be_bytes()[0]
        })
        .take(length)
        .collect()
    }

    #[test]
    fn small_component_is_one_uncompressed_config_map() {
        let pushed = split("echo", "ns", b"wasm", None).expect("splits");
        assert_eq!(pushed.objects.len(), 1);
        assert_eq!(pushed.objects[0]["binaryData"]["plugin.wasm"], json!("d2FzbQ=="));
    }

    #[test]
    fn large_component_that_compresses_well_is_one_compressed_config_map() {
        let pushed = split("echo", "ns", &vec![7; 3_000_000], None).expect("splits");
        assert_eq!(pushed.objects.len(), 1);
        assert!(pushed.objects[0]["binaryData"]["plugin.wasm.zst"].is_string());
    }

    #[test]
    fn larger_component_is_split_into_parts_followed_by_the_head_that_names_them() {
        let pushed = split("echo", "ns", &noise(2_500_000), Some("signed")).expect("splits");
        let names: Vec<_> =
            pushed.objects.iter().map(|map| map["metadata"]["name"].as_str().expect("a name")).collect();
        let digest12 = pushed.digest.short();
        let part = |at: usize| format!("echo-{digest12}-{at}");
        assert_eq!(names, [part(0), part(1), part(2), "echo".to_owned()]);
        let head = &pushed.objects[3]["data"];
        assert_eq!(head["parts"], json!(pushed.parts.join("\n")));
        assert_eq!(head["digest"], json!(pushed.digest.to_string()));
        assert_eq!(head["plugin.wasm.sigstore.json"], json!("signed"));
        assert!(pushed.objects[..3].iter().all(|map| map["immutable"] == json!(true)));
    }
}
