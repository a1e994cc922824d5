//! `MySQLCluster`'s life: servers come and go, their data stays.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_e2e::{Namespace, SOON, condition, text, wait};

use crate::{MYSQLCLUSTER, event_reasons, stage, volume, wait_for, wait_gone};

#[track_caller]
fn claims(ns: &Namespace) -> Vec<(String, String)> {
    let of = |claim: &Value| (text(claim, "/metadata/name"), text(claim, "/spec/resources/requests/storage"));
    let mut claims: Vec<_> = ns.env().list("persistentvolumeclaims", ns.name()).iter().map(of).collect();
    claims.sort();
    claims
}

#[test]
fn servers_come_and_go_and_their_data_stays() {
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

    // Up, and down: the volume of a server that went stays, and is there when it comes back.
    MYSQLCLUSTER.settle(ns, "orders", &spec(3, &none));
    assert_eq!(ns.pod_names().len(), 3);
    MYSQLCLUSTER.settle(ns, "orders", &spec(1, &none));
    ns.wait_pods(&["orders-0"]);
    let kept: Vec<_> = (0..3).map(|at| (format!("orders-data-{at}"), "10Gi".to_owned())).collect();
    assert_eq!(claims(ns), kept);
    MYSQLCLUSTER.settle(ns, "orders", &spec(2, &none));

    // More memory, and another version: each server anew, and not before the one ahead of it is Ready again.
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

    // The cluster goes, the data stays, and the next one of its name has it.
    MYSQLCLUSTER.delete(ns, "orders");
    ns.wait_pods(&[]);
    wait_gone(ns, "services", "orders");
    let uids = |ns: &Namespace| {
        let objects = ["persistentvolumeclaims", "secrets"].map(|resource| ns.env().list(resource, ns.name())).concat();
        objects.iter().map(|object| text(object, "/metadata/uid")).collect::<Vec<_>>()
    };
    let left = uids(ns);
    assert_eq!(left.len(), 4, "three claims and the password");
    MYSQLCLUSTER.settle(ns, "orders", &grown);
    assert_eq!(uids(ns), left);
    assert_eq!(ns.get("secrets", "orders-root").expect("the Secret")["data"], secret["data"]);
    // A cluster that asks for less than there is says so, and touches nothing.
    MYSQLCLUSTER.delete(ns, "orders");
    ns.wait_pods(&[]);
    MYSQLCLUSTER.replace(ns, "orders", &spec(1, &none));
    let stalled = wait_for(ns, MYSQLCLUSTER.resource, "orders", |cluster| condition(cluster, "Stalled").is_true());
    let message = condition(&stalled, "Stalled").message;
    assert!(message.contains("spec.storageSize: 10Gi is less than the 20Gi"), "{message}");
    assert_eq!(claims(ns), sizes);

    // The data goes with a cluster that says so.
    grown["deleteData"] = json!(true);
    MYSQLCLUSTER.settle(ns, "orders", &grown);
    MYSQLCLUSTER.delete(ns, "orders");
    wait("nothing to be left", SOON, || uids(ns).is_empty().then_some(()));

    // Nobody was told the password.
    let password = String::from_utf8(password).expect("text");
    for word in [password.as_str(), &STANDARD.encode(&password)] {
        assert_eq!(ns.env().host_log_about(word), "", "the host's log");
        let events = ns.env().list("events.events.k8s.io", "");
        assert!(!Value::from(events).to_string().contains(word), "an event");
        let plugins = ns.env().list("plugins.windlass.dev", "");
        assert!(!Value::from(plugins).to_string().contains(word), "a Plugin's status");
    }
}

#[test]
fn a_server_that_has_ended_is_made_anew_with_its_volume() {
    let ns = &stage().env.namespace("mysql-ended");
    volume(ns, "orders-data-0", &["ReadWriteOnce"]);
    MYSQLCLUSTER.settle(ns, "orders", &json!({ "version": "8.4", "replicas": 1, "storageSize": "10Gi" }));
    let before = text(&ns.pod("orders-0"), "/metadata/uid");
    // As a kubelet says it of a Pod that it evicts.
    let evicted =
        json!({ "status": { "phase": "Failed", "reason": "Evicted", "message": "The node was low on memory." } });
    ns.kubectl(&["patch", "pod", "orders-0", "--subresource=status", "--type=merge", "-p", &evicted.to_string()]);
    let pod = wait_for(ns, "pods", "orders-0", |pod| text(pod, "/metadata/uid") != before);
    assert_eq!(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "orders-data-0");
    MYSQLCLUSTER.wait_ready(ns, "orders");
    wait("the event", SOON, || event_reasons(ns, "orders").contains(&"ServerReplaced".to_owned()).then_some(()));
}

#[test]
fn a_password_of_the_users_own_is_used_and_none_is_generated() {
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
    // The servers have that password, and a generated one would lock everybody out.
    let team = spec["rootPasswordSecretRef"].take();
    MYSQLCLUSTER.replace(ns, "orders", &spec);
    let cluster =
        wait_for(ns, MYSQLCLUSTER.resource, "orders", |cluster| condition(cluster, "Ready").is_false("PluginFailed"));
    assert!(condition(&cluster, "Ready").message.contains("spec.rootPasswordSecretRef"), "{cluster:#}");
    assert_eq!(ns.get("secrets", "orders-root"), None);
    spec["rootPasswordSecretRef"] = team;
    MYSQLCLUSTER.settle(ns, "orders", &spec);
}
