//! The life cycle of a `PostgresCluster`: it comes up in stages, its volumes grow, and its monitoring follows what the cluster serves.

use serde_json::{Value, json};
use windlass_e2e::{Mark, Namespace, condition, text};

use crate::{POSTGRESCLUSTER, stage, volume, wait_for};

const POD_MONITORS: &str = "podmonitors.monitoring.coreos.com";

/// What the host did with workloads, in order.
fn workloads(ns: &Namespace, mark: Mark, verb: &str) -> Vec<String> {
    let is_workload = |resource: &str| ["statefulsets", "jobs"].contains(&resource);
    let writes = ns.env().host_writes(mark).namespace(ns.name());
    let writes = writes.filter(|write| write.verb == verb && is_workload(&write.resource));
    writes.iter().map(|write| format!("{} {}", write.resource, write.name)).collect()
}

/// Whether all other children were created before the first workload.
fn is_prepared_first(ns: &Namespace, mark: Mark) -> bool {
    let writes = ns.env().host_writes(mark).namespace(ns.name()).filter(|write| write.verb == "create");
    let resources: Vec<_> = writes.iter().map(|write| write.resource.clone()).filter(|of| of != "events").collect();
    let is_workload = |resource: &String| ["statefulsets", "jobs"].contains(&resource.as_str());
    resources.iter().skip_while(|resource| !is_workload(resource)).all(is_workload)
}

/// The requested sizes of the volumes.
fn sizes(ns: &Namespace) -> Vec<String> {
    let claims = ns.env().list("persistentvolumeclaims", ns.name());
    claims.iter().map(|claim| text(claim, "/spec/resources/requests/storage")).collect()
}

#[test]
fn postgrescluster_comes_up_in_stages_keeps_its_data_and_is_monitored_once_that_is_possible() {
    let ns = &stage().env.namespace("postgres");
    (0..2).for_each(|at| volume(ns, &format!("orders-{at}"), &["ReadWriteOnce"]));
    let spec = |size: &str, parameters: &Value| {
        json!({
            "instances": 2,
            "storage": { "size": size },
            "postgresql": { "parameters": parameters },
            "monitoring": { "enablePodMonitor": true },
        })
    };
    let none = json!({});
    let mark = ns.env().mark();
    let cluster = POSTGRESCLUSTER.settle(ns, "orders", &spec("10Gi", &none));
    assert_eq!(
        workloads(ns, mark, "create"),
        ["statefulsets orders-0", "jobs orders-initialize", "statefulsets orders-1"]
    );
    assert!(is_prepared_first(ns, mark), "{:?}", ns.env().host_writes(mark));
    assert_eq!((&cluster["status"]["readyInstances"], &cluster["status"]["initialized"]), (&json!(2), &json!(true)));
    let cluster = wait_for(ns, POSTGRESCLUSTER.resource, "orders", |cluster| cluster["status"]["phase"] == "Healthy");

    // The kind PodMonitor comes, and the monitor with it.
    let monitoring = condition(&cluster, "Monitoring");
    assert!(monitoring.is_false("KindMissing") && condition(&cluster, "Ready").is_true(), "{cluster:#}");
    ns.env().serve_kind("PodMonitor", POD_MONITORS);
    wait_for(ns, POD_MONITORS, "orders", |monitor| monitor["spec"]["podMetricsEndpoints"][0]["port"] == "metrics");
    let is_monitored =
        |cluster: &Value| condition(cluster, "Monitoring").is_true() && condition(cluster, "Ready").is_true();
    wait_for(ns, POSTGRESCLUSTER.resource, "orders", is_monitored);

    // Volumes grow, and do not shrink; the servers go on running.
    let server = text(&ns.pod("orders-0-0"), "/metadata/uid");
    POSTGRESCLUSTER.settle(ns, "orders", &spec("20Gi", &none));
    assert_eq!(sizes(ns), ["20Gi", "20Gi"]);
    POSTGRESCLUSTER.replace(ns, "orders", &spec("10Gi", &none));
    let stalled = wait_for(ns, POSTGRESCLUSTER.resource, "orders", |cluster| condition(cluster, "Stalled").is_true());
    let message = condition(&stalled, "Stalled").message;
    assert!(message.contains("spec.storage.size: 10Gi is less than the 20Gi that"), "{message}");
    assert_eq!(sizes(ns), ["20Gi", "20Gi"]);
    assert_eq!(text(&ns.pod("orders-0-0"), "/metadata/uid"), server);

    // Another parameter restarts the servers, and does not initialize the database again.
    let mark = ns.env().mark();
    POSTGRESCLUSTER.settle(ns, "orders", &spec("20Gi", &json!({ "work_mem": "8MB" })));
    assert_ne!(text(&ns.pod("orders-0-0"), "/metadata/uid"), server);
    assert_eq!(workloads(ns, mark, "create"), [""; 0]);

    // The replica is gone before the primary; volumes and passwords stay for a cluster of the same name.
    let mark = ns.env().mark();
    POSTGRESCLUSTER.delete(ns, "orders");
    assert_eq!(
        workloads(ns, mark, "delete"),
        ["statefulsets orders-1", "jobs orders-initialize", "statefulsets orders-0"]
    );
    ns.wait_gone("services", "orders-rw");
    assert_eq!(sizes(ns), ["20Gi", "20Gi"]);
    let password = |ns: &Namespace| ns.get("secrets", "orders-app").expect("the Secret")["data"]["password"].clone();
    let kept = password(ns);
    POSTGRESCLUSTER.settle(ns, "orders", &spec("20Gi", &none));
    assert_eq!(password(ns), kept);
}
