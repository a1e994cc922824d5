//! Parents with a finalizer, until their plugin has cleaned up (R14).

use serde_json::{Value, json};
use windlass_e2e::{AuditEvent, Namespace, Puppet, TIMEOUT, condition, wait};

use crate::scripts::{config_map, job};
use crate::{barrier_of, names, stage, wait_names, write_attempts};

const FINALIZER: &str = "windlass.dev/puppet-finalizes";

fn finalizing(name: &str) -> (Namespace<'static>, Puppet<'static>) {
    let ns = stage().with("puppet-finalizes").namespace(name);
    let puppet = ns.puppet_of("FinalizingPuppet", "web");
    (ns, puppet)
}

fn has_finalizer(puppet: &Value) -> bool {
    puppet["metadata"]["finalizers"].as_array().is_some_and(|all| all.iter().any(|name| name == FINALIZER))
}

fn wait_gone(puppet: &Puppet) {
    wait("the parent to be gone", TIMEOUT, || puppet.get().is_none().then_some(()));
}

#[test]
fn r14_finalizer_is_set_before_the_first_child_is_created() {
    let (ns, puppet) = finalizing("finalizer-first");
    let mark = ns.env().mark();
    let done = puppet.play(&json!({ "children": [config_map("a", "1")] }));
    assert!(has_finalizer(&done), "{done:#}");
    let mut writes = ns.env().host_writes(mark).namespace(ns.name());
    writes.0.sort_by(|one, other| one.timestamp.cmp(&other.timestamp));
    let first: Vec<_> = writes.iter().map(|event| (&*event.resource, &*event.subresource)).take(2).collect();
    assert_eq!(first, [("finalizingpuppets", ""), ("configmaps", "")], "{writes:#?}");
    assert_eq!(
        writes[0].query("fieldManager"),
        Some("windlass-finalizer"),
        "another field manager than for children, because a parent may itself be a child"
    );
    puppet.kubectl("delete", &["--wait=true"]);
    wait_names(&ns, "configmaps", &[]);
}

#[test]
fn r14_parent_stays_until_the_response_is_finalized_and_a_clean_up_job_may_run() {
    let (ns, puppet) = finalizing("finalize-job");
    puppet.play(&json!({
        "children": [config_map("a", "1")],
        "finalize": { "children": [config_map("a", "1"), job("clean")], "finalizedWhen": "jobComplete" },
    }));
    let mark = ns.env().mark();
    puppet.kubectl("delete", &["--wait=true", "--timeout=180s"]);
    let created = write_attempts(&ns, mark, "jobs").filter(|event| event.verb == "create");
    assert_eq!(created.len(), 1, "{created:#?}");
    assert!(ns.env().host_log_lines(&format!("puppet called: finalize {}/web ", ns.name())).len() >= 2);
    wait_names(&ns, "configmaps", &[]);
}

#[test]
fn r03_clean_up_child_is_created_once_for_each_of_many_parents_deleted_together() {
    let ns = stage().with("puppet-finalizes").namespace("finalize-once");
    let clean_up = json!({ "finalize": {
        "children": [config_map("${name}-cleanup", "1")], "finalizedWhen": "childrenCreated",
    }});
    let puppets: Vec<_> = (0..20).map(|at| ns.puppet_of("FinalizingPuppet", &format!("p{at:02}"))).collect();
    for puppet in &puppets {
        puppet.apply(&clean_up);
    }
    for puppet in &puppets {
        puppet.wait_done();
    }
    let mark = ns.env().mark();
    ns.kubectl(&["delete", "finalizingpuppets.puppets.example", "--all", "--wait=true", "--timeout=180s"]);
    barrier_of(&ns, "FinalizingPuppet", "after");
    let created = write_attempts(&ns, mark, "configmaps").filter(|event| event.verb == "create");
    let mut created: Vec<_> = created.iter().map(|event| &*event.name).filter(|name| *name != "after").collect();
    created.sort_unstable();
    let expected: Vec<_> = (0..20).map(|at| format!("p{at:02}-cleanup")).collect();
    assert_eq!(created, expected);
    wait_names(&ns, "configmaps", &["after"]);
}

