//! Ownership: hand edits, foreign objects, copied labels, other field managers.

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::time::Duration;

use serde_json::{Value, json};
use windlass_e2e::{AuditEvents, Env, HostOptions, Mark, Namespace, SYSTEM_NAMESPACE, condition, guest, shared, text};
use windlass_faults::{Fault, Match, Rule, Verb};

/// An image that a host in these tests never sets.
const FOREIGN_IMAGE: &str = "foreign:1";

fn image(pod: &Value) -> String {
    text(pod, "/spec/containers/0/image")
}

/// Creates a Pod as a user, with these labels and annotations.
fn foreign_pod(ns: &Namespace, name: &str, labels: &Value, annotations: &Value) {
    let pod = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": ns.name(), "labels": labels, "annotations": annotations},
        "spec": {"containers": [{"name": "nginx", "image": FOREIGN_IMAGE}]},
    });
    ns.env().apply(&pod.to_string());
}

/// The host's writes to one Pod.
fn writes_to(ns: &Namespace, pod: &str, since: Mark) -> AuditEvents {
    ns.env().host_writes(since).namespace(ns.name()).resource("pods").name(pod)
}

#[test]
fn r06_pod_edited_by_hand_is_restored_by_one_forced_apply() {
    let ns = shared().env.namespace("hand-edit");
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");
    for _ in 0..2 {
        let mark = ns.env().mark();
        ns.kubectl(&["set", "image", "pod/web-0", "nginx=edited:1"]);
        ns.env().wait_object("pods", ns.name(), "web-0", |pod| image(pod) == "nginx:1");
        // The next change of the Echo converges only after the reconcile before has ended.
        let replicas = ns.pods().len() + 1;
        ns.echo("web", u32::try_from(replicas).expect("few"), "nginx:1");
        ns.wait_settled("web");

        let writes = writes_to(&ns, "web-0", mark);
        let forced = writes.clone().filter(|write| write.query("force") == Some("true"));
        assert_eq!(forced.len(), 1, "{writes:#?}");
        let others = writes.filter(|write| write.query("force") != Some("true"));
        assert!(others.len() <= 1, "besides the forced apply there is at most the patch of managedFields: {others:#?}");
        assert!(writes_to(&ns, "web-1", mark).is_empty());
    }
}

#[test]
fn r06_desired_label_removed_by_hand_is_restored_and_a_label_added_by_hand_stays() {
    let ns = shared().env.namespace("labels");
    ns.echo("web", 1, "nginx:1");
    ns.wait_settled("web");
    ns.kubectl(&["label", "pod", "web-0", "app-", "team=blue"]);
    let pod = ns.env().wait_object("pods", ns.name(), "web-0", |pod| text(pod, "/metadata/labels/app") == "web");
    assert_eq!(text(&pod, "/metadata/labels/team"), "blue", "a label of a user stays");
}

#[test]
fn r04_ownership_labels_removed_from_a_pod_by_hand_are_restored() {
    let ns = shared().env.namespace("own-labels");
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");
    let uid = ns.pod("web-0")["metadata"]["uid"].clone();
    let mark = ns.env().mark();
    // Without these labels the host's watch no longer shows the Pod.
    ns.kubectl(&["label", "pod", "web-0", "windlass.dev/plugin-", "windlass.dev/parent-uid-"]);
    let pod = ns
        .env()
        .wait_object("pods", ns.name(), "web-0", |pod| text(pod, "/metadata/labels/windlass.dev~1plugin") == "echo");
    assert_eq!(pod["metadata"]["uid"], uid, "the Pod was not recreated");
    ns.wait_settled("web");
    let writes = writes_to(&ns, "web-0", mark);
    let patches: Vec<_> = writes.iter().map(|write| (write.verb.as_str(), write.query("force"))).collect();
    assert_eq!(patches, [("patch", None)], "the patch sets only the marks, because the cache did not show the Pod");
}

#[test]
fn r07_labels_and_annotations_that_users_add_to_a_pod_cause_no_write() {
    let ns = shared().env.namespace("others-add");
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");
    let mark = ns.env().mark();
    ns.kubectl(&["label", "pod", "web-0", "team=blue"]);
    ns.kubectl(&["annotate", "pod", "web-0", "note=read me"]);
    // The host handles this change after both events.
    ns.echo("web", 3, "nginx:1");
    ns.wait_settled("web");
    assert_eq!(writes_to(&ns, "web-0", mark).to_vec(), []);
}

