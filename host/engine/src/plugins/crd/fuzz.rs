//! Fuzz tests with arbitrary CRDs, and mutations of the corpus: only the plugin's own kind is installed, and gets
//! permissions.

use windlass_core::value::ids::{is_dns_label, is_dns_subdomain};
use windlass_fuzz::Target;

use super::*;

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn fuzz_definitions() {
    let plugin: PluginName = "echo".parse().expect("a name");
    Target::new("definitions", 20_000).attack(0.1, |carried| {
        let Ok(carried) = CarriedCrd::parse(carried) else { return false };
        let definition = installable(&carried, &plugin);
        assert_eq!(keys(&definition), ["apiVersion", "kind", "metadata", "spec"]);
        let meta = definition.pointer("/metadata").expect("metadata");
        assert_eq!(keys(meta), ["annotations", "labels", "name"]);
        assert_eq!(meta.pointer("/labels"), Some(&json!({"windlass.dev/plugin": "echo"})));
        assert_eq!(keys(meta.pointer("/annotations").expect("annotations")), ["windlass.dev/applied"]);

        let (plural, group) = text(meta, "/name").split_once('.').expect("plural and group");
        assert_eq!((group, plural), (text(&definition, "/spec/group"), text(&definition, "/spec/names/plural")));
        assert!(is_dns_label(plural) && is_dns_subdomain(group), "{group} {plural}");
        for reserved in ["k8s.io", "kubernetes.io", "windlass.dev"] {
            assert!(group != reserved && !group.ends_with(&format!(".{reserved}")), "{group}");
        }
        assert_eq!(carried.resource(), &(group.to_owned(), plural.to_owned()), "the permissions are for this kind");
        assert_eq!(&*carried.kind().group, group);

        assert_eq!(definition.pointer("/spec/conversion"), None);
        let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
        for version in versions.into_iter().flatten() {
            let _ = shape_of(version);
        }
        // As the API server would return it.
        if let Ok(kind) = describe(&definition, &definition) {
            assert_eq!((&*kind.kind.group, &*kind.resource.plural), (group, plural));
        }
        true
    });
}
