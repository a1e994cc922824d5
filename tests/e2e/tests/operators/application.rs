//! The life cycle of an Application: every field, and the number of its Pods with and without an autoscaler.

use serde_json::{Value, json};
use windlass_e2e::{Namespace, TIMEOUT, condition, wait};

use crate::{APPLICATION, event_reasons, sample, stage, volume, wait_for};

#[track_caller]
fn pod_spec(ns: &Namespace, name: &str, is: impl Fn(&Value) -> bool) {
    wait_for(ns, "deployments", name, |deployment| is(&deployment["spec"]["template"]["spec"]));
}

#[test]
fn application_children_follow_every_field_of_the_spec_and_are_deleted_with_it() {
    let ns = &stage().env.namespace("application");
    volume(ns, "portal-full-uploads", &["ReadWriteMany"]);
    let args = ["apply", "-n", ns.name(), "-f", "-"];
    ns.env().cluster().kubectl_with_input(&args, &sample("application-full")).expect("applied");
    let portal = APPLICATION.wait_ready(ns, "portal-full");
    let status = &portal["status"];
    assert_eq!(
        (&status["phase"], &status["desiredReplicas"], &status["availableReplicas"]),
        (&json!("Running"), &json!(3), &json!(3))
    );
    assert!(condition(&portal, "Available").is_true() && condition(&portal, "Progressing").is_false("Running"));
    let autoscaler = ns.get("horizontalpodautoscalers", "portal-full").expect("an autoscaler");
    assert_eq!((&autoscaler["spec"]["minReplicas"], &autoscaler["spec"]["maxReplicas"]), (&json!(3), &json!(10)));
    let service = ns.get("services", "portal-full").expect("a Service");
    assert_eq!(
        (&service["spec"]["type"], &service["spec"]["loadBalancerSourceRanges"]),
        (&json!("LoadBalancer"), &json!(["10.0.0.0/8"]))
    );
    let policy = ns.get("networkpolicies", "portal-full").expect("a policy");
    assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress"]));
    let pod = &ns.pods()[0]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(container["livenessProbe"]["httpGet"], json!({ "path": "/", "port": "http", "scheme": "HTTP" }));
    assert_eq!(container["volumeMounts"][0], json!({ "name": "uploads", "mountPath": "/srv/uploads" }));
    assert_eq!(container["securityContext"]["runAsUser"], 101);
    assert_eq!((&pod["securityContext"]["fsGroup"], &pod["serviceAccountName"]), (&json!(101), &json!("portal-full")));

    // Change each field, one after the other.
    let mut spec = portal["spec"].clone();
    let mut change = |field: &str, value: Value| {
        spec[field] = value;
        APPLICATION.replace(ns, "portal-full", &spec);
    };
    change("image", json!("nginx:1.28"));
    pod_spec(ns, "portal-full", |pod| pod["containers"][0]["image"] == "nginx:1.28");
    change("port", json!(9000));
    wait_for(ns, "services", "portal-full", |service| service["spec"]["ports"][0]["port"] == 9000);
    change("environment", json!([{ "name": "MODE", "value": "slow" }]));
    pod_spec(ns, "portal-full", |pod| pod["containers"][0]["env"][0]["value"] == "slow");
    change("resources", json!({ "requests": { "cpu": "100m", "memory": "64Mi" } }));
    pod_spec(ns, "portal-full", |pod| {
        pod["containers"][0]["resources"] == json!({ "requests": { "cpu": "100m", "memory": "64Mi" } })
    });
    change("healthCheck", json!({ "readinessProbe": { "httpGet": { "path": "/", "port": 9001 } } }));
    pod_spec(ns, "portal-full", |pod| {
        pod["containers"][0].get("livenessProbe").is_none()
            && pod["containers"][0]["readinessProbe"]["httpGet"]["port"] == 9001
    });
    change("scaling", json!({ "minReplicas": 2, "maxReplicas": 5, "targetMemoryUtilizationPercentage": 60 }));
    wait_for(ns, "horizontalpodautoscalers", "portal-full", |it| {
        it["spec"]["maxReplicas"] == 5 && it["spec"]["metrics"][0]["resource"]["name"] == "memory"
    });
    change("network", json!({ "serviceType": "ClusterIP" }));
    wait_for(ns, "services", "portal-full", |service| {
        service["spec"]["type"] == "ClusterIP" && service["spec"].get("loadBalancerSourceRanges").is_none()
    });
    change("security", json!({}));
    ns.wait_gone("networkpolicies", "portal-full");
    pod_spec(ns, "portal-full", |pod| pod["containers"][0].get("securityContext").is_none());
    change("storage", json!({}));
    pod_spec(ns, "portal-full", |pod| pod.get("volumes").is_none());
    ns.wait_gone("persistentvolumeclaims", "portal-full-uploads");
    change("scaling", Value::Null);
    ns.wait_gone("horizontalpodautoscalers", "portal-full");
    change("replicas", json!(1));
    let portal = APPLICATION.wait_ready(ns, "portal-full");
    assert_eq!((&portal["status"]["phase"], &portal["status"]["replicas"]), (&json!("Running"), &json!(1)));

    // A child deleted by hand is recreated.
    ns.kubectl(&["delete", "deployment", "portal-full"]);
    wait_for(ns, "deployments", "portal-full", |deployment| deployment["status"]["availableReplicas"] == 1);
    APPLICATION.wait_ready(ns, "portal-full");

    APPLICATION.delete(ns, "portal-full");
    for resource in ["deployments", "services"] {
        ns.wait_gone(resource, "portal-full");
    }
    ns.wait_pods(&[]);
}

