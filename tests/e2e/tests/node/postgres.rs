//! A `PostgresCluster` with real servers: stages wait for Pods that are ready, and applications can connect once `Ready` says so.

use std::fs;

use serde_json::{Value, json};
use windlass_e2e::{HOST_USER, Mark, Namespace, condition, guest, text, wait};
use windlass_testbed::AuditEvent;

use crate::{LONG, Node};

const CLUSTERS: &str = "postgresclusters.postgres.example.com";

/// Volumes of the node, which a claim gets once a Pod uses it.
fn serve_volumes(node: &Node, count: usize) {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "local" },
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
    });
    node.env.apply(&class.to_string());
    for at in 0..count {
        let folder = node.env.cluster().dir().join(format!("volume-{at}"));
        fs::create_dir(&folder).expect("a folder in that of the cluster");
        let is_node = json!({ "key": "kubernetes.io/hostname", "operator": "In", "values": ["node-0"] });
        let volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": format!("local-{at}") },
            "spec": {
                "storageClassName": "local", "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain", "local": { "path": folder },
                "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [is_node] }] } },
            },
        });
        node.env.apply(&volume.to_string());
    }
}

/// Runs SQL in the Pod of the primary as an application does: over the network, with the password from the Secret.
fn sql(ns: &Namespace<'_>, service: &str, statement: &str) -> Result<String, String> {
    let secret = ns.get("secrets", "orders-app").expect("the Secret of the application");
    let url = text(&secret, "/data/uri");
    let command = format!(
        "psql --no-psqlrc --quiet --tuples-only --no-align --command=\"{statement}\" \
         \"$(echo {url} | base64 --decode | sed s/orders-rw/{service}/)\""
    );
    ns.env().try_kubectl(&["exec", "-n", ns.name(), "orders-0-0", "-c", "postgres", "--", "sh", "-c", &command])
}

/// What the host did with workloads, in order.
fn workloads(node: &Node, ns: &Namespace<'_>, since: Mark, verb: &str) -> Vec<String> {
    let is_workload = |resource: &str| ["statefulsets", "jobs"].contains(&resource);
    let writes = node.writes(since).into_iter();
    let writes = writes.filter(|write| write.verb == verb && write.namespace == ns.name());
    writes
        .filter(|write| is_workload(&write.resource))
        .map(|write| format!("{} {}", write.resource, write.name))
        .collect()
}

fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready").is_true()
}

#[test]
#[ignore = "takes root, and the image: cargo xtask image --try"]
fn r23_postgrescluster_comes_up_in_stages_serves_once_it_is_ready_is_repaired_and_goes_in_reverse() {
    let node = Node::start();
    let env = &node.env;
    node.install_chart("replicaCount=1");
    serve_volumes(&node, 2);
    let component = guest("languages/postgres-go");
    env.push(&component, "postgres", &[]);
    env.wait_live("postgres", &component);

    // `Ready` is waited for as a user does, and means what the user thinks. The claims wait for their first consumer meanwhile.
    let (ns, since) = (env.namespace("orders"), env.mark());
    let cluster = json!({
        "apiVersion": "postgres.example.com/v1", "kind": "PostgresCluster",
        "metadata": { "name": "orders", "namespace": ns.name() },
        "spec": {
            "instances": 2, "imageName": "postgres:15",
            "storage": { "size": "1Gi", "storageClass": "local", "reclaimPolicy": "Delete" },
        },
    });
    env.apply(&cluster.to_string());
    ns.kubectl(&["wait", &format!("{CLUSTERS}/orders"), "--for=condition=Ready", "--timeout=240s"]);
    let servers: Vec<_> = ["orders-0-0", "orders-1-0"].map(|name| ns.pod(name)).into();
    assert!(servers.iter().all(is_ready), "{servers:#?}");
    sql(&ns, "orders-rw", "CREATE TABLE bought (what text); INSERT INTO bought VALUES ('a lamp')").expect("a row");
    assert_eq!(
        workloads(&node, &ns, since, "create"),
        ["statefulsets orders-0", "jobs orders-initialize", "statefulsets orders-1"]
    );
    let copied = wait("the row on the replica", LONG, || sql(&ns, "orders-ro", "SELECT what FROM bought").ok());
    assert_eq!(copied.trim(), "a lamp");

    let logs = ns.kubectl(&["logs", "orders-0-0", "-c", "postgres"]);
    assert!(!logs.contains("rejects connection"), "the probe asks as a role that may connect: {logs}");

    // A server that cannot run stops no repair of the other children, whatever their stage.
    env.kubectl(&["cordon", "node-0"]);
    ns.kubectl(&["delete", "pod", "orders-0-0", "--wait=true"]);
    let ready = |status: &'static str| move |cluster: &Value| condition(cluster, "Ready").status == status;
    let degraded = env.wait_object(CLUSTERS, ns.name(), "orders", ready("False"));
    let message = condition(&degraded, "Ready").message;
    assert!(message.contains("orders-0"), "{message}");
    ns.kubectl(&["delete", "service", "orders-rw", "--wait=true"]);
    ns.kubectl(&["scale", "statefulset", "orders-1", "--replicas=0"]);
    wait("the Service and the scale of the replica", LONG, || {
        let is_scaled = ns.get("statefulsets", "orders-1")?["spec"]["replicas"] == 1;
        ns.get("services", "orders-rw").filter(|_| is_scaled)
    });
    env.kubectl(&["uncordon", "node-0"]);
    env.wait_object(CLUSTERS, ns.name(), "orders", ready("True"));
    assert_eq!(sql(&ns, "orders-rw", "SELECT what FROM bought").expect("the row is still there").trim(), "a lamp");

    let since = env.mark();
    ns.kubectl(&["delete", CLUSTERS, "orders", "--timeout=180s"]);
    assert_eq!(
        workloads(&node, &ns, since, "delete"),
        ["statefulsets orders-1", "jobs orders-initialize", "statefulsets orders-0"]
    );
    let events = env.audit().since(since).expect("a readable audit log");
    let deleted = |resource: &str, name: &str, user: &str| {
        let is_it = |event: &&AuditEvent| {
            (&*event.verb, &*event.resource, &*event.name) == ("delete", resource, name) && event.user.starts_with(user)
        };
        let last = events.iter().filter(is_it).map(|event| event.timestamp.clone()).max();
        last.unwrap_or_else(|| panic!("{user} deleted {resource} {name}"))
    };
    // A kubelet deletes a Pod once its containers have ended.
    let replica_gone = deleted("pods", "orders-1-0", "system:node:");
    assert!(
        replica_gone < deleted("statefulsets", "orders-0", HOST_USER),
        "the replica was gone before the primary went"
    );
}
