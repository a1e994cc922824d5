//! Fuzz tests with arbitrary CRDs, and mutations of the corpus: only the plugin's own kind is installed, and gets
//! permissions.

use windlass_core::ids::{is_dns_label, is_dns_subdomain};
use windlass_fuzz::Target;

use super::*;
use crate::plugins::rbac::own_parent;

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn fuzz_definitions() {
    let plugin: PluginName = "echo".parse().expect("a name");
    Target::new("definitions", 20_000).attack(0.1, |carried| {
        let parent = own_parent(carried);
        let Ok(definition) = sanitize(carried, &plugin) else {
            assert!(parent.is_err(), "no rights to what will not be installed: {parent:?}");
            return false;
        };
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
        assert_eq!(parent.expect("the same").0, (group.to_owned(), plural.to_owned()));
        assert_eq!(group_of(carried).as_deref(), Some(group));

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
