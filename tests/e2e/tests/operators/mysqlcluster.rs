//! The life cycle of a `MySQLCluster`: servers are added, replaced and removed, and their data stays.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_e2e::{Namespace, TIMEOUT, condition, text, wait};

use crate::{MYSQLCLUSTER, event_reasons, stage, volume, wait_for};

#[track_caller]
fn claims(ns: &Namespace) -> Vec<(String, String)> {
    let of = |claim: &Value| (text(claim, "/metadata/name"), text(claim, "/spec/resources/requests/storage"));
    let mut claims: Vec<_> = ns.env().list("persistentvolumeclaims", ns.name()).iter().map(of).collect();
    claims.sort();
    claims
}

#[test]
fn data_of_a_mysqlcluster_survives_scaling_upgrades_and_deletion() {
    let ns = &stage().env.namespace("mysql");
    (0..3).for_each(|at| volume(ns, &format!("orders-data-{at}"), &["ReadWriteOnce"]));
    let spec = |replicas: u32, more: &Value| {
        let mut spec = json!({ "version": "8.4", "replicas": replicas, "storageSize": "10Gi" });
        for (field, value) in more.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        spec
    };
    let none = json!({});
    let cluster = MYSQLCLUSTER.settle(ns, "orders", &spec(2, &none));
    assert_eq!((&cluster["status"]["phase"], &cluster["status"]["readyReplicas"]), (&json!("Running"), &json!(2)));
    assert_eq!(ns.pod_names(), ["orders-0", "orders-1"]);
    let service = ns.get("services", "orders").expect("the Service");
    assert_eq!((&service["spec"]["clusterIP"], &service["spec"]["ports"][0]["port"]), (&json!("None"), &json!(3306)));
    let pod = &ns.pod("orders-1")["spec"];
    assert_eq!(pod["volumes"][0]["persistentVolumeClaim"]["claimName"], "orders-data-1");
    assert_eq!(pod["containers"][0]["env"][0]["valueFrom"]["secretKeyRef"]["name"], "orders-root");
    let secret = ns.get("secrets", "orders-root").expect("the Secret");
    let password = STANDARD.decode(text(&secret, "/data/password")).expect("base64");
    assert_eq!(password.len(), 48);

    // Scale up and down: the volume of a removed server stays, and is used again when the server returns.
    MYSQLCLUSTER.settle(ns, "orders", &spec(3, &none));
    assert_eq!(ns.pod_names().len(), 3);
    MYSQLCLUSTER.settle(ns, "orders", &spec(1, &none));
    ns.wait_pods(&["orders-0"]);
    let kept: Vec<_> = (0..3).map(|at| (format!("orders-data-{at}"), "10Gi".to_owned())).collect();
    assert_eq!(claims(ns), kept);
    MYSQLCLUSTER.settle(ns, "orders", &spec(2, &none));

    // More memory and another version: each server is recreated, after the one before it is Ready again.
    let before: Vec<_> = ns.pods().iter().map(|pod| text(pod, "/metadata/uid")).collect();
    let mark = ns.env().mark();
    let larger = json!({ "resources": { "cpu": "1", "memory": "2Gi" }, "version": "8.4.3" });
    MYSQLCLUSTER.settle(ns, "orders", &spec(2, &larger));
    for pod in ns.pods() {
        assert!(!before.contains(&text(&pod, "/metadata/uid")), "{pod:#}");
        let container = &pod["spec"]["containers"][0];
        assert_eq!(
            (&container["image"], &container["resources"]["limits"]["memory"]),
            (&json!("mysql:8.4.3"), &json!("2Gi"))
        );
    }
    let writes = ns.env().host_writes(mark).namespace(ns.name()).resource("pods");
    let order: Vec<_> = writes.iter().map(|write| (write.verb.as_str(), write.name.clone())).collect();
    let step = |verb: &'static str, at: u32| (verb, format!("orders-{at}"));
    assert_eq!(order, [step("delete", 0), step("create", 0), step("delete", 1), step("create", 1)]);

    // Storage grows; it does not shrink.
    let mut grown = spec(2, &larger);
    grown["storageSize"] = json!("20Gi");
    MYSQLCLUSTER.settle(ns, "orders", &grown);
    let sizes = claims(ns);
    assert_eq!(sizes.iter().map(|(_, size)| size.as_str()).collect::<Vec<_>>(), ["20Gi", "20Gi", "10Gi"]);
    MYSQLCLUSTER.replace(ns, "orders", &spec(2, &larger));
    let stalled = wait_for(ns, MYSQLCLUSTER.resource, "orders", |cluster| condition(cluster, "Stalled").is_true());
    let message = condition(&stalled, "Stalled").message;
    assert!(message.contains("spec.storageSize: 10Gi is less than the 20Gi"), "{message}");
    assert_eq!(claims(ns), sizes);

    // The cluster is deleted, the data stays, and the next cluster of the same name uses it.
    MYSQLCLUSTER.delete(ns, "orders");
    ns.wait_pods(&[]);
    ns.wait_gone("services", "orders");
    let uids = |ns: &Namespace| {
        let objects = ["persistentvolumeclaims", "secrets"].map(|resource| ns.env().list(resource, ns.name())).concat();
        objects.iter().map(|object| text(object, "/metadata/uid")).collect::<Vec<_>>()
    };
    let left = uids(ns);
    assert_eq!(left.len(), 4, "three claims and the password");
    MYSQLCLUSTER.settle(ns, "orders", &grown);
    assert_eq!(uids(ns), left);
    assert_eq!(ns.get("secrets", "orders-root").expect("the Secret")["data"], secret["data"]);
    // A cluster with less storage than its claims have is stalled, and the claims do not change.
    MYSQLCLUSTER.delete(ns, "orders");
    ns.wait_pods(&[]);
    MYSQLCLUSTER.replace(ns, "orders", &spec(1, &none));
    let stalled = wait_for(ns, MYSQLCLUSTER.resource, "orders", |cluster| condition(cluster, "Stalled").is_true());
    let message = condition(&stalled, "Stalled").message;
    assert!(message.contains("spec.storageSize: 10Gi is less than the 20Gi"), "{message}");
    assert_eq!(claims(ns), sizes);

    // With deleteData, the data is deleted with the cluster.
    grown["deleteData"] = json!(true);
    MYSQLCLUSTER.settle(ns, "orders", &grown);
    MYSQLCLUSTER.delete(ns, "orders");
    wait("all data to be deleted", TIMEOUT, || uids(ns).is_empty().then_some(()));

    // The password is not in logs, events or statuses.
    let password = String::from_utf8(password).expect("text");
    for word in [password.as_str(), &STANDARD.encode(&password)] {
        assert_eq!(ns.env().host_log_about(word), "", "the password is not in the host's log");
        let events = ns.env().list("events.events.k8s.io", "");
        assert!(!Value::from(events).to_string().contains(word), "the password is not in an event");
        let plugins = ns.env().list("plugins.windlass.dev", "");
        assert!(!Value::from(plugins).to_string().contains(word), "the password is not in a Plugin's status");
    }
}

