//! Shared by the decorators that give each Namespace with a label four `ConfigMaps`.

use serde_json::{Value, json};
use windlass_plugin::{
    Descriptor, Parent,
    kinds::{ConfigMap, Namespace},
};

/// The descriptor of a decorator of the Namespaces that this selector matches.
pub fn descriptor(name: &str, selector: &str) -> Descriptor {
    let parent = Parent::existing::<Namespace>().labelled(selector);
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