#[test]
fn r05_foreign_pod_with_a_childs_name_is_left_alone() {
    let ns = shared().env.namespace("foreign");
    let mark = ns.env().mark();
    foreign_pod(&ns, "web-1", &Value::Null, &Value::Null);
    // The scheduler also writes to the Pod's spec.
    let is_scheduled = |pod: &Value| !pod["spec"]["nodeName"].is_null();
    let before = ns.env().wait_object("pods", ns.name(), "web-1", is_scheduled);
    ns.echo("web", 3, "nginx:1");
    let echo = ns.wait_not_ready("web", "Conflict");
    let ready = condition(&echo, "Ready");
    assert!(ready.message.contains("web-1"), "{ready:?}");
    assert!(echo["status"]["observedGeneration"].is_null(), "no generation is reported as observed: {echo:#}");

    // The host tries two more times, and the Echo changes.
    ns.echo("web", 4, "nginx:2");
    ns.env().wait("tries to create web-1", windlass_e2e::TIMEOUT, || {
        let tries =
            ns.env().host_requests(mark).namespace(ns.name()).resource("pods").filter(|event| event.code == 409);
        (tries.len() >= 3).then_some(())
    });
    let after = ns.pod("web-1");
    assert_eq!((&after["metadata"]["uid"], &after["spec"]), (&before["metadata"]["uid"], &before["spec"]));
    let labels = after["metadata"]["labels"].to_string();
    assert!(!labels.contains("windlass.dev"), "{labels}");
    assert!(after["metadata"]["ownerReferences"].is_null());
    assert_eq!(writes_to(&ns, "web-1", mark).to_vec(), []);

    ns.kubectl(&["delete", "pod", "web-1", "--wait=true"]);
    ns.wait_settled("web");
    assert_eq!(ns.pod_names(), ["web-0", "web-1", "web-2", "web-3"]);
    assert_eq!(image(&ns.pod("web-1")), "nginx:2");
}

#[test]
fn r04_foreign_pod_with_copied_labels_and_annotations_is_not_a_child() {
    let ns = shared().env.namespace("copied");
    ns.echo("web", 3, "nginx:1");
    ns.wait_settled("web");
    let child = ns.pod("web-0");
    // Controllers copy labels like this, as from a Service to its EndpointSlices. Only web-3 has a future child's name.
    for name in ["copy", "web-3"] {
        foreign_pod(&ns, name, &child["metadata"]["labels"], &child["metadata"]["annotations"]);
    }
    let mark = ns.env().mark();
    let uids: Vec<_> = ["copy", "web-3"].map(|name| text(&ns.pod(name), "/metadata/uid")).into();
    ns.echo("web", 1, "nginx:1");
    let echo = ns.wait_settled("web");
    assert_eq!(echo["status"]["currentReplicas"], 1, "the request does not contain these Pods");
    ns.wait_pods(&["copy", "web-0", "web-3"]);

    ns.echo("web", 4, "nginx:1");
    let echo = ns.wait_not_ready("web", "Conflict");
    assert!(condition(&echo, "Ready").message.contains("web-3"), "{echo:#}");
    for (name, uid) in ["copy", "web-3"].iter().zip(uids) {
        assert_eq!(writes_to(&ns, name, mark).to_vec(), []);
        let pod = ns.pod(name);
        assert_eq!((text(&pod, "/metadata/uid"), image(&pod)), (uid, FOREIGN_IMAGE.to_owned()));
    }
}

#[test]
fn r06_field_that_another_apply_manager_took_is_left_to_it_and_named_in_the_condition() {
    let ns = shared().env.namespace("applier");
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");
    // After this first apply, later ones need no patch of managedFields.
    ns.echo("web", 2, "nginx:2");
    ns.wait_settled("web");
    let mark = ns.env().mark();
    let pod = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0", "namespace": ns.name()},
        "spec": {"containers": [{"name": "nginx", "image": FOREIGN_IMAGE}]},
    });
    ns.env().apply_as("other", &pod.to_string());

    let echo = ns.wait_not_ready("web", "FieldConflict");
    let ready = condition(&echo, "Ready");
    for word in ["web-0", "image", "other"] {
        assert!(ready.message.contains(word), "{word}: {ready:?}");
    }
    assert_eq!(image(&ns.pod("web-0")), FOREIGN_IMAGE);
    assert_eq!(writes_to(&ns, "web-0", mark).to_vec(), []);

    // The user accepts the image; now both managers set the same value.
    ns.echo("web", 2, FOREIGN_IMAGE);
    ns.wait_settled("web");
    assert_eq!(
        (image(&ns.pod("web-0")), image(&ns.pod("web-1"))),
        (FOREIGN_IMAGE.to_owned(), FOREIGN_IMAGE.to_owned())
    );
}

