//! What the decorators share that give each Namespace with some label four `ConfigMaps`.

use serde_json::{Value, json};
use windlass_plugin::{
    Descriptor, Existing,
    kinds::{ConfigMap, Namespace},
};

/// Of a decorator of the Namespaces that this selects.
pub fn descriptor(name: &str, selector: &str) -> Descriptor {
    let parent = Existing::<Namespace>::selected(selector);
    Descriptor::new(name, env!("CARGO_PKG_VERSION"), parent).child::<ConfigMap>()
}

/// The children of a Namespace.
pub fn config_maps(namespace: &str) -> impl Iterator<Item = Value> {
    ["a", "b", "c", "d"].into_iter().map(move |name| {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": name, "namespace": namespace },
        })
    })
}