#[test]
fn evicted_mysql_server_is_recreated_with_its_volume() {
    let ns = &stage().env.namespace("mysql-ended");
    volume(ns, "orders-data-0", &["ReadWriteOnce"]);
    MYSQLCLUSTER.settle(ns, "orders", &json!({ "version": "8.4", "replicas": 1, "storageSize": "10Gi" }));
    let before = text(&ns.pod("orders-0"), "/metadata/uid");
    // Sets the Pod's status as a kubelet does at an eviction.
    let evicted =
        json!({ "status": { "phase": "Failed", "reason": "Evicted", "message": "The node was low on memory." } });
    ns.kubectl(&["patch", "pod", "orders-0", "--subresource=status", "--type=merge", "-p", &evicted.to_string()]);
    let pod = wait_for(ns, "pods", "orders-0", |pod| text(pod, "/metadata/uid") != before);
    assert_eq!(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "orders-data-0");
    MYSQLCLUSTER.wait_ready(ns, "orders");
    wait("the event", TIMEOUT, || event_reasons(ns, "orders").contains(&"ServerReplaced".to_owned()).then_some(()));
}

#[test]
fn root_password_secret_of_the_user_is_used_and_none_is_generated() {
    let ns = &stage().env.namespace("mysql-own");
    volume(ns, "orders-data-0", &["ReadWriteOnce"]);
    ns.kubectl(&["create", "secret", "generic", "team", "--from-literal=root=secret"]);
    let mut spec = json!({
        "version": "8.4", "replicas": 1, "storageSize": "10Gi",
        "rootPasswordSecretRef": { "name": "team", "key": "root" },
    });
    MYSQLCLUSTER.settle(ns, "orders", &spec);
    let password = &ns.pod("orders-0")["spec"]["containers"][0]["env"][0]["valueFrom"]["secretKeyRef"];
    assert_eq!(*password, json!({ "name": "team", "key": "root" }));
    assert_eq!(ns.get("secrets", "orders-root"), None);
    // The servers already have that password, so a generated one would lock all clients out.
    let team = spec["rootPasswordSecretRef"].take();
    MYSQLCLUSTER.replace(ns, "orders", &spec);
    let cluster =
        wait_for(ns, MYSQLCLUSTER.resource, "orders", |cluster| condition(cluster, "Ready").is_false("PluginFailed"));
    assert!(condition(&cluster, "Ready").message.contains("spec.rootPasswordSecretRef"), "{cluster:#}");
    assert_eq!(ns.get("secrets", "orders-root"), None);
    spec["rootPasswordSecretRef"] = team;
    MYSQLCLUSTER.settle(ns, "orders", &spec);
}
