//! `IndexedJob`: a Pod for each index, some at a time, until all have succeeded.

use serde_json::{Value, json};
use windlass_e2e::{Env, Namespace, TIMEOUT, condition, text, wait};

use super::names;

const RESOURCE: &str = "indexedjobs.porting.example.com";

#[track_caller]
fn apply(ns: &Namespace, name: &str, completions: u32) {
    let job = json!({
        "apiVersion": "porting.example.com/v1", "kind": "IndexedJob",
        "metadata": { "name": name, "namespace": ns.name() },
        "spec": {
            "completions": completions,
            "parallelism": 2,
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": {
                    "restartPolicy": "OnFailure",
                    "containers": [{ "name": "print", "image": "busybox", "command": ["sh", "-c", "echo $JOB_INDEX"] }],
                },
            },
        },
    });
    ns.env().apply(&job.to_string());
}

/// Ends each Pod that runs, as a kubelet would, until all have succeeded.
#[track_caller]
fn complete(ns: &Namespace, name: &str, completions: u32) {
    let succeeded = r#"{"status": {"phase": "Succeeded"}}"#;
    let job = wait("all Pods to succeed", TIMEOUT, || {
        let of_phase = |pod: &Value, phase: &str| text(pod, "/status/phase") == phase;
        let mut active = ns.env().list("pods", ns.name());
        active.retain(|pod| text(pod, "/metadata/labels/app") == name && !of_phase(pod, "Succeeded"));
        assert!(active.len() <= 2, "no more than two Pods at a time: {active:#?}");
        for pod in active.iter().filter(|pod| of_phase(pod, "Running")) {
            let pod = text(pod, "/metadata/name");
            ns.kubectl(&["patch", "pod", &pod, "--subresource=status", "--type=merge", "-p", succeeded]);
        }
        ns.get(RESOURCE, name).filter(|job| job["status"]["succeeded"] == completions)
    });
    assert!(condition(&job, "Complete").is_true(), "{job:#}");
}

pub(super) fn steps(env: &Env) {
    let ns = &env.namespace("indexedjob");
    let mark = env.mark();
    apply(ns, "print-index", 10);
    complete(ns, "print-index", 10);
    // No kubelet runs the container, which prints this variable.
    let container = &ns.pod("print-index-9")["spec"]["containers"][0];
    assert_eq!(container["env"], json!([{ "name": "JOB_INDEX", "value": "9" }]));
    env.wait_object(RESOURCE, ns.name(), "print-index", |job| condition(job, "Ready").is_true());

    // Beside the script: once complete, a Pod that is deleted does not run again. The host sees that before the next job.
    ns.kubectl(&["delete", "pod", "print-index-3"]);
    apply(ns, "resting", 1);
    complete(ns, "resting", 1);
    env.wait_object(RESOURCE, ns.name(), "resting", |job| condition(job, "Ready").is_true());
    // Two are created at the same time, so their order varies.
    let mut created = names(env, mark, "indexedjob", "pods", "create", "print-index");
    created.sort();
    let each: Vec<_> = (0..10).map(|index| format!("print-index-{index}")).collect();
    assert_eq!(created, each, "each Pod ran once");
    ns.kubectl(&["delete", RESOURCE, "print-index"]);
}
