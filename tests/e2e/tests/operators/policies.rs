//! The admission policies: the requests that they reject, and those that they allow. All other tests here run with them, too.

use serde_json::{Value, json};
use windlass_e2e::{Namespace, SYSTEM_NAMESPACE, TIMEOUT, account, text, wait};

use crate::{APPLICATION, stage};

/// A ServiceAccount with the role `edit` in this namespace.
fn tenant(ns: &Namespace) -> String {
    ns.kubectl(&["create", "serviceaccount", "tenant"]);
    let user = format!("{}:tenant", ns.name());
    ns.kubectl(&["create", "rolebinding", "tenant", "--clusterrole=edit", &format!("--serviceaccount={user}")]);
    format!("system:serviceaccount:{user}")
}

/// Creates an object as this user, with further arguments of kubectl. The error is the API server's message.
fn send(ns: &Namespace, user: &str, args: &[&str], manifest: &Value) -> Result<String, String> {
    let args = [&["create", "-n", ns.name(), "--as", user, "-f", "-"], args].concat();
    ns.env().cluster().kubectl_with_input(&args, &manifest.to_string()).map_err(|error| format!("{error:#}"))
}

fn config_map(name: &str, metadata: &Value) -> Value {
    let mut map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata.clone() });
    map["metadata"]["name"] = json!(name);
    map
}

#[test]
fn s02_tenant_cannot_set_ownership_marks_of_children_or_use_the_hosts_field_managers() {
    let env = &stage().env;
    let ns = &env.namespace("forged-marks");
    let tenant = &tenant(ns);
    let marks = [
        ("labels", "windlass.dev/plugin"),
        ("labels", "windlass.dev/parent-uid"),
        ("annotations", "windlass.dev/applied"),
        ("annotations", "windlass.dev/retained-for"),
    ];
    // The API server needs a moment to have a policy in force.
    wait("the policy", TIMEOUT, || {
        let forged = config_map("first", &json!({ "labels": { "windlass.dev/plugin": "echo" } }));
        send(ns, tenant, &["--dry-run=server"], &forged).is_err().then_some(())
    });
    for (field, key) in marks {
        let mut marked = config_map("forged", &json!({}));
        marked["metadata"][field][key] = json!("echo");
        let error_message = send(ns, tenant, &[], &marked).expect_err(key);
        assert!(error_message.contains("windlass-marks") && error_message.contains(key), "{error_message}");
        let template = json!({ "metadata": { "labels": { "app": "forged" } }, "spec": { "containers": [{ "name": "a", "image": "a" }] } });
        let mut job = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "forged" } });
        job["spec"] = json!({ "selector": { "matchLabels": { "app": "forged" } }, "template": template });
        job["spec"]["template"]["metadata"][field][key] = json!("echo");
        let error_message = send(ns, tenant, &[], &job).expect_err(key);
        assert!(error_message.contains("template must not have"), "{error_message}");
    }
    for manager in ["windlass", "windlass-finalizer"] {
        let error_message =
            send(ns, tenant, &["--field-manager", manager], &config_map("forged", &json!({}))).expect_err(manager);
        assert!(error_message.contains("--field-manager"), "{error_message}");
    }
    let others = json!({ "labels": { "team": "blue" }, "annotations": { "windlass.dev/suspend": "true" } });
    send(ns, tenant, &[], &config_map("own", &others)).expect("an object without marks is allowed");
}

