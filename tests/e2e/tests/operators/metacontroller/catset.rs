//! `CatSet`: Pods that come up in order, are replaced one by one, and end in reverse, with claims that stay when it is scaled down.

use serde_json::{Value, json};
use windlass_e2e::{Env, Mark, Namespace, condition, text};

use super::{hold, names, release};
use crate::volume;

const RESOURCE: &str = "catsets.porting.example.com";
const NAME: &str = "nginx-backend";

fn catset(ns: &Namespace, name: &str, replicas: u32, image: &str) -> Value {
    json!({
        "apiVersion": "porting.example.com/v1", "kind": "CatSet",
        "metadata": { "name": name, "namespace": ns.name() },
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "template": {
                "metadata": { "labels": { "app": "nginx" } },
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "volumes": [{ "name": "pod-info", "downwardAPI": { "items": [
                        { "path": "pod_name", "fieldRef": { "fieldPath": "metadata.name" } },
                    ] } }],
                    "containers": [{
                        "name": "nginx", "image": image,
                        "volumeMounts": [{ "name": "www", "mountPath": "/usr/share/nginx/html" }],
                    }],
                },
            },
            "volumeClaimTemplates": [{
                "metadata": { "name": "www", "labels": { "app": "nginx" } },
                "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
            }],
        },
    })
}

/// Applies it, and waits until all of its Pods are Ready and of this spec.
#[track_caller]
fn settle(ns: &Namespace, name: &str, replicas: u32, image: &str) {
    ns.env().apply(&catset(ns, name, replicas, image).to_string());
    ns.env().wait_object(RESOURCE, ns.name(), name, |catset| {
        catset["status"]["observedGeneration"] == catset["metadata"]["generation"]
            && catset["status"]["readyReplicas"] == replicas
            && catset["status"]["replicas"] == replicas
            && condition(catset, "Ready").is_true()
    });
}

/// The names of the claims of [`NAME`].
#[track_caller]
fn claims(ns: &Namespace) -> Vec<String> {
    let claims = ns.env().list("persistentvolumeclaims", ns.name());
    let mut names: Vec<_> = claims.iter().map(|claim| text(claim, "/metadata/name")).collect();
    names.retain(|name| name.contains(NAME));
    names.sort();
    names
}

/// The ordinals of the Pods that the host wrote with this verb, in order.
#[track_caller]
fn pods(ns: &Namespace, mark: Mark, verb: &str) -> Vec<String> {
    let names = names(ns.env(), mark, "catset", "pods", verb, NAME);
    names.iter().map(|name| name.trim_start_matches(&format!("{NAME}-")).to_owned()).collect()
}

pub(super) fn steps(env: &Env) {
    let ns = &env.namespace("catset");
    (0..4).for_each(|at| volume(ns, &format!("www-{NAME}-{at}"), &["ReadWriteOnce"]));
    volume(ns, "www-resting-0", &["ReadWriteOnce"]);
    settle(ns, "resting", 1, "nginx:1.26.2");

    // The script: 3 Pods, then 4, then 2.
    let mark = env.mark();
    settle(ns, NAME, 3, "nginx:1.26.2");
    assert_eq!(pods(ns, mark, "create"), ["0", "1", "2"], "the Pods come up in order");
    let pod = ns.pod("nginx-backend-2");
    assert_eq!((&pod["spec"]["hostname"], &pod["spec"]["subdomain"]), (&json!("nginx-backend-2"), &json!(NAME)));
    settle(ns, NAME, 4, "nginx:1.26.2");
    assert_eq!(pods(ns, mark, "create"), ["0", "1", "2", "3"]);
    settle(ns, NAME, 2, "nginx:1.26.2");
    assert_eq!(pods(ns, mark, "delete"), ["3", "2"], "the last Pod goes first");
    let four = [0, 1, 2, 3].map(|at| format!("www-{NAME}-{at}"));
    assert_eq!(claims(ns), four, "the claims of Pods that were scaled down are kept");

    // Beside the script: a new template replaces one Pod at a time, the last one first.
    let mark = env.mark();
    settle(ns, NAME, 2, "nginx:1.27");
    assert_eq!(
        (pods(ns, mark, "delete"), pods(ns, mark, "create")),
        (["1", "0"].map(str::to_owned).into(), ["1", "0"].map(str::to_owned).into())
    );
    assert_eq!(claims(ns), four);

    // The script: the clean-up scales a deleted CatSet to nothing, and then lets it go.
    let mark = env.mark();
    hold(env, RESOURCE, ns.name(), NAME);
    ns.kubectl(&["delete", RESOURCE, NAME, "--wait=false"]);
    env.wait_object(RESOURCE, ns.name(), NAME, |catset| catset["status"]["replicas"] == 0);
    assert_eq!(pods(ns, mark, "delete"), ["1", "0"]);
    release(env, RESOURCE, ns.name(), NAME);
    for claim in four {
        ns.wait_gone("persistentvolumeclaims", &claim);
    }
}
