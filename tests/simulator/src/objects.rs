//! The paths of parents and children, and what children contain.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use windlass_api_model::Id;

use crate::history::{ASTRAY, CLUSTER, Child, FINALIZING, Kind, ROLLING, STAGED};
use crate::setup::NAMESPACE;

/// The path of a Plugin.
pub fn plugin_path(name: &str) -> String {
    format!("/apis/windlass.dev/v1alpha1/plugins/{name}")
}

/// The path of the collection that a parent is in.
pub fn collection_of_parent(parent: u8) -> String {
    let (namespace, plural) = match parent {
        FINALIZING => (NAMESPACE, "finalizingpuppets"),
        ROLLING => (NAMESPACE, "rollingpuppets"),
        STAGED => (NAMESPACE, "stagedpuppets"),
        ASTRAY => ("windlass-system", "puppets"),
        CLUSTER => return "/apis/puppets.example/v1/clusterpuppets".to_owned(),
        _ => (NAMESPACE, "puppets"),
    };
    format!("/apis/puppets.example/v1/namespaces/{namespace}/{plural}")
}

/// The path of a parent.
pub fn parent_path(parent: u8) -> String {
    format!("{}/p{parent}", collection_of_parent(parent))
}

/// The path of a parent's child.
pub fn child_path(parent: u8, child: Child) -> String {
    format!("{}/{}", collection_of(child.kind), child_name(parent, child))
}

/// The path of an object, whose kind has the version `v1`.
pub fn path_of(id: &Id) -> String {
    let base = match id.resource.split_once('.') {
        None => "/api/v1".to_owned(),
        Some((_, group)) => format!("/apis/{group}/v1"),
    };
    let plural = id.resource.split('.').next().unwrap_or_default();
    match &*id.namespace {
        "" => format!("{base}/{plural}/{}", id.name),
        namespace => format!("{base}/namespaces/{namespace}/{plural}/{}", id.name),
    }
}

/// The path of a child that a message names, such as `ConfigMap shop/p0-c1`.
pub fn path_of_named(child: &str) -> String {
    let (kind, name) = child.split_once(' ').unwrap_or_default();
    let name = name.rsplit('/').next().unwrap_or_default();
    let base = if ["Doll", "Mask"].contains(&kind) { "apis/puppets.example/v1" } else { "api/v1" };
    format!("/{base}/namespaces/{NAMESPACE}/{}s/{name}", kind.to_lowercase())
}

/// The path of what arguments of `kubectl annotate` name, such as `Puppet.puppets.example p0 -n shop` or `plugins.windlass.dev puppet`.
pub fn path_of_target(arguments: &str) -> String {
    let mut words = arguments.split(' ');
    let (kind, name) = (words.next().unwrap_or_default().to_lowercase(), words.next().unwrap_or_default());
    let (kind, group) = kind.split_once('.').unwrap_or_default();
    let plural = format!("{}s", kind.trim_end_matches('s'));
    match words.nth(1) {
        Some(namespace) => format!("/apis/{group}/v1/namespaces/{namespace}/{plural}/{name}"),
        None => format!("/apis/{group}/v1alpha1/{plural}/{name}"),
    }
}

/// The path of the collection that children of a kind are in.
pub fn collection_of(kind: Kind) -> String {
    let (base, plural) = match kind {
        Kind::ConfigMap => ("api/v1", "configmaps"),
        Kind::Secret => ("api/v1", "secrets"),
        Kind::Service => ("api/v1", "services"),
        Kind::Doll => ("apis/puppets.example/v1", "dolls"),
        Kind::Mask => ("apis/puppets.example/v1", "masks"),
    };
    format!("/{base}/namespaces/{NAMESPACE}/{plural}")
}

/// The name of a parent's child.
pub fn child_name(parent: u8, child: Child) -> String {
    format!("p{parent}-c{}", child.name)
}

/// What a child contains, without its metadata.
pub fn content_of(child: Child) -> Value {
    let value = child.value.to_string();
    match child.kind {
        Kind::ConfigMap => json!({ "data": { "value": value } }),
        Kind::Secret => json!({ "data": { "value": BASE64_STANDARD.encode(value) } }),
        Kind::Doll | Kind::Mask => json!({ "spec": { "value": value } }),
        Kind::Service => json!({ "spec": { "clusterIP": "None", "ports": [{ "port": 80 + u16::from(child.value) }] } }),
    }
}

/// A child in the script of its parent.
pub fn script_of(child: Child) -> Value {
    let mut script = content_of(child);
    let is_built_in = !matches!(child.kind, Kind::Doll | Kind::Mask);
    script["apiVersion"] = if is_built_in { "v1" } else { "puppets.example/v1" }.into();
    script["kind"] = format!("{:?}", child.kind).into();
    script["metadata"] = json!({ "name": format!("${{name}}-c{}", child.name) });
    script
}
