//! Echo's answers, without wasm and without a cluster.

#![allow(clippy::indexing_slicing, clippy::needless_pass_by_value, clippy::unwrap_used)]

use echo::Echo;
use windlass_plugin::{
    Failure, json,
    testing::{self, Call, Value},
};

fn echo(replicas: u32) -> Call<Echo> {
    testing::request(json!({
        "apiVersion": "my-operator.dev/v1",
        "kind": "Echo",
        "metadata": { "name": "web", "namespace": "default", "uid": "u-1" },
        "spec": { "replicas": replicas, "image": "nginx:1.27" },
    }))
}

fn pod(name: &str, ready: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "namespace": "default" },
        "status": { "conditions": [{ "type": "Ready", "status": ready }] },
    })
}

#[test]
fn there_is_a_pod_for_each_replica() {
    let answer = echo(2).call().unwrap();
    let pod = |name| {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": name, "labels": { "app": "web", "owner": "u-1" } },
            "spec": { "containers": [{ "name": "nginx", "image": "nginx:1.27" }] },
        })
    };
    assert_eq!(answer.children, [pod("web-0"), pod("web-1")]);
    assert_eq!(answer.status, Some(json!({ "currentReplicas": 0, "isReady": false })));
}

#[test]
fn scaling_down_leaves_out_the_highest_index() {
    let answer = echo(1).child(pod("web-0", "True")).child(pod("web-1", "True")).call().unwrap();
    let names: Vec<_> = answer.children.iter().map(|pod| &pod["metadata"]["name"]).collect();
    assert_eq!(names, ["web-0"]);
    assert_eq!(answer.status, Some(json!({ "currentReplicas": 2, "isReady": false })));
}

#[test]
fn it_is_ready_when_all_pods_are() {
    let all = echo(2).child(pod("web-0", "True")).child(pod("web-1", "True")).call().unwrap();
    assert_eq!(all.status, Some(json!({ "currentReplicas": 2, "isReady": true })));
    let one = echo(2).child(pod("web-0", "True")).child(pod("web-1", "False")).call().unwrap();
    assert_eq!(one.status, Some(json!({ "currentReplicas": 2, "isReady": false })));
}

#[test]
fn no_replicas_are_ready_at_once() {
    let answer = echo(0).call().unwrap();
    assert_eq!((answer.children.len(), answer.status), (0, Some(json!({ "currentReplicas": 0, "isReady": true }))));
}

#[test]
fn too_many_replicas_are_invalid() {
    assert_eq!(echo(1001).call(), Err(Failure::invalid("spec.replicas is more than 1000")));
}

#[test]
fn what_is_no_spec_is_invalid_and_the_field_is_named() {
    let call = |spec: Value| testing::request::<Echo>(json!({ "metadata": { "name": "web" }, "spec": spec })).call();
    assert_eq!(
        call(json!({ "replicas": "3", "image": "nginx" })),
        Err(Failure::invalid("spec.replicas: invalid type: string \"3\", expected u32"))
    );
    assert_eq!(call(json!({ "replicas": 3 })), Err(Failure::invalid("spec: missing field `image`")));
}