/// Each kind whose controller copies the metadata of a template into the objects that it creates, with the place of the template's
/// metadata.
fn templates() -> Vec<(Value, &'static str)> {
    let object = |api_version: &str, kind: &str, body: Value| {
        let mut object = json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": "copied" } });
        let fields = body.as_object().expect("an object").clone();
        object.as_object_mut().expect("an object").extend(fields);
        object
    };
    let claim = json!({ "metadata": {}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } });
    let pod = json!({
        "containers": [{ "name": "a", "image": "a" }], "restartPolicy": "Never",
        "volumes": [{ "name": "plain", "emptyDir": {} }, { "name": "own", "ephemeral": { "volumeClaimTemplate": claim.clone() } }],
    });
    let template = |restart_policy: &str| {
        let mut template = json!({ "metadata": { "labels": { "app": "copied" } }, "spec": pod.clone() });
        template["spec"]["restartPolicy"] = json!(restart_policy);
        template
    };
    let selector = json!({ "matchLabels": { "app": "copied" } });
    let workload = json!({ "spec": { "selector": selector, "template": template("Always") } });
    let stateful = json!({ "spec": {
        "selector": selector, "serviceName": "copied", "template": template("Always"),
        "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": claim["spec"] }] } });
    let job = json!({ "metadata": {}, "spec": { "template": template("Never") } });
    let controller = json!({ "spec": { "selector": { "app": "copied" }, "template": template("Always") } });
    let device = json!({ "spec": { "metadata": {}, "spec": { "devices": {} } } });
    let (in_pod, in_job) = ("/spec/template", "/spec/jobTemplate/spec/template");
    let ephemeral = "/spec/volumes/1/ephemeral/volumeClaimTemplate";
    let of_volume = [
        "/spec/template/spec/volumes/1/ephemeral/volumeClaimTemplate",
        "/spec/jobTemplate/spec/template/spec/volumes/1/ephemeral/volumeClaimTemplate",
    ];
    let mut all = vec![
        (object("v1", "Pod", json!({ "spec": pod })), ephemeral),
        (object("v1", "PodTemplate", json!({ "template": template("Always") })), "/template"),
        (
            object("v1", "PodTemplate", json!({ "template": template("Always") })),
            "/template/spec/volumes/1/ephemeral/volumeClaimTemplate",
        ),
        (object("apps/v1", "StatefulSet", stateful.clone()), "/spec/volumeClaimTemplates/0"),
        (
            object("batch/v1", "CronJob", json!({ "spec": { "schedule": "@daily", "jobTemplate": job } })),
            "/spec/jobTemplate",
        ),
        (object("resource.k8s.io/v1", "ResourceClaimTemplate", device), "/spec"),
    ];
    for (object, place) in [
        (object("v1", "ReplicationController", controller), 0),
        (object("apps/v1", "Deployment", workload.clone()), 0),
        (object("apps/v1", "ReplicaSet", workload.clone()), 0),
        (object("apps/v1", "DaemonSet", workload), 0),
        (object("apps/v1", "StatefulSet", stateful), 0),
        (object("batch/v1", "Job", json!({ "spec": job["spec"] })), 0),
        (object("batch/v1", "CronJob", json!({ "spec": { "schedule": "@daily", "jobTemplate": job } })), 1),
    ] {
        all.push((object.clone(), [in_pod, in_job][place]));
        all.push((object, of_volume[place]));
    }
    all
}

#[test]
fn s02_no_template_that_a_controller_copies_can_carry_the_marks_of_children() {
    let env = &stage().env;
    let ns = &env.namespace("forged-templates");
    let tenant = &tenant(ns);
    let dry_run = ["--dry-run=server", "--validate=false"];
    // The role `edit` does not contain these.
    env.apply(
        &json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": { "name": "templates", "namespace": ns.name() },
            "rules": [{
                "apiGroups": ["", "resource.k8s.io"], "resources": ["podtemplates", "resourceclaimtemplates"], "verbs": ["create"],
            }],
        })
        .to_string(),
    );
    let user = format!("--serviceaccount={}:tenant", ns.name());
    ns.kubectl(&["create", "rolebinding", "templates", "--role=templates", &user]);
    wait("the policy", TIMEOUT, || {
        let forged = config_map("first", &json!({ "labels": { "windlass.dev/plugin": "echo" } }));
        send(ns, tenant, &dry_run, &forged).is_err().then_some(())
    });
    // Pods need it.
    env.wait_object("serviceaccounts", ns.name(), "default", |_| true);
    for (object, place) in templates() {
        let kind = text(&object, "/kind").clone();
        match send(ns, tenant, &dry_run, &object) {
            Ok(_) => {}
            // Before Kubernetes 1.34.
            Err(error) if kind == "ResourceClaimTemplate" && error.contains("no matches for kind") => continue,
            Err(error) => panic!("{kind} {place} without marks: {error}"),
        }
        for (field, key) in [("labels", "windlass.dev/parent-uid"), ("annotations", "windlass.dev/mark")] {
            let mut marked = object.clone();
            marked.pointer_mut(place).expect(place)["metadata"][field][key] = json!("forged");
            let error = send(ns, tenant, &dry_run, &marked).expect_err(&format!("{kind} {place}"));
            // A ReplicationController without labels gets those of its template.
            assert!(error.contains("windlass-marks"), "{kind} {place}: {error}");
        }
    }
}

