//! Every sample in the repository, and what installs the host, pass a dry run with strict validation on the API server.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use crate::{root, stage};

fn samples() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("manifests/samples")).expect("the samples");
    let mut found: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    found.sort();
    found
}

/// `tests/packaging` applies the chart and the overlays.
#[test]
fn api_server_accepts_every_sample_and_the_manifests() {
    let env = &stage().env;
    let dry = ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict"];
    let all = samples();
    assert!(all.len() >= 9, "{all:?}");
    for manifest in &all {
        let path = manifest.to_string_lossy();
        env.kubectl(&[&dry[..], &["-f", &path]].concat());
    }
    // With kustomize, as in the README.
    env.kubectl(&[&dry[..], &["-k", &root().join("manifests").to_string_lossy()]].concat());
    for plugin in ["application", "echo", "myapp", "mysqlcluster", "postgres/go"] {
        let crd = root().join("plugins").join(plugin).join("crd.json");
        env.kubectl(&[&dry[..], &["-f", &crd.to_string_lossy()]].concat());
    }
}

#[test]
fn plugin_that_sets_a_replaced_field_is_refused_with_the_name_of_the_new_one() {
    let env = &stage().env;
    for (field, value, new) in [
        ("children", json!([{"apiVersion": "v1", "kind": "Pod"}]), "spec.grants.children"),
        ("related", json!([{"apiVersion": "v1", "kind": "Secret"}]), "spec.grants.related"),
        ("namespaces", json!({"matchLabels": {"tier": "gold"}}), "spec.namespaceSelector"),
        ("onDelete", json!("Prune"), "spec.deletionPolicy"),
        (
            "source",
            json!({"oci": {"reference": "r.example/e:1", "pullSecret": {"name": "s"}}}),
            "source.oci.pullSecretRef",
        ),
    ] {
        let mut plugin = json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "Plugin", "metadata": {"name": "replaced"},
            "spec": {"source": {"configMap": {"namespace": "windlass-system", "name": "none"}}},
        });
        plugin["spec"][field] = value;
        // As sent by a client without strict validation.
        let dry = ["apply", "--server-side", "--dry-run=server", "--validate=ignore", "-f", "-"];
        let refused = env.cluster().kubectl_with_input(&dry, &plugin.to_string()).expect_err(field).to_string();
        assert!(refused.contains("was replaced by") && refused.contains(new), "{field}: {refused}");
    }
}
