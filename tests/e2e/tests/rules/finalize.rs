//! Parents with a finalizer, until their plugin has cleaned up (R14).

use serde_json::{Value, json};
use windlass_e2e::{AuditEvent, Namespace, Puppet, SOON, condition, wait};

use crate::scripts::{config_map, job};
use crate::{asked, names, stage, wait_names};

const FINALIZER: &str = "windlass.dev/puppet-finalizes";

fn finalizing(name: &str) -> (Namespace<'static>, Puppet<'static>) {
    let ns = stage().with("puppet-finalizes").namespace(name);
    let puppet = ns.puppet_of("FinalizingPuppet", "web");
    (ns, puppet)
}

fn is_held(puppet: &Value) -> bool {
    puppet["metadata"]["finalizers"].as_array().is_some_and(|all| all.iter().any(|name| name == FINALIZER))
}

fn wait_gone(puppet: &Puppet) {
    wait("the parent to be gone", SOON, || puppet.get().is_none().then_some(()));
}

#[test]
fn r14_the_finalizer_is_there_before_the_first_child() {
    let (ns, puppet) = finalizing("finalizer-first");
    let mark = ns.env().mark();
    let done = puppet.play(&json!({ "children": [config_map("a", "1")] }));
    assert!(is_held(&done), "{done:#}");
    let mut writes = ns.env().host_writes(mark).namespace(ns.name());
    writes.0.sort_by(|one, other| one.timestamp.cmp(&other.timestamp));
    let first: Vec<_> = writes.iter().map(|event| (&*event.resource, &*event.subresource)).take(2).collect();
    assert_eq!(first, [("finalizingpuppets", ""), ("configmaps", "")], "{writes:#?}");
    assert_eq!(
        writes[0].query("fieldManager"),
        Some("windlass-finalizer"),
        "as another manager than children: a parent may be one"
    );
    puppet.kubectl("delete", &["--wait=true"]);
    wait_names(&ns, "configmaps", &[]);
}

#[test]
fn r14_a_parent_stays_until_its_plugin_says_finalized_and_a_job_may_run_for_it() {
    let (ns, puppet) = finalizing("finalize-job");
    puppet.play(&json!({
        "children": [config_map("a", "1")],
        "finalize": { "children": [config_map("a", "1"), job("clean")], "finalizedWhen": "jobComplete" },
    }));
    let mark = ns.env().mark();
    puppet.kubectl("delete", &["--wait=true", "--timeout=180s"]);
    let created = asked(&ns, mark, "jobs").filter(|event| event.verb == "create");
    assert_eq!(created.len(), 1, "{created:#?}");
    assert!(ns.env().host_log_lines(&format!("puppet called: finalize {}/web ", ns.name())).len() >= 2);
    wait_names(&ns, "configmaps", &[]);
}

#[test]
fn r14_a_plugin_that_never_finishes_is_named_with_the_way_out() {
    let (ns, puppet) = finalizing("finalize-never");
    puppet.play(&json!({ "children": [config_map("a", "1")], "finalize": {
        "children": [config_map("a", "1")], "finalizedWhen": "never",
    }}));
    puppet.kubectl("delete", &["--wait=false"]);
    let ready = puppet.wait_reason("Finalizing");
    assert!(ready.message.contains("windlass.dev/skip-finalize"), "{ready:?}");
    assert!(is_held(&puppet.get().expect("still there")));
    assert_eq!(names(&ns, "configmaps"), ["a"]);
    puppet.kubectl("annotate", &["windlass.dev/skip-finalize=true"]);
    wait_gone(&puppet);
    wait_names(&ns, "configmaps", &[]);
}

#[test]
fn r14_broken_logic_holds_a_deletion_but_its_condition_names_the_way_out() {
    let (ns, puppet) = finalizing("finalize-broken");
    let clean = json!({ "children": [config_map("a", "1")] });
    puppet.play(&clean);
    // Its spec can still be changed while it is being deleted; here it was broken before.
    let mut broken = clean;
    broken["fail"] = "trap".into();
    puppet.apply(&broken);
    puppet.wait_reason("Trapped");
    puppet.kubectl("delete", &["--wait=false"]);
    let told = puppet.wait(|puppet| {
        let ready = condition(puppet, "Ready");
        !puppet["metadata"]["deletionTimestamp"].is_null() && ready.message.contains("windlass.dev/skip-finalize")
    });
    assert!(is_held(&told) && condition(&told, "Ready").status == "False", "{told:#}");
    puppet.kubectl("annotate", &["windlass.dev/skip-finalize=true"]);
    wait_gone(&puppet);
    wait_names(&ns, "configmaps", &[]);
}