#[test]
fn s02_tenant_may_change_a_child_but_not_its_ownership_marks_which_controllers_may_copy() {
    let env = &stage().env;
    let ns = &env.namespace("kept-marks");
    let tenant = &tenant(ns);
    APPLICATION.settle(ns, "shop", &json!({ "image": "nginx:1.27", "port": 8080, "replicas": 1 }));
    let patch = |patch: Value| {
        let patch = patch.to_string();
        env.try_kubectl(&["patch", "service", "shop", "-n", ns.name(), "--as", tenant, "--type=merge", "-p", &patch])
    };
    patch(json!({ "metadata": { "labels": { "team": "blue" } } })).expect("a label of the tenant is allowed");
    let error_message = patch(json!({ "metadata": { "labels": { "windlass.dev/plugin": "echo" } } }))
        .expect_err("a changed mark is rejected");
    assert!(error_message.contains("windlass-marks"), "{error_message}");
    // A Service's labels are copied to its EndpointSlices, a Deployment's annotations to its ReplicaSets.
    env.wait("a ReplicaSet and an EndpointSlice", TIMEOUT, || {
        let has_copy =
            |resource, pointer| env.list(resource, ns.name()).iter().any(|copy| !text(copy, pointer).is_empty());
        let copied = has_copy("replicasets", "/metadata/annotations/windlass.dev~1applied")
            && has_copy("endpointslices", "/metadata/labels/windlass.dev~1plugin");
        copied.then_some(())
    });
}

#[test]
fn s01_plugins_service_account_writes_nothing_in_the_hosts_namespace_even_as_cluster_admin() {
    let env = &stage().env;
    let ns = &env.namespace("host-guarded");
    // A careless administrator grants the widest permissions.
    let (user, other) = (account("echo"), account("myapp"));
    let name = |user: &str| user.rsplit(':').next().unwrap_or_default().to_owned();
    let for_account = format!("--serviceaccount={SYSTEM_NAMESPACE}:{}", name(&user));
    env.kubectl(&[
        "create",
        "rolebinding",
        "careless",
        "-n",
        SYSTEM_NAMESPACE,
        "--clusterrole=cluster-admin",
        &for_account,
    ]);
    let in_host_namespace = |verb: &[&str]| env.try_kubectl(&[verb, &["-n", SYSTEM_NAMESPACE, "--as", &user]].concat());
    wait("the policy", TIMEOUT, || {
        in_host_namespace(&["create", "configmap", "loot", "--dry-run=server"]).is_err().then_some(())
    });
    for verb in [
        ["create", "serviceaccount", "loot"].as_slice(),
        &["create", "token", "windlass"],
        &["label", "serviceaccount", "windlass", "loot=yes"],
        &["delete", "serviceaccount", &name(&other)],
    ] {
        let error_message = in_host_namespace(verb).expect_err("the policy rejects it");
        assert!(error_message.contains("windlass-host-namespace"), "{verb:?}: {error_message}");
    }
    env.kubectl(&["delete", "rolebinding", "careless", "-n", SYSTEM_NAMESPACE]);
    env.kubectl(&["create", "rolebinding", "careless", "-n", ns.name(), "--clusterrole=edit", &for_account]);
    env.try_kubectl(&["create", "configmap", "fine", "-n", ns.name(), "--as", &user])
        .expect("the account may write in another namespace");
}
