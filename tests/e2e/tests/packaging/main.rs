//! The kustomizations, the Helm chart and `windlass install` on a real control plane, on which a test installs and uninstalls alone.

// A test fails by a panic, and so do the functions that only tests call.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::too_many_lines)]

mod chart;
mod install;
mod kustomize;
mod release;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::{Number, Value};
use windlass_e2e::{Env, SYSTEM_NAMESPACE, text};
use windlass_testbed::Helm;

/// Cluster-scoped objects of Windlass, besides the CRD.
const CLUSTER_SCOPED: [(&str, &str); 7] = [
    ("clusterroles", "windlass"),
    ("clusterroles", "windlass-host"),
    ("clusterroles", "windlass-plugins-view"),
    ("clusterrolebindings", "windlass"),
    ("validatingadmissionpolicies", "windlass-marks"),
    ("validatingadmissionpolicies", "windlass-host-namespace"),
    ("validatingadmissionpolicybindings", "windlass-marks"),
];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn chart() -> String {
    repository().join("manifests/chart/windlass").display().to_string()
}

/// The control plane that all tests share.
struct Empty {
    env: Env,
    helm: Helm,
}

/// The control plane without Windlass, for one test at a time: Windlass can be installed only once in a cluster. A test removes what it
/// installs.
fn empty() -> MutexGuard<'static, Empty> {
    static SHARED: OnceLock<Mutex<Empty>> = OnceLock::new();
    let shared = SHARED.get_or_init(|| {
        let env = Env::empty();
        let helm = Helm::new(env.cluster()).expect("Helm");
        Mutex::new(Empty { env, helm })
    });
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Empty {
    #[track_caller]
    fn helm(&self, args: &[&str]) -> String {
        self.helm.run(args).unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// The chart's objects with these values, without the Pod of `helm test`.
    #[track_caller]
    fn rendered(&self, values: &str) -> String {
        self.templated(values, &["--skip-tests"])
    }

    /// What `helm template` prints for these values and flags.
    #[track_caller]
    fn templated(&self, values: &str, flags: &[&str]) -> String {
        let file = self.env.cluster().dir().join("values.yaml");
        fs::write(&file, values).expect("a file in the cluster's folder");
        let (chart, file) = (chart(), file.to_string_lossy());
        let args = ["template", "windlass", &chart, "--namespace", SYSTEM_NAMESPACE, "--values", &file];
        self.helm(&[&args, flags].concat())
    }

    /// Helm's message about wrong values.
    #[track_caller]
    fn rejected(&self, set: &str) -> String {
        let args = ["template", "windlass", &chart(), "--namespace", SYSTEM_NAMESPACE, "--set", set];
        let result = self.helm.run(&args);
        format!("{:#}", result.expect_err(set))
    }

    /// Deletes a namespace, and waits until it is gone.
    fn delete_namespace(&self, name: &str) {
        self.env.kubectl(&["delete", "namespace", name, "--timeout=180s"]);
    }

    /// Waits until all replicas of a Deployment in the host's namespace are available.
    fn wait_available(&self, name: &str) -> Value {
        self.env.wait_object("deployments", SYSTEM_NAMESPACE, name, |found| {
            let (spec, status) = (&found["spec"], &found["status"]);
            status["observedGeneration"] == found["metadata"]["generation"]
                && status["availableReplicas"] == spec["replicas"]
                && status["updatedReplicas"] == spec["replicas"]
                && status["replicas"] == spec["replicas"]
        })
    }

    /// The names of those [`CLUSTER_SCOPED`] objects that exist.
    fn cluster_scoped(&self) -> Vec<&'static str> {
        let exists = |(resource, name): &&(&str, &str)| self.env.get(resource, "", name).is_some();
        CLUSTER_SCOPED.iter().filter(exists).map(|(_, name)| *name).collect()
    }
}

fn documents(manifests: &str) -> Vec<Value> {
    let all: Vec<Value> = serde_saphyr::from_multiple(manifests).expect("YAML");
    all.into_iter().filter(|object| !object.is_null()).collect()
}

fn is_kind(object: &Value, kind: &str) -> bool {
    object["kind"] == kind
}

/// The objects by kind and name, without what a chart may have more: its labels and the keep policy, and the order of arguments.
fn comparable(manifests: &str) -> BTreeMap<(String, String), Value> {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for labels in ["labels", "matchLabels", "selector"] {
                    let Some(labels) = fields.get_mut(labels).and_then(Value::as_object_mut) else { continue };
                    labels.retain(|name, _| {
                        let of_chart =
                            ["instance", "version", "managed-by"].map(|name| format!("app.kubernetes.io/{name}"));
                        name != "helm.sh/chart" && !of_chart.contains(name)
                    });
                }
                if let Some(args) = fields.get_mut("args").and_then(Value::as_array_mut) {
                    args.sort_by_key(ToString::to_string);
                }
                fields.remove("annotations");
                fields.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            // kustomize writes 1.0 as 1.
            Value::Number(number) => *number = number.as_f64().and_then(Number::from_f64).expect("a number"),
            _ => {}
        }
    }
    let key = |object: &Value| (text(object, "/kind"), text(object, "/metadata/name"));
    let objects = documents(manifests).into_iter().map(|mut object| {
        strip(&mut object);
        (key(&object), object)
    });
    objects.collect()
}
