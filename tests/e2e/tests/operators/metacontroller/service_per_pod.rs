//! `ServicePerPod`: a Service for each Pod of a StatefulSet, while its annotations ask for them.

use serde_json::{Value, json};
use windlass_e2e::{Env, Namespace, text};

use super::{FINALIZER, finalizers, hold, release};

const LABEL: &str = "porting.example.com/service-per-pod-label";
const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";

#[track_caller]
fn apply(ns: &Namespace, name: &str, replicas: u32) {
    let labels = json!({ "app": name });
    let annotations = json!({ LABEL: POD_NAME, "porting.example.com/service-per-pod-ports": "80:80,8080:8080" });
    let stateful_set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": { "name": name, "namespace": ns.name(), "annotations": annotations },
        "spec": {
            "selector": { "matchLabels": labels },
            "serviceName": name,
            "replicas": replicas,
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "nginx", "image": "nginx:1.26.2" }] },
            },
        },
    });
    ns.env().apply(&stateful_set.to_string());
}

/// Waits until the last Pod's Service selects it.
#[track_caller]
fn wait_service(ns: &Namespace) {
    let service = ns.env().wait_object("services", ns.name(), "nginx-2", |_| true);
    assert_eq!(service["spec"]["selector"], json!({ POD_NAME: "nginx-2" }));
    assert_eq!(service["spec"]["ports"][1]["targetPort"], 8080);
}

/// Waits until the Services are gone, and then the host's finalizer.
#[track_caller]
fn wait_cleaned_up(ns: &Namespace) {
    for ordinal in 0..3 {
        ns.wait_gone("services", &format!("nginx-{ordinal}"));
    }
    ns.env().wait_object("statefulsets", ns.name(), "nginx", |set| !has_finalizer(set));
}

/// Whether the host has a finalizer on an object.
fn has_finalizer(object: &Value) -> bool {
    finalizers(object).iter().any(|finalizer| finalizer.starts_with("windlass.dev/"))
}

pub(super) fn steps(env: &Env) {
    let ns = &env.namespace("service-per-pod");
    apply(ns, "resting", 1);
    apply(ns, "nginx", 3);
    wait_service(ns);
    // Of the two decorators of the original, the other one is not needed: Kubernetes itself sets the label.
    env.wait_object("pods", ns.name(), "nginx-2", |pod| {
        text(pod, "/metadata/labels/statefulset.kubernetes.io~1pod-name") == "nginx-2"
    });
    assert!(has_finalizer(&ns.get("statefulsets", "nginx").expect("the StatefulSet")));

    // Without the annotation, the Services go and the StatefulSet stays; with it again, they come back.
    ns.kubectl(&["annotate", "statefulset", "nginx", &format!("{LABEL}-")]);
    wait_cleaned_up(ns);
    ns.kubectl(&["annotate", "statefulset", "nginx", &format!("{LABEL}={POD_NAME}")]);
    wait_service(ns);

    // The Services are gone before their StatefulSet is.
    hold(env, "statefulsets", ns.name(), "nginx");
    ns.kubectl(&["delete", "statefulset", "nginx", "--wait=false"]);
    wait_cleaned_up(ns);
    let held = ns.get("statefulsets", "nginx").expect("the StatefulSet, which the test holds");
    assert!(finalizers(&held).contains(&FINALIZER));
    release(env, "statefulsets", ns.name(), "nginx");
    env.wait_object("services", ns.name(), "resting-0", |_| true);
}
