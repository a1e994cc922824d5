//! Children of a stage wait until those of the lower stages are ready (R22, R23).

use serde_json::{Value, json};
use windlass_e2e::{Env, Namespace, TIMEOUT, condition, text};

use crate::scripts::{config_map, deployment, job};
use crate::{previewed, stage};

fn namespace(name: &str) -> Namespace<'static> {
    stage().with("puppet-staged").namespace(name)
}

/// The spec of a parent with these children, each of its stage.
fn staged(children: &[(u32, Value)]) -> Value {
    let with_options = |(stage, child): &(u32, Value)| {
        let mut child = child.clone();
        child["options"] = json!({ "stage": stage });
        child
    };
    json!({ "children": children.iter().map(with_options).collect::<Vec<_>>() })
}

fn stateful_set(name: &str, node_selector: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": name },
        "spec": {
            "serviceName": name, "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "nodeSelector": node_selector, "containers": [{ "name": "main", "image": "db:1" }] },
            },
        },
    })
}

/// A Job that fails, because no Node can run it in time.
fn failing_job(name: &str) -> Value {
    let mut job = job(name);
    job["spec"]["activeDeadlineSeconds"] = json!(1);
    job["spec"]["template"]["spec"]["nodeSelector"] = json!({ "no": "node" });
    job
}

/// What the plugin was told about the children in each call for this parent, in the order of the calls.
fn told(env: &Env, puppet: &str) -> Vec<String> {
    let lines = env.host_log_lines(&format!("puppet called: sync {puppet} "));
    lines.iter().filter(|line| line.contains("windlass::guest")).cloned().collect()
}

/// The kinds that the host created in a namespace, in order.
fn created(ns: &Namespace, mark: windlass_e2e::Mark) -> Vec<String> {
    let writes = ns.env().host_writes(mark).namespace(ns.name()).filter(|write| write.verb == "create");
    writes.iter().map(|write| write.resource.clone()).filter(|resource| resource != "events").collect()
}

#[test]
fn r23_each_stage_is_created_once_the_one_before_is_ready_and_ready_means_that_all_are() {
    let ns = namespace("stages");
    let (puppet, mark) = (ns.puppet_of("StagedPuppet", "web"), ns.env().mark());
    puppet.apply(&staged(&[
        (2, deployment("web", "nginx:1", Some(2))),
        (1, job("migrate")),
        (0, stateful_set("db", &json!({}))),
        (0, config_map("settings", "1")),
    ]));
    puppet.kubectl("wait", &["--for=condition=Ready", "--timeout=120s"]);
    let web = ns.get("deployments", "web").expect("the Deployment");
    assert_eq!(web["status"]["availableReplicas"], 2, "Ready means that the Pods are");
    assert_eq!(text(&web, "/metadata/annotations/windlass.dev~1stage"), "2");
    assert_eq!(created(&ns, mark), ["configmaps", "statefulsets", "jobs", "deployments"]);
    let told = told(ns.env(), &format!("{}/web", ns.name()));
    for (child, below) in [("Job migrate", "StatefulSet db: ready"), ("Deployment web", "Job migrate: ready")] {
        let first = told.iter().find(|line| line.contains(child)).unwrap_or_else(|| panic!("{child} in {told:#?}"));
        assert!(first.contains(below), "{first}");
        let was_waiting = told.iter().any(|line| line.contains(&below.replace("ready", "progressing")));
        assert!(was_waiting, "{below} was awaited: {told:#?}");
    }
}

#[test]
fn r23_failed_job_is_named_with_its_reason_and_the_stage_above_it_waits() {
    let ns = namespace("failing");
    let puppet = ns.puppet_of("StagedPuppet", "web");
    let web = (1, deployment("web", "nginx:1", Some(1)));
    puppet.apply(&staged(&[(0, failing_job("migrate")), web.clone()]));
    let failed = puppet.wait_reason("ChildFailed");
    let name = ns.name();
    let begins = format!("Job {name}/migrate has failed: Job was active longer than specified deadline");
    assert!(failed.message.starts_with(&begins), "{failed:?}");
    assert!(failed.message.ends_with(&format!("Deployment {name}/web waits for it")), "{failed:?}");
    let parent = puppet.get().expect("the parent");
    assert!(condition(&parent, "Stalled").is_true() && !condition(&parent, "Reconciling").is_true(), "{parent:#}");
    assert_eq!(ns.get("deployments", "web"), None);
    assert_eq!(previewed(&ns, "puppet-staged", "create Deployment "), 1, "diff shows all stages");
    // Another Job in its place: the failed one stays until everything is there.
    puppet.play(&staged(&[(0, job("migrate-again")), web]));
    ns.wait_gone("jobs", "migrate");
    assert!(ns.get("deployments", "web").is_some());
}

