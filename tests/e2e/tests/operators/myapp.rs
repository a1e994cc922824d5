//! The life cycle of a `MyApp`: created, changed field by field, repaired, deleted.

use serde_json::{Value, json};
use windlass_e2e::{Namespace, TIMEOUT, condition, wait};

use crate::{MYAPP, event_reasons, sample, stage, wait_for};

#[track_caller]
fn container(ns: &Namespace, name: &str, is: impl Fn(&Value) -> bool) {
    wait_for(ns, "deployments", name, |deployment| is(&deployment["spec"]["template"]["spec"]["containers"][0]));
}

#[test]
fn myapp_children_follow_every_field_of_the_spec_and_are_deleted_with_it() {
    let ns = &stage().env.namespace("myapp");
    ns.env().cluster().kubectl_with_input(&["apply", "-n", ns.name(), "-f", "-"], &sample("myapp")).expect("applied");
    let app = MYAPP.wait_ready(ns, "shop");
    let status = &app["status"];
    let counts = [&status["replicas"], &status["readyReplicas"], &status["availableReplicas"]];
    assert_eq!(
        (&status["phase"], counts, &status["message"]),
        (&json!("Running"), [&json!(1); 3], &json!("1/1 replicas ready"))
    );
    assert!(status["lastUpdateTime"].as_str().is_some_and(|time| time.ends_with('Z')), "{status}");
    let columns = ns.kubectl(&["get", "ma", "shop"]);
    assert!(["READY", "REPLICAS", "AGE", "Running"].iter().all(|word| columns.contains(word)), "{columns}");

    // Change each field, one after the other. Fields that are not named keep their values.
    let mut spec = json!({ "image": "nginx:1.27" });
    let mut change = |field: &str, value: Value| {
        spec[field] = value;
        MYAPP.replace(ns, "shop", &spec);
    };
    change("image", json!("nginx:1.28"));
    container(ns, "shop", |container| container["image"] == "nginx:1.28");
    change("port", json!(9000));
    container(ns, "shop", |container| container["ports"][0]["containerPort"] == 9000);
    wait_for(ns, "services", "shop", |service| service["spec"]["ports"][0]["port"] == 9000);
    change("resources", json!({ "cpu": "250m", "memory": "1Gi" }));
    container(ns, "shop", |container| container["resources"]["requests"] == json!({ "cpu": "250m", "memory": "1Gi" }));
    change("env", json!([{ "name": "MODE", "value": "fast" }]));
    container(ns, "shop", |container| container["env"] == json!([{ "name": "MODE", "value": "fast" }]));
    change("ingressHost", json!("shop.example.com"));
    let ingress = wait_for(ns, "ingresses", "shop", |_| true);
    assert_eq!(ingress["spec"]["rules"][0]["host"], "shop.example.com");
    change("replicas", json!(3));
    MYAPP.wait_ready(ns, "shop");
    assert_eq!(ns.pods().len(), 3);
    change("ingressHost", Value::Null);
    ns.wait_gone("ingresses", "shop");

    // Children deleted or edited by hand are restored.
    ns.kubectl(&["delete", "service", "shop"]);
    wait_for(ns, "services", "shop", |service| service["spec"]["ports"][0]["port"] == 9000);
    ns.kubectl(&["set", "image", "deployment/shop", "app=edited:1"]);
    container(ns, "shop", |container| container["image"] == "nginx:1.28");
    MYAPP.wait_ready(ns, "shop");

    MYAPP.delete(ns, "shop");
    for resource in ["deployments", "services"] {
        ns.wait_gone(resource, "shop");
    }
    ns.wait_pods(&[]);
    wait("the event of the clean-up", TIMEOUT, || {
        event_reasons(ns, "shop").contains(&"CleanedUp".to_owned()).then_some(())
    });
}

#[test]
fn myapp_whose_pods_exceed_the_quota_fails_and_recovers() {
    let ns = &stage().env.namespace("myapp-quota");
    ns.kubectl(&["create", "quota", "none", "--hard=pods=0"]);
    MYAPP.replace(ns, "shop", &json!({ "image": "nginx:1.27" }));
    let app = wait_for(ns, MYAPP.resource, "shop", |app| app["status"]["phase"] == "Failed");
    let ready = condition(&app, "Ready");
    assert!(ready.is_false("Failed") && ready.message.contains("exceeded quota"), "{ready:?}");
    ns.kubectl(&["delete", "quota", "none"]);
    // The quota is not related to the Deployment, so the Deployment's controller must be made to try again.
    ns.kubectl(&["rollout", "restart", "deployment/shop"]);
    MYAPP.wait_ready(ns, "shop");
}