#[test]
fn r14_condition_of_a_parent_that_is_never_finalized_names_skip_finalize() {
    let (ns, puppet) = finalizing("finalize-never");
    puppet.play(&json!({ "children": [config_map("a", "1")], "finalize": {
        "children": [config_map("a", "1")], "finalizedWhen": "never",
    }}));
    puppet.kubectl("delete", &["--wait=false"]);
    let ready = puppet.wait_reason("Finalizing");
    assert!(ready.message.contains("windlass.dev/skip-finalize"), "{ready:?}");
    assert!(has_finalizer(&puppet.get().expect("still there")));
    assert_eq!(names(&ns, "configmaps"), ["a"]);
    puppet.kubectl("annotate", &["windlass.dev/skip-finalize=true"]);
    wait_gone(&puppet);
    wait_names(&ns, "configmaps", &[]);
}

#[test]
fn r14_trapping_component_blocks_deletion_and_the_condition_names_skip_finalize() {
    let (ns, puppet) = finalizing("finalize-broken");
    let clean = json!({ "children": [config_map("a", "1")] });
    puppet.play(&clean);
    // The spec can still be changed during the deletion; here it made the component trap before.
    let mut broken = clean;
    broken["fail"] = "trap".into();
    puppet.apply(&broken);
    puppet.wait_reason("Trapped");
    puppet.kubectl("delete", &["--wait=false"]);
    let blocked = puppet.wait(|puppet| {
        let ready = condition(puppet, "Ready");
        !puppet["metadata"]["deletionTimestamp"].is_null() && ready.message.contains("windlass.dev/skip-finalize")
    });
    assert!(has_finalizer(&blocked) && condition(&blocked, "Ready").status == "False", "{blocked:#}");
    puppet.kubectl("annotate", &["windlass.dev/skip-finalize=true"]);
    wait_gone(&puppet);
    wait_names(&ns, "configmaps", &[]);
}

#[test]
fn r14_children_missing_from_the_finalize_response_are_pruned_before_the_parent_goes() {
    let (ns, puppet) = finalizing("finalize-gone");
    puppet.play(&json!({
        "children": [config_map("a", "1"), config_map("b", "1")],
        "finalize": { "finalizedWhen": "childrenGone" },
    }));
    let mark = ns.env().mark();
    puppet.kubectl("delete", &["--wait=true", "--timeout=180s"]);
    // The host deletes them while the parent still exists: the garbage collector waits until the parent is gone.
    let deleted = write_attempts(&ns, mark, "configmaps");
    let mut names: Vec<_> = deleted.iter().map(|event| (&*event.verb, &*event.name)).collect();
    names.sort_unstable();
    assert_eq!(names, [("delete", "a"), ("delete", "b")]);
    wait_names(&ns, "configmaps", &[]);
}

#[test]
fn r14_no_child_is_created_or_updated_during_a_foreground_deletion() {
    let (ns, puppet) = finalizing("finalize-foreground");
    puppet.play(&json!({
        "children": [config_map("a", "1")],
        "finalize": { "children": [config_map("a", "2"), job("clean")], "finalizedWhen": "childrenGone" },
    }));
    let mark = ns.env().mark();
    puppet.kubectl("delete", &["--cascade=foreground", "--wait=true", "--timeout=180s"]);
    for resource in ["configmaps", "jobs"] {
        let written = write_attempts(&ns, mark, resource).filter(|event| event.verb != "delete");
        assert_eq!(written.to_vec(), []);
    }
}

