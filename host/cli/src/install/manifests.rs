//! The objects of an installation: those of manifests/kustomize, for any namespace.

use anyhow::Context as _;
use kube::CustomResourceExt as _;
use serde_json::{Value, json};
use windlass_api::Plugin;
use windlass_core::contract::declared_parent::text;
use windlass_engine::plugins::{admission_policies, rbac};

use super::super::yaml;

/// Name of the Deployment, and of its container.
pub const DEPLOYMENT: &str = "windlass";

const NETWORK_POLICY: &str = include_str!("../../../../manifests/kustomize/base/networkpolicy.yaml");
const SERVICE: &str = include_str!("../../../../manifests/kustomize/base/service.yaml");
const HOST: &str = include_str!("../../../../manifests/kustomize/base/deployment.yaml");
/// With several replicas: the overlay ha.
const DISRUPTION_BUDGET: &str = include_str!("../../../../manifests/kustomize/overlays/ha/poddisruptionbudget.yaml");
const SEVERAL_HOSTS: &str = include_str!("../../../../manifests/kustomize/overlays/ha/deployment.yaml");

/// The image of a release, which its build sets.
pub const RELEASED_IMAGE: Option<&str> = option_env!("WINDLASS_RELEASED_IMAGE");

/// The image that the kustomizations name, which no registry has.
///
/// # Errors
/// If the Deployment in this command is not valid.
pub fn image_of_kustomizations() -> anyhow::Result<String> {
    parse(HOST).map(|host| text(&host, "/spec/template/spec/containers/0/image").to_owned())
}

/// The objects, in the order in which they are applied: nothing runs before its permissions and the policies exist.
///
/// # Errors
/// If a manifest in this command is not valid.
pub fn objects(namespace: &str, image: &str, replicas: u16) -> anyhow::Result<Vec<Value>> {
    let mut objects = rbac::host_objects(namespace);
    // After the Namespace, which is the first.
    objects.insert(1, serde_json::to_value(Plugin::crd())?);
    objects.push(rbac::view_of_plugins());
    objects.extend(admission_policies::objects(namespace));
    let mut host = parse(HOST)?;
    if replicas > 1 {
        json_patch::merge(&mut host, &parse(SEVERAL_HOSTS)?);
    }
    set(&mut host, "/spec/replicas", json!(replicas))?;
    set(&mut host, "/spec/template/spec/containers/0/image", json!(image))?;
    let budget = (replicas > 1).then(|| parse(DISRUPTION_BUDGET)).transpose()?;
    let namespaced = [parse(NETWORK_POLICY)?, parse(SERVICE)?].into_iter().chain(budget).chain([host]);
    for mut object in namespaced {
        set(&mut object, "/metadata/namespace", json!(namespace))?;
        objects.push(object);
    }
    Ok(objects)
}

fn parse(manifest: &str) -> anyhow::Result<Value> {
    yaml::only(manifest).context("a manifest in this command is not valid YAML; please report this")
}

/// Sets a field that the manifest has.
fn set(object: &mut Value, pointer: &str, value: Value) -> anyhow::Result<()> {
    let field = object.pointer_mut(pointer);
    *field.with_context(|| format!("a manifest in this command has no {pointer}; please report this"))? = value;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(objects: &[Value]) -> Vec<String> {
        objects.iter().map(|object| format!("{} {}", text(object, "/kind"), text(object, "/metadata/name"))).collect()
    }

    #[test]
    fn host_comes_after_everything_that_it_needs_and_that_limits_it() {
        let objects = objects("fleet", "registry.example/windlass:1", 2).expect("valid manifests");
        let names = names(&objects);
        assert_eq!(names[..2], ["Namespace fleet", "CustomResourceDefinition plugins.windlass.dev"]);
        assert_eq!(names.last().map(String::as_str), Some("Deployment windlass"));
        let kinds = ["ServiceAccount", "ClusterRoleBinding", "ValidatingAdmissionPolicyBinding", "NetworkPolicy"];
        for kind in kinds {
            assert!(names.iter().any(|name| name.starts_with(kind)), "{kind}");
        }
    }

    #[test]
    fn flags_of_the_command_are_in_the_objects() {
        let objects = objects("fleet", "registry.example/windlass:1", 2).expect("valid manifests");
        let text = serde_json::to_string(&objects).expect("JSON");
        assert!(!text.contains("windlass-system"), "every object is for the namespace fleet");
        let host = objects.last().expect("the Deployment");
        assert_eq!(host["spec"]["replicas"], 2);
        assert_eq!(host["spec"]["strategy"]["type"], "RollingUpdate");
        assert_eq!(host["spec"]["template"]["spec"]["containers"][0]["image"], "registry.example/windlass:1");
    }

    #[test]
    fn image_of_the_manifests_has_the_version_of_this_command() {
        let host = parse(HOST).expect("YAML");
        let expected = concat!("windlass:", env!("CARGO_PKG_VERSION"));
        assert_eq!(host["spec"]["template"]["spec"]["containers"][0]["image"], expected);
    }
}
