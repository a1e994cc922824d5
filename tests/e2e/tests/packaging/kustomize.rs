//! The kustomizations: which objects deployment tools keep, and hosts that they install.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};
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

/// The objects in the YAML blocks of a page.
fn shown(page: &str) -> Vec<Value> {
    let text = fs::read_to_string(repository().join(page)).expect(page);
    let blocks = text.split("```yaml\n").skip(1).filter_map(|rest| Some(documents(rest.split_once("```")?.0)));
    blocks.flatten().collect()
}

/// The image of the host that a kustomization of a user sets on one of the folders in `manifests/kustomize`.
fn image(kubectl: &dyn Fn(&[&str]) -> String, folder: &str, images: &Value) -> String {
    let user = tempfile::tempdir().expect("a temporary folder");
    symlink(repository().join("manifests"), user.path().join("manifests")).expect("a link");
    let kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "resources": [folder], "images": images,
    });
    fs::write(user.path().join("kustomization.yaml"), kustomization.to_string()).expect("written");
    let objects = documents(&kubectl(&["kustomize", &user.path().to_string_lossy()]));
    let deployment = objects.iter().find(|object| is_kind(object, "Deployment")).expect("a Deployment");
    text(deployment, "/spec/template/spec/containers/0/image")
}

#[test]
fn kustomization_of_a_user_sets_the_image_of_the_folder_that_it_names() {
    let cluster = empty();
    let kubectl = |args: &[&str]| cluster.env.kubectl(args);
    let shown = shown("docs/install.md");
    let user = shown.iter().find(|object| is_kind(object, "Kustomization")).expect("a kustomization");
    let (_, folder) = text(user, "/resources/0")
        .split_once("//manifests/")
        .map(|(url, folder)| (url.to_owned(), folder.to_owned()))
        .expect("a folder");
    let (folder, version) = folder.split_once("?ref=").expect("a version");
    assert_eq!(version, format!("v{}", env!("CARGO_PKG_VERSION")));
    let image = image(&kubectl, &format!("manifests/{folder}"), &user["images"]);
    assert_eq!(image, format!("registry.example/team/windlass:{}", env!("CARGO_PKG_VERSION")));
}

#[test]
fn recipe_for_flux_has_every_object_that_it_refers_to() {
    let cluster = empty();
    let shown = shown("docs/gitops.md");
    let find = |kind: &str, name: &str| {
        let is_it = |object: &&Value| is_kind(object, kind) && text(object, "/metadata/name") == name;
        shown.iter().find(is_it).unwrap_or_else(|| panic!("docs/gitops.md has no {kind} {name}"))
    };
    for kustomization in shown.iter().filter(|object| is_kind(object, "Kustomization")) {
        find(&text(kustomization, "/spec/sourceRef/kind"), &text(kustomization, "/spec/sourceRef/name"));
        for other in kustomization["spec"]["dependsOn"].as_array().into_iter().flatten() {
            find("Kustomization", &text(other, "/name"));
        }
    }
    let spec = &find("Kustomization", "windlass")["spec"];
    let folder = text(spec, "/path");
    let image = image(&|args| cluster.env.kubectl(args), &folder, &spec["images"]);
    assert_eq!(image, format!("registry.example/team/windlass:{}", env!("CARGO_PKG_VERSION")));
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