#[test]
fn r03_plugin_does_not_clean_up_again_for_a_parent_that_another_host_has_released() {
    let env = Env::start();
    let faults = env.faults(windlass_faults::seed());
    let _host = env.start_host_through(&faults, HostOptions::default());
    let component = guest("puppets/puppet-finalizes");
    env.push(&component, "puppet-finalizes", &[]);
    env.wait_live("puppet-finalizes", &component);
    let ns = env.namespace("released");
    let kept = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}, "data": {"value": "1"}});
    let web = ns.puppet_of("FinalizingPuppet", "web");
    web.play(&json!({ "children": [kept], "finalize": { "children": [kept], "finalizedWhen": "never" } }));
    web.kubectl("delete", &["--wait=false"]);
    web.wait_reason("Finalizing");

    // Another host ends the clean-up, and the watch of this one does not show that yet.
    let silent = faults.add(Rule::new(Match::watches().resource("finalizingpuppets"), Fault::Silence));
    web.kubectl("patch", &["--type=merge", "-p", r#"{"metadata": {"finalizers": null}}"#]);
    env.wait("the parent to be gone", windlass_e2e::TIMEOUT, || web.get().is_none().then_some(()));
    let (mark, calls) = (env.mark(), web.calls());
    // The garbage collector deletes the child, which queues the parent.
    env.wait("the host to read the parent", windlass_e2e::TIMEOUT, || {
        let reads = env.host_requests(mark).resource("finalizingpuppets").namespace(ns.name()).name("web");
        (!reads.filter(|event| event.verb == "get").is_empty()).then_some(())
    });
    assert_eq!(web.calls(), calls);
    faults.remove(silent);
    ns.puppet_of("FinalizingPuppet", "after").play(&json!({}));
    assert_eq!(web.calls(), calls);
}

#[test]
fn r08_child_whose_deletion_is_denied_with_404_is_still_there_and_reported() {
    let env = Env::start();
    let faults = env.faults(windlass_faults::seed());
    let _host = env.start_host_through(&faults, HostOptions::default());
    env.push(&guest("puppets/puppet"), "puppet", &[]);
    env.wait_live("puppet", &guest("puppets/puppet"));
    let ns = env.namespace("denied");
    let map = |name: &str, value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}});
    let web = ns.puppet("web");
    web.play(&json!({ "children": [map("a", "1"), map("b", "1")] }));

    // As an admission webhook can: the status does not name the object.
    let deletes = Match::verbs(&[Verb::Delete]).resource("configmaps").namespace(ns.name());
    let denied = faults.add(Rule::new(deletes, Fault::Status(404)));
    web.apply(&json!({ "children": [map("a", "2")] }));
    let ready = web.wait_reason("ChildRejected");
    assert!(ready.message.contains("ConfigMap") && ready.message.contains("404"), "{ready:?}");
    assert!(ns.get("configmaps", "b").is_some());
    env.wait_object("configmaps", ns.name(), "a", |map| text(map, "/data/value") == "2");
    web.apply(&json!({ "children": [map("a", "3")] }));
    env.wait_object("configmaps", ns.name(), "a", |map| text(map, "/data/value") == "3");

    faults.remove(denied);
    web.wait_done();
    ns.wait_gone("configmaps", "b");
}

#[test]
fn h01_host_stopped_during_a_write_exits_in_time_and_does_not_release_its_lease() {
    let env = Env::start();
    let faults = env.faults(windlass_faults::seed());
    let host = env.start_host_through(&faults, HostOptions::default());
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("stopping");
    let slow = Match::verbs(&[Verb::Create]).resource("pods").namespace(ns.name());
    faults.add(Rule::new(slow, Fault::Delay(Duration::from_mins(5))));
    ns.echo("web", 1, "nginx:1");
    // The API server executed the request, but the host has no reply.
    ns.wait_pods(&["web-0"]);
    // The request alone may take a minute, longer than `terminate` waits.
    assert!(host.terminate().success(), "{}", host.log());
    assert!(host.log().contains("Lease not released"), "{}", host.log());
    let lease = env.get("leases", SYSTEM_NAMESPACE, "windlass").expect("a Lease");
    assert!(lease["spec"]["holderIdentity"].is_string(), "{lease:#}");
}

#[test]
fn stalled_watch_is_reported_by_the_plugins_conditions_and_readyz_until_it_makes_progress() {
    let env = Env::start();
    let faults = env.faults(windlass_faults::seed());
    let host = env.start_host_through(&faults, HostOptions::default());
    env.push(&guest("puppets/puppet"), "puppet", &[]);
    env.wait_live("puppet", &guest("puppets/puppet"));
    env.wait_plugin("puppet", |plugin| condition(plugin, "Synced").is_true());

    let watches = || Match::watches().resource("secrets");
    let failing = faults.add(Rule::new(watches(), Fault::Status(503)));
    faults.cut(watches());
    let plugin = env.wait_plugin("puppet", |plugin| condition(plugin, "Synced").is_false("WatchStalled"));
    let message = condition(&plugin, "Synced").message;
    assert!(message.contains("Secret.v1") && message.contains("no progress since 20"), "{message}");
    for kind in ["Ready", "Available"] {
        assert!(condition(&plugin, kind).is_false("WatchStalled"), "{plugin:#}");
    }
    // Another host would get the same answer for this kind, so an update must not wait for it.
    let (status, response) = host.http("/readyz").expect("a response");
    assert_eq!(status, 200, "{response}");
    assert!(response.contains("the watch of Secret.v1 has stalled"), "{response}");

    faults.remove(failing);
    env.wait_plugin("puppet", |plugin| {
        condition(plugin, "Synced").is_true() && condition(plugin, "Available").is_true()
    });
    env.wait("/readyz", windlass_e2e::TIMEOUT, || host.http("/readyz").filter(|(_, response)| response == "ok"));
}
