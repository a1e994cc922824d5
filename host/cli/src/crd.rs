//! `windlass crd`: prints the Plugin CRD, or the CRD of a component.

use std::process::ExitCode;

use kube::CustomResourceExt as _;
use serde_json::{Value, json};
use windlass_api::Plugin;
use windlass_core::contract::Descriptor;
use windlass_core::contract::declared_parent::DeclaredParent;
use windlass_engine::plugins::sanitized_crd;

use super::component::{ComponentArgs, ComponentRef, LoadArgs};
use super::output::{Objects, print_objects};

/// Flags of `windlass crd`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  windlass crd | kubectl apply --server-side -f -
  windlass crd echo.wasm > echo-crd.yaml

The CRD of a component is printed as the host installs it: without conversion and without metadata of the component's author, \
and with the host's status fields. It belongs to no Plugin: the host does not change it.

--kubeconfig and --context are used only for a component in `configmap/NAMESPACE/NAME`.

Exit codes:
  0  the CRD was printed
  2  wrong usage
  3  the command failed; the message says why")]
pub struct Args {
    /// Component whose CRD to print: a file, `oci://REFERENCE`, or `configmap/NAMESPACE/NAME`; default: the
    /// Plugin CRD
    #[arg(value_name = "COMPONENT")]
    component: Option<ComponentRef>,
    /// Output format
    #[arg(short, long, value_enum, default_value = "yaml")]
    output: Objects,
    #[command(flatten)]
    options: LoadArgs,
}

/// Prints the CRDs.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let crd = match args.component {
        Some(component) => crd_of(ComponentArgs { component, options: args.options }.load()?.descriptor())?,
        None => json!(Plugin::crd()),
    };
    print_objects(&[crd], args.output)?;
    Ok(ExitCode::SUCCESS)
}

/// The CRD that a user may install: that of the host, without its marks.
fn crd_of(descriptor: &Descriptor) -> anyhow::Result<Value> {
    match DeclaredParent::of(descriptor).map_err(anyhow::Error::msg)? {
        DeclaredParent::Own(carried) => Ok(sanitized_crd(&carried)),
        DeclaredParent::Existing(kind) => {
            anyhow::bail!("the component carries no CRD: it reconciles {kind}, which exists already")
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::contract::Parent;

    use super::*;

    fn descriptor(crd: &Value) -> Descriptor {
        Descriptor::about("echo", "0.1.0", Parent::Custom(crd.to_string().into_bytes()))
    }

    #[test]
    fn printed_crd_has_nothing_that_a_component_may_not_choose() {
        let version =
            json!({"name": "v1", "storage": true, "served": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {
                "name": "echoes.my-operator.dev", "labels": {"windlass.dev/plugin": "other"},
                "annotations": {"api-approved.kubernetes.io": "x", "windlass.dev/applied": "1:0"},
                "finalizers": ["example.com/never"], "resourceVersion": "1", "uid": "u", "generateName": "a",
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}],
            },
            "spec": {
                "group": "my-operator.dev", "scope": "Namespaced", "names": {"plural": "echoes", "kind": "Echo"},
                "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://author.example"}}},
                "versions": [version],
            },
            "status": {"storedVersions": ["v0"]},
            "more": 1,
        });
        let printed = crd_of(&descriptor(&crd)).expect("a CRD");
        assert_eq!(printed["metadata"], json!({"name": "echoes.my-operator.dev"}));
        let names = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&printed), ["apiVersion", "kind", "metadata", "spec"]);
        assert_eq!(names(&printed["spec"]), ["group", "names", "scope", "versions"]);
        let status = printed.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/status/properties");
        assert_eq!(names(status.expect("a schema of the status")), ["conditions", "observedGeneration"]);
    }

    #[test]
    fn crd_that_the_host_would_refuse_is_not_printed() {
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "plugins.windlass.dev"},
            "spec": {"group": "windlass.dev", "names": {"plural": "plugins", "kind": "Plugin"},
                "versions": [{"name": "v1", "storage": true}]},
        });
        let error = crd_of(&descriptor(&crd)).expect_err("a reserved group").to_string();
        assert!(error.contains("may not define kinds of the group"), "{error}");
    }
}
