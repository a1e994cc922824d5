//! The kustomizations: which objects deployment tools keep, and hosts that they install.

use std::collections::BTreeSet;

use serde_json::json;
use windlass_e2e::{SYSTEM_NAMESPACE, TIMEOUT, text, wait};

use super::{documents, empty, is_kind, repository};

#[test]
fn flux_and_argo_cd_keep_the_crd_and_the_namespace_of_the_kustomization() {
    let cluster = empty();
    let base = repository().join("manifests/kustomize/base");
    for object in documents(&cluster.env.kubectl(&["kustomize", &base.to_string_lossy()])) {
        let is_kept = is_kind(&object, "CustomResourceDefinition") || is_kind(&object, "Namespace");
        let annotations = &object["metadata"]["annotations"];
        assert_eq!(annotations["kustomize.toolkit.fluxcd.io/prune"] == "disabled", is_kept, "{annotations}");
        let argo = &annotations["argocd.argoproj.io/sync-options"];
        assert_eq!(argo == "Prune=false,Delete=false", is_kept, "{annotations}");
    }
}

#[test]
fn kustomizations_install_hosts_that_the_restricted_pod_security_standard_admits() {
    let cluster = empty();
    let env = &cluster.env;
    for (folder, replicas) in [("base", 1), ("overlays/dev", 1), ("overlays/ha", 2), ("overlays/sharded", 4)] {
        let folder = repository().join("manifests/kustomize").join(folder);
        let folder = folder.to_string_lossy();
        env.kubectl(&["apply", "--server-side", "--validate=strict", "-k", &folder]);
        let deployment = cluster.wait_available("windlass");
        assert_eq!(deployment["spec"]["replicas"], replicas, "{folder}");
        // The namespace enforces the standard: it rejects a Pod that does not meet it.
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "root" },
            "spec": { "containers": [{ "name": "root", "image": "root" }] },
        });
        let args = ["create", "--dry-run=server", "-n", SYSTEM_NAMESPACE, "-f", "-"];
        let rejected =
            env.cluster().kubectl_with_input(&args, &pod.to_string()).expect_err("a Pod that may run as root");
        assert!(format!("{rejected:#}").contains("violates PodSecurity \"restricted:latest\""), "{rejected:#}");
        if replicas > 1 {
            let budget = env.wait_object("poddisruptionbudgets", SYSTEM_NAMESPACE, "windlass", |budget| {
                budget["status"]["currentHealthy"] == replicas
            });
            assert_eq!(budget["status"]["disruptionsAllowed"], 1);
            let pods = env.list("pods", SYSTEM_NAMESPACE);
            let nodes: BTreeSet<_> = pods.iter().map(|pod| text(pod, "/spec/nodeName")).collect();
            assert!(nodes.len() > 1, "the hosts are on different nodes");
        }
        env.kubectl(&["delete", "--timeout=180s", "-k", &folder]);
        assert_eq!(cluster.cluster_scoped(), Vec::<&str>::new());
        wait("the Namespace to be gone", TIMEOUT, || {
            env.get("namespaces", "", SYSTEM_NAMESPACE).is_none().then_some(())
        });
    }
}