#[test]
fn r23_degraded_stage_stops_changes_of_the_stages_above_it_and_no_repair() {
    let ns = namespace("degraded");
    let puppet = ns.puppet_of("StagedPuppet", "web");
    let spec = |node_selector: &Value, image: &str| {
        staged(&[(0, stateful_set("db", node_selector)), (1, deployment("web", image, Some(1)))])
    };
    puppet.play(&spec(&json!({}), "nginx:1"));
    puppet.apply(&spec(&json!({ "no": "node" }), "nginx:2"));
    puppet.wait(|puppet| {
        let message = condition(puppet, "Ready").message;
        message.contains(&format!("StatefulSet {}/db is not ready", ns.name())) && message.ends_with("web waits for it")
    });
    let image = || text(&ns.get("deployments", "web").expect("it"), "/spec/template/spec/containers/0/image");
    // Its desired state changed, so the host cannot tell an edit from that; what it owns stays as it was.
    assert_eq!(image(), "nginx:1");
    puppet.apply(&spec(&json!({ "no": "node" }), "nginx:1"));
    puppet.wait(|puppet| condition(puppet, "Ready").message.ends_with("Pods are ready"));
    let edit = json!({ "spec": { "replicas": 3 } }).to_string();
    ns.kubectl(&["patch", "deployments", "web", "--type=merge", "-p", &edit]);
    let replicas = |deployment: &Value| deployment["spec"]["replicas"] == 1;
    ns.env().wait_object("deployments", ns.name(), "web", replicas);
    // The host may report for a moment that the Deployment changed while it was repaired.
    puppet.wait_reason("WaitingForReady");
    // Back to a template that a Node can run: a StatefulSet waits for its broken Pod, which a user deletes.
    puppet.apply(&spec(&json!({}), "nginx:2"));
    ns.env().wait("the new template", TIMEOUT, || {
        let db = ns.get("statefulsets", "db")?;
        db["spec"]["template"]["spec"]["nodeSelector"].as_object().is_none_or(serde_json::Map::is_empty).then_some(())
    });
    ns.kubectl(&["delete", "pod", "db-0", "--ignore-not-found"]);
    puppet.wait_done();
    assert_eq!(image(), "nginx:2");
}

#[test]
fn r23_children_of_a_deleted_parent_go_from_the_highest_stage_down_each_gone_before_the_next() {
    let ns = namespace("reverse");
    let puppet = ns.puppet_of("StagedPuppet", "web");
    puppet.play(&staged(&[
        (0, config_map("settings", "1")),
        (0, stateful_set("db", &json!({}))),
        (1, deployment("web", "nginx:1", Some(1))),
        (2, config_map("entry", "1")),
    ]));
    let hold = json!({ "metadata": { "finalizers": ["users.example/hold"] } }).to_string();
    ns.kubectl(&["patch", "deployments", "web", "--type=merge", "-p", &hold]);
    let mark = ns.env().mark();
    puppet.kubectl("delete", &["--wait=false"]);
    let waits = puppet.wait_reason("ChildrenTerminating");
    puppet.wait(|puppet| condition(puppet, "Ready").message.contains(&format!("Deployment {}/web", ns.name())));
    assert!(waits.message.contains("windlass.dev/skip-finalize"), "{waits:?}");
    assert_eq!(ns.get("configmaps", "entry"), None);
    assert_eq!(ns.get("statefulsets", "db").expect("it")["metadata"]["deletionTimestamp"], Value::Null);
    let release = json!({ "metadata": { "finalizers": null } }).to_string();
    ns.kubectl(&["patch", "deployments", "web", "--type=merge", "-p", &release]);
    ns.env().wait("the parent gone", TIMEOUT, || puppet.get().is_none().then_some(()));
    let writes = ns.env().host_writes(mark).namespace(ns.name()).filter(|write| write.verb == "delete");
    let deleted: Vec<_> = writes.iter().map(|write| format!("{} {}", write.resource, write.name)).collect();
    assert_eq!(deleted, ["configmaps entry", "deployments web", "statefulsets db", "configmaps settings"]);
    assert_eq!(ns.get("statefulsets", "db"), None, "the parent goes last");
}

#[test]
fn r22_claim_that_waits_for_its_first_consumer_blocks_no_stage() {
    let ns = namespace("claims");
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "waits" },
        "provisioner": "none.example", "volumeBindingMode": "WaitForFirstConsumer",
    });
    ns.env().apply(&class.to_string());
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "data" },
        "spec": {
            "storageClassName": "waits", "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
        },
    });
    let puppet = ns.puppet_of("StagedPuppet", "web");
    puppet.play(&staged(&[(0, claim), (1, config_map("after", "1"))]));
    assert_eq!(text(&ns.get("persistentvolumeclaims", "data").expect("the claim"), "/status/phase"), "Pending");
}
