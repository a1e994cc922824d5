//! Children that are created once (R25).

use serde_json::{Value, json};
use windlass_e2e::{Mark, Namespace, Puppet, TIMEOUT, text};

use crate::scripts::{deployment, job};
use crate::stage;

fn puppet(name: &str) -> (Namespace<'static>, Puppet<'static>) {
    let ns = stage().with("puppet-staged").namespace(name);
    let puppet = ns.puppet_of("StagedPuppet", "web");
    (ns, puppet)
}

/// A Job that is created once for a text, and a Deployment that waits for it.
fn spec(once: &str, image: &str) -> Value {
    let (mut migrate, mut web) = (job("migrate"), deployment("web", image, Some(1)));
    migrate["spec"]["ttlSecondsAfterFinished"] = json!(0);
    migrate["options"] = json!({ "once": once });
    web["options"] = json!({ "stage": 1 });
    json!({ "children": [migrate, web] })
}

fn jobs_created(ns: &Namespace, mark: Mark) -> usize {
    let writes = ns.env().host_writes(mark).namespace(ns.name()).resource("jobs");
    writes.iter().filter(|write| write.verb == "create").count()
}

/// The parent's notes about children that are created once.
fn notes(puppet: &Puppet) -> Vec<String> {
    let parent = puppet.get().expect("the parent");
    let annotations = parent["metadata"]["annotations"].as_object().into_iter().flatten();
    let notes = annotations.filter(|(name, _)| name.starts_with("windlass.dev/once-"));
    notes.map(|(_, value)| text(value, "").split(' ').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn r25_job_that_is_deleted_by_its_time_to_live_runs_once_for_each_text() {
    let (ns, puppet) = puppet("once");
    let mark = ns.env().mark();
    puppet.apply(&spec("1", "nginx:1"));
    puppet.kubectl("wait", &["--for=condition=Ready", "--timeout=120s"]);
    let wait_gone = || ns.wait_gone("jobs", "migrate");
    wait_gone();
    assert_eq!(notes(&puppet), ["ready"]);
    puppet.play(&spec("1", "nginx:2"));
    assert_eq!(jobs_created(&ns, mark), 1, "another change runs it no more");
    puppet.play(&spec("2", "nginx:2"));
    wait_gone();
    assert_eq!(jobs_created(&ns, mark), 2);
    puppet.play(&spec("1", "nginx:2"));
    assert_eq!(jobs_created(&ns, mark), 2, "it has run for the first text before");
    assert_eq!(notes(&puppet), ["ready", "ready"]);
}

#[test]
fn r25_job_that_a_quota_refuses_is_created_once_the_quota_is_raised() {
    let (ns, puppet) = puppet("refused");
    ns.kubectl(&["create", "quota", "jobs", "--hard=count/jobs.batch=0"]);
    puppet.apply(&spec("1", "nginx:1"));
    let refused = puppet.wait_reason("ChildRejected");
    assert!(refused.message.contains("exceeded quota"), "{refused:?}");
    ns.env().wait("no note", TIMEOUT, || notes(&puppet).is_empty().then_some(()));
    ns.kubectl(&["patch", "quota", "jobs", "--type=merge", "-p", r#"{"spec":{"hard":{"count/jobs.batch":"1"}}}"#]);
    puppet.kubectl("wait", &["--for=condition=Ready", "--timeout=120s"]);
    assert_eq!(notes(&puppet), ["ready"]);
}