#[test]
fn r14_children_that_finalize_leaves_out_are_pruned_and_waited_for() {
    let (ns, puppet) = finalizing("finalize-gone");
    puppet.play(&json!({
        "children": [config_map("a", "1"), config_map("b", "1")],
        "finalize": { "finalizedWhen": "childrenGone" },
    }));
    let mark = ns.env().mark();
    puppet.kubectl("delete", &["--wait=true", "--timeout=180s"]);
    // By the host, while the parent was still there: the garbage collector waits for its end.
    let deleted = asked(&ns, mark, "configmaps");
    let mut names: Vec<_> = deleted.iter().map(|event| (&*event.verb, &*event.name)).collect();
    names.sort_unstable();
    assert_eq!(names, [("delete", "a"), ("delete", "b")]);
    wait_names(&ns, "configmaps", &[]);
}

#[test]
fn r14_a_foreground_deletion_creates_nothing() {
    let (ns, puppet) = finalizing("finalize-foreground");
    puppet.play(&json!({
        "children": [config_map("a", "1")],
        "finalize": { "children": [config_map("a", "2"), job("clean")], "finalizedWhen": "childrenGone" },
    }));
    let mark = ns.env().mark();
    puppet.kubectl("delete", &["--cascade=foreground", "--wait=true", "--timeout=180s"]);
    for resource in ["configmaps", "jobs"] {
        let made = asked(&ns, mark, resource).filter(|event| event.verb != "delete");
        assert_eq!(made.to_vec(), []);
    }
}

#[test]
fn r14_a_finalizer_of_somebody_elses_is_left_alone() {
    let (ns, puppet) = finalizing("finalize-others");
    puppet.play(&json!({ "children": [config_map("a", "1")] }));
    let add = r#"[{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/hold"}]"#;
    puppet.kubectl("patch", &["--type=json", "-p", add]);
    puppet.kubectl("delete", &["--wait=false"]);
    let left = puppet.wait(|puppet| !is_held(puppet));
    assert_eq!(left["metadata"]["finalizers"], json!(["example.com/hold"]));
    puppet.kubectl("patch", &["--type=merge", "-p", r#"{"metadata": {"finalizers": null}}"#]);
    wait_gone(&puppet);
    wait_names(&ns, "configmaps", &[]);
}

#[test]
fn r15_a_deletion_that_orphans_calls_finalize_and_keeps_the_children() {
    let (ns, puppet) = finalizing("finalize-orphan");
    puppet.play(&json!({
        "children": [config_map("a", "1"), config_map("b", "1")],
        "finalize": { "finalizedWhen": "childrenGone" },
    }));
    let mark = ns.env().mark();
    puppet.kubectl("delete", &["--cascade=orphan", "--wait=true", "--timeout=180s"]);
    assert!(!ns.env().host_log_lines(&format!("puppet called: finalize {}/web ", ns.name())).is_empty());
    // The watch may show a child without its parent before it shows the deletion: then the API server refuses to create it.
    assert_eq!(asked(&ns, mark, "configmaps").filter(AuditEvent::succeeded).to_vec(), []);
    assert_eq!(names(&ns, "configmaps"), ["a", "b"]);
    assert!(ns.get("configmaps", "a").expect("it is there")["metadata"]["ownerReferences"].is_null());
}

#[test]
fn r14_a_namespace_goes_although_the_plugin_wants_a_job_in_it_and_an_event_says_so() {
    let (ns, puppet) = finalizing("finalize-namespace");
    puppet.play(&json!({
        "children": [config_map("a", "1")],
        "finalize": { "children": [config_map("a", "1"), job("clean")], "finalizedWhen": "jobComplete" },
    }));
    ns.env().kubectl(&["delete", "namespace", ns.name(), "--wait=true", "--timeout=180s"]);
    // On the Plugin: none can be created in a namespace that is being deleted.
    wait("the event", SOON, || {
        let told = |event: &Value| {
            let message = windlass_e2e::text(event, "/message");
            event["reason"] == "FinalizerAbandoned" && message.contains(&format!("{}/web", ns.name()))
        };
        ns.env().list("events", "default").iter().any(told).then_some(())
    });
}
