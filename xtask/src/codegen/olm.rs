//! packaging/olm: the bundle for the Operator Lifecycle Manager, from the same manifests as the kustomization.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};

/// The bundle's manifests.
const BUNDLE: &str = "packaging/olm/manifests";
/// The sources.
const DEPLOYMENT: &str = "manifests/kustomize/base/deployment.yaml";
const EXAMPLE: &str = "manifests/samples/namespaceguard-plugin.yaml";
/// The only supported install mode: in `AllNamespaces`, the manager makes cluster roles of the namespaced ones, and the host could
/// impersonate every ServiceAccount. The host follows the objects of all namespaces in this mode too, by its cluster role.
const INSTALL_MODE: &str = "OwnNamespace";
/// What a user of the bundle must know, because the manager does not install policies.
const DESCRIPTION: &str = "\
Windlass runs Kubernetes operators as sandboxed WebAssembly components, in one process. A Plugin names a component; the host reconciles the
objects of its kind.

Install it into the namespace windlass-system, by an OperatorGroup whose target is that namespace: no other namespace works, because the
bundle's role binding and the policies name it. The host follows the objects of all namespaces nevertheless. The Operator Lifecycle Manager
does not install ValidatingAdmissionPolicies: apply them by hand, with
`kubectl apply --server-side -f manifests/kustomize/cluster/admission-policies.yaml`, and enforce the restricted Pod Security Standard in that
namespace.
";

/// The files of the bundle that are generated. `crd` and `rbac` are what `windlass` prints.
///
/// # Errors
/// If a source is missing, or has no object that the bundle needs.
pub fn bundle(root: &Path, crd: &str, rbac: &str) -> anyhow::Result<Vec<(String, String)>> {
    let read = |file: &str| {
        let text = fs::read_to_string(root.join(file)).with_context(|| format!("{file} cannot be read"))?;
        let document = serde_saphyr::from_str(&text);
        document.with_context(|| format!("{file} is not valid YAML"))
    };
    let rbac: Vec<Value> = serde_saphyr::from_multiple(rbac).context("the RBAC is not valid YAML")?;
    let object = |kind: &str, name: &str| {
        let mut found = rbac.iter().filter(|object| text(object, "/kind") == kind);
        let found = found.find(|object| text(object, "/metadata/name") == name);
        found.cloned().with_context(|| format!("the RBAC has no {kind} {name}"))
    };
    let rules = |role: &Value| role.get("rules").cloned().context("a role without rules");
    let permissions = (rules(&object("ClusterRole", "windlass-host")?)?, rules(&object("Role", "windlass")?)?);
    let csv = cluster_service_version(&read(DEPLOYMENT)?, permissions, &read(EXAMPLE)?)?;
    let mut files = vec![
        (format!("{BUNDLE}/plugins.windlass.dev.crd.yaml"), crd.to_owned()),
        (format!("{BUNDLE}/windlass.clusterserviceversion.yaml"), serde_saphyr::to_string(&csv)?),
    ];
    // The aggregated role, and the users' role, which a ClusterServiceVersion cannot describe.
    for (kind, name) in
        [("ClusterRole", "windlass"), ("ClusterRoleBinding", "windlass"), ("ClusterRole", "windlass-plugins-view")]
    {
        let file = format!("{BUNDLE}/{name}.{}.yaml", kind.to_lowercase());
        files.push((file, serde_saphyr::to_string(&object(kind, name)?)?));
    }
    Ok(files)
}

fn cluster_service_version(
    deployment: &Value,
    (cluster_rules, rules): (Value, Value),
    example: &Value,
) -> anyhow::Result<Value> {
    let version = env!("CARGO_PKG_VERSION");
    let spec = deployment.get("spec").context("a Deployment without a spec")?;
    let image = text(deployment, "/spec/template/spec/containers/0/image");
    let permissions = |rules| json!([{"serviceAccountName": "windlass", "rules": rules}]);
    let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
    Ok(json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {
            "name": format!("windlass.v{version}"),
            "annotations": {
                "alm-examples": serde_json::to_string_pretty(&json!([example]))?,
                "capabilities": "Basic Install",
                "categories": "Developer Tools",
                "containerImage": image,
                "operatorframework.io/suggested-namespace": "windlass-system",
            },
        },
        "spec": {
            "displayName": "Windlass", "description": DESCRIPTION, "version": version, "maturity": "alpha",
            "minKubeVersion": "1.30.0", "provider": {"name": "Windlass"},
            "keywords": ["operator", "webassembly"],
            "installModes": modes.map(|mode| json!({"type": mode, "supported": mode == INSTALL_MODE})),
            "customresourcedefinitions": {"owned": [{
                "name": "plugins.windlass.dev", "kind": "Plugin", "version": "v1alpha1", "displayName": "Plugin",
                "description": "A WebAssembly component that reconciles the objects of one kind",
            }]},
            "install": {"strategy": "deployment", "spec": {
                "clusterPermissions": permissions(cluster_rules),
                "permissions": permissions(rules),
                "deployments": [{"name": "windlass", "spec": spec}],
            }},
        },
    }))
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