#[test]
fn autoscaler_decides_the_number_of_pods_until_it_is_removed() {
    let ns = &stage().env.namespace("autoscaled");
    let mut spec = json!({
        "image": "nginx:1.27",
        "replicas": 2,
        "resources": { "requests": { "cpu": "100m" } },
        "scaling": { "minReplicas": 1, "maxReplicas": 4, "targetCPUUtilizationPercentage": 70 },
    });
    APPLICATION.settle(ns, "portal", &spec);
    assert_eq!(ns.pods().len(), 2, "spec.replicas is the initial number of Pods");
    // A number set by hand stays if it is within the autoscaler's bounds.
    let is_ready_with =
        |portal: &Value, pods: u32| crate::is_ready(portal) && portal["status"]["desiredReplicas"] == pods;
    ns.kubectl(&["scale", "deployment", "portal", "--replicas=3"]);
    wait_for(ns, APPLICATION.resource, "portal", |portal| is_ready_with(portal, 3));
    // A number above the maximum is reduced by the autoscaler through the Deployment's scale, even without metrics.
    ns.kubectl(&["scale", "deployment", "portal", "--replicas=6"]);
    let has_maximum = |portal: &Value| is_ready_with(portal, 4);
    wait_for(ns, APPLICATION.resource, "portal", has_maximum);
    assert_eq!(ns.pods().len(), 4);

    // Changes of other fields keep the autoscaler's number.
    spec["image"] = json!("nginx:1.28");
    APPLICATION.replace(ns, "portal", &spec);
    pod_spec(ns, "portal", |pod| pod["containers"][0]["image"] == "nginx:1.28");
    wait_for(ns, APPLICATION.resource, "portal", has_maximum);

    // Without the autoscaler, spec.replicas counts again.
    spec["scaling"] = Value::Null;
    spec["replicas"] = json!(3);
    let portal = APPLICATION.settle(ns, "portal", &spec);
    assert_eq!(portal["status"]["replicas"], 3, "{portal:#}");
    spec["replicas"] = json!(2);
    assert_eq!(APPLICATION.settle(ns, "portal", &spec)["status"]["replicas"], 2);
    let reasons = event_reasons(ns, "portal");
    assert!(reasons.contains(&"Scaling".to_owned()), "{reasons:?}");
}

#[test]
fn changes_of_pod_readiness_are_reported_in_status_and_events() {
    let ns = &stage().env.namespace("health");
    APPLICATION.settle(ns, "portal", &json!({ "image": "nginx:1.27", "replicas": 1 }));
    // Sets the Pod's condition as a kubelet does when a probe fails.
    let pod = windlass_e2e::text(&ns.pods()[0], "/metadata/name");
    let set_ready = |ready: &str| {
        let status = json!({ "status": { "conditions": [{ "type": "Ready", "status": ready }] } });
        ns.kubectl(&["patch", "pod", &pod, "--subresource=status", "--type=strategic", "-p", &status.to_string()]);
    };
    set_ready("False");
    let portal = wait_for(ns, APPLICATION.resource, "portal", |portal| portal["status"]["readyReplicas"] == 0);
    assert!(!condition(&portal, "Ready").is_true(), "{portal:#}");
    set_ready("True");
    APPLICATION.wait_ready(ns, "portal");
    for reason in ["Unhealthy", "Healthy"] {
        wait(reason, TIMEOUT, || event_reasons(ns, "portal").contains(&reason.to_owned()).then_some(()));
    }
}