#[test]
fn r14_finalizer_of_another_owner_is_left_alone() {
    let (ns, puppet) = finalizing("finalize-others");
    puppet.play(&json!({ "children": [config_map("a", "1")] }));
    let add = r#"[{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/hold"}]"#;
    puppet.kubectl("patch", &["--type=json", "-p", add]);
    puppet.kubectl("delete", &["--wait=false"]);
    let left = puppet.wait(|puppet| !has_finalizer(puppet));
    assert_eq!(left["metadata"]["finalizers"], json!(["example.com/hold"]));
    puppet.kubectl("patch", &["--type=merge", "-p", r#"{"metadata": {"finalizers": null}}"#]);
    wait_gone(&puppet);
    wait_names(&ns, "configmaps", &[]);
}

#[test]
fn r14_last_status_of_a_parent_that_another_finalizer_keeps_says_that_the_plugin_has_cleaned_up() {
    let (ns, puppet) = finalizing("finalize-last");
    puppet.play(&json!({ "status": "reflect", "finalize": { "finalizedWhen": "never" } }));
    let add = r#"[{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/hold"}]"#;
    puppet.kubectl("patch", &["--type=json", "-p", add]);
    puppet.kubectl("delete", &["--wait=false"]);
    puppet.wait_reason("Finalizing");
    puppet.kubectl("patch", &["--type=merge", "-p", r#"{"spec": {"finalize": null, "status": {"phase": "cleaned"}}}"#]);
    let left = puppet.wait(|puppet| !has_finalizer(puppet));
    assert_eq!(left["status"]["phase"], "cleaned", "the status of the last response: {left:#}");
    let ready = condition(&left, "Ready");
    assert!(ready.is_false("FinalizerRemoved") && ready.message.contains("example.com/hold"), "{ready:?}");
    assert!(!ready.message.contains("skip-finalize"), "{ready:?}");
    for gone in ["Reconciling", "Stalled"] {
        assert_ne!(condition(&left, gone).status, "True", "{left:#}");
    }
    puppet.kubectl("patch", &["--type=merge", "-p", r#"{"metadata": {"finalizers": null}}"#]);
    wait_gone(&puppet);
    let finalized = ns.env().host_log_lines(&format!("puppet called: finalize {}/web ", ns.name()));
    let calls = finalized.len();
    barrier_of(&ns, "FinalizingPuppet", "after");
    let calls_now = ns.env().host_log_lines(&format!("puppet called: finalize {}/web ", ns.name())).len();
    assert_eq!(calls_now, calls, "no call after the clean-up");
}

#[test]
fn r15_orphan_deletion_calls_finalize_and_keeps_the_children() {
    let (ns, puppet) = finalizing("finalize-orphan");
    puppet.play(&json!({
        "children": [config_map("a", "1"), config_map("b", "1")],
        "finalize": { "finalizedWhen": "childrenGone" },
    }));
    let mark = ns.env().mark();
    puppet.kubectl("delete", &["--cascade=orphan", "--wait=true", "--timeout=180s"]);
    assert!(!ns.env().host_log_lines(&format!("puppet called: finalize {}/web ", ns.name())).is_empty());
    // The watch may show a child without its parent before it shows the deletion: then the API server rejects its create.
    assert_eq!(write_attempts(&ns, mark, "configmaps").filter(AuditEvent::succeeded).to_vec(), []);
    assert_eq!(names(&ns, "configmaps"), ["a", "b"]);
    assert!(ns.get("configmaps", "a").expect("it is there")["metadata"]["ownerReferences"].is_null());
}

#[test]
fn r14_finalizer_in_a_terminating_namespace_is_abandoned_with_an_event() {
    let (ns, puppet) = finalizing("finalize-namespace");
    puppet.play(&json!({
        "children": [config_map("a", "1")],
        "finalize": { "children": [config_map("a", "1"), job("clean")], "finalizedWhen": "jobComplete" },
    }));
    ns.env().kubectl(&["delete", "namespace", ns.name(), "--wait=true", "--timeout=180s"]);
    // The event is on the Plugin: no event can be created in a namespace that is being deleted.
    wait("the event", TIMEOUT, || {
        let is_abandoned = |event: &Value| {
            let message = windlass_e2e::text(event, "/message");
            event["reason"] == "FinalizerAbandoned" && message.contains(&format!("{}/web", ns.name()))
        };
        ns.env().list("events", "default").iter().any(is_abandoned).then_some(())
    });
}
