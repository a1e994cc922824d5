//! The life cycle of an Echo: created, scaled, changed, deleted.

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use windlass_e2e::{Namespace, TIMEOUT, condition, is_settled, shared, text, wait};

/// The `operation` of each managedFields entry that the host has on a Pod.
fn operations(pod: &serde_json::Value) -> Vec<String> {
    let entries = pod["metadata"]["managedFields"].as_array().expect("managedFields");
    entries.iter().filter(|entry| entry["manager"] == "windlass").map(|entry| text(entry, "/operation")).collect()
}

fn uids(ns: &Namespace) -> Vec<(String, String)> {
    let mut uids: Vec<_> =
        ns.pods().iter().map(|pod| (text(pod, "/metadata/name"), text(pod, "/metadata/uid"))).collect();
    uids.sort();
    uids
}

#[test]
fn new_echo_gets_three_pods_with_owner_and_labels_and_reports_them_in_its_status() {
    let ns = shared().env.namespace("create");
    ns.echo("web", 3, "nginx:1");
    let echo = ns.wait_settled("web");

    assert_eq!(ns.pod_names(), ["web-0", "web-1", "web-2"]);
    let uid = text(&echo, "/metadata/uid");
    for pod in ns.pods() {
        let owners = pod["metadata"]["ownerReferences"].as_array().expect("owners");
        assert_eq!(owners.len(), 1, "{pod:#}");
        let owner = &owners[0];
        assert_eq!((&owner["kind"], &owner["name"], &owner["uid"]), (&"Echo".into(), &"web".into(), &uid[..].into()));
        assert_eq!((&owner["controller"], &owner["blockOwnerDeletion"]), (&true.into(), &true.into()));
        let labels = &pod["metadata"]["labels"];
        assert_eq!(
            (&labels["windlass.dev/plugin"], &labels["windlass.dev/parent-uid"], &labels["app"]),
            (&"echo".into(), &uid[..].into(), &"web".into())
        );
        assert_eq!(pod["spec"]["containers"][0]["image"], "nginx:1");
    }
    assert_eq!((&echo["status"]["currentReplicas"], &echo["status"]["isReady"]), (&3.into(), &true.into()));
    assert_eq!(condition(&echo, "Ready").observed_generation, Some(1));
    assert!(condition(&echo, "Stalled").status != "True" && condition(&echo, "Reconciling").status != "True");
}

#[test]
fn scaling_up_adds_pods_and_leaves_existing_ones_alone() {
    let ns = shared().env.namespace("scale-up");
    ns.echo("web", 1, "nginx:1");
    ns.wait_settled("web");
    let before = ns.pod("web-0");
    let mark = ns.env().mark();
    ns.echo("web", 4, "nginx:1");
    ns.wait_settled("web");

    assert_eq!(ns.pod_names(), ["web-0", "web-1", "web-2", "web-3"]);
    assert_eq!(text(&ns.pod("web-0"), "/metadata/uid"), text(&before, "/metadata/uid"));
    let writes = ns.env().host_writes(mark).namespace(ns.name()).resource("pods");
    assert_eq!(writes.len(), 3, "{writes:#?}");
    assert!(writes.iter().all(|write| write.verb == "create"), "{writes:#?}");
}

#[test]
fn r08_scaling_down_deletes_only_the_pods_with_the_highest_numbers() {
    let ns = shared().env.namespace("scale-down");
    ns.echo("web", 5, "nginx:1");
    ns.wait_settled("web");
    let before = uids(&ns);
    let mark = ns.env().mark();
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");

    ns.wait_pods(&["web-0", "web-1"]);
    assert_eq!(uids(&ns), before[..2], "the remaining Pods are the same");
    let writes = ns.env().host_writes(mark).namespace(ns.name()).resource("pods");
    let mut deleted: Vec<_> = writes.iter().map(|write| (write.verb.as_str(), write.name.as_str())).collect();
    deleted.sort_unstable();
    assert_eq!(deleted, [("delete", "web-2"), ("delete", "web-3"), ("delete", "web-4")]);
}

#[test]
fn r06_new_image_is_applied_in_place_and_the_update_entry_of_the_post_becomes_an_apply_entry() {
    let ns = shared().env.namespace("image");
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");
    let before = uids(&ns);
    assert_eq!(operations(&ns.pod("web-0")), ["Update"], "a child is created by POST");

    let mark = ns.env().mark();
    ns.echo("web", 2, "nginx:2");
    ns.wait_settled("web");
    assert_eq!(uids(&ns), before, "the Pods are changed in place");
    for pod in ns.pods() {
        assert_eq!(pod["spec"]["containers"][0]["image"], "nginx:2");
        assert_eq!(operations(&pod), ["Apply"], "{pod:#}");
    }
    let first = ns.env().host_writes(mark).namespace(ns.name()).name("web-0");
    assert_eq!(first.len(), 2, "one patch of managedFields, one apply: {first:#?}");

    let mark = ns.env().mark();
    ns.echo("web", 2, "nginx:3");
    ns.wait_settled("web");
    let second = ns.env().host_writes(mark).namespace(ns.name()).name("web-0");
    assert_eq!(second.len(), 1, "later changes are one apply: {second:#?}");
    assert_eq!(
        (second[0].verb.as_str(), second[0].query("fieldManager"), second[0].query("force")),
        ("patch", Some("windlass"), None)
    );
}

#[test]
fn r15_pods_of_a_deleted_echo_are_deleted_by_the_garbage_collector_and_not_by_the_host() {
    for cascade in ["background", "foreground"] {
        let ns = shared().env.namespace(&format!("delete-{cascade}"));
        ns.echo("web", 3, "nginx:1");
        ns.wait_settled("web");
        let mark = ns.env().mark();
        ns.kubectl(&["delete", "echo", "web", &format!("--cascade={cascade}"), "--wait=true"]);
        ns.wait_pods(&[]);
        // The host may write a status: its watch may show the end of a Pod before that of the Echo.
        let attempts = ns.env().host_requests(mark).attempted_writes().namespace(ns.name()).resource("pods");
        assert_eq!(attempts.to_vec(), [], "the host writes no Pod");
    }
}

#[test]
fn echo_recreated_under_the_same_name_gets_pods_of_its_own() {
    let ns = shared().env.namespace("again");
    ns.echo("web", 2, "nginx:1");
    let first = ns.wait_settled("web");
    ns.kubectl(&["delete", "echo", "web", "--cascade=background", "--wait=true"]);
    // The new Echo is created while the old Pods still exist and have the names, until the garbage collector deletes them.
    let mark = ns.env().mark();
    ns.echo("web", 2, "nginx:2");
    let uid_of = |echo: &serde_json::Value| text(echo, "/metadata/uid");
    let second = ns.wait_echo("web", |echo| is_settled(echo) && uid_of(echo) != uid_of(&first));
    for pod in ns.pods() {
        assert_eq!(text(&pod, "/metadata/ownerReferences/0/uid"), uid_of(&second));
        assert_eq!(pod["spec"]["containers"][0]["image"], "nginx:2");
    }
    let refused = ns.env().host_requests(mark).namespace(ns.name()).resource("pods").filter(|event| event.code == 409);
    assert_eq!(refused.to_vec(), [], "the host waits until the old Pods are gone");
}

#[test]
fn two_hundred_echoes_created_at_once_converge_and_are_deleted() {
    const ECHOES: usize = 200;
    let ns = shared().env.namespace("many");
    // The garbage collector retries objects of a kind that it does not know yet at ten a second for the whole cluster.
    // Hundreds of them would delay all other tests, so it first learns the kind from one Echo.
    ns.echo("first", 1, "nginx:1");
    ns.wait_settled("first");
    ns.kubectl(&["delete", "echo", "first"]);
    ns.wait_pods(&[]);

    let mark = ns.env().mark();
    let manifests: Vec<_> =
        (0..ECHOES).map(|at| ns.echo_manifest(&format!("echo-{at}"), 2, "nginx:1").to_string()).collect();
    ns.env().apply(&manifests.join("\n---\n"));
    wait("200 settled Echoes", TIMEOUT, || {
        let echoes = ns.env().list("echoes", ns.name());
        (echoes.len() == ECHOES && echoes.iter().all(is_settled)).then_some(())
    });
    assert_eq!(ns.pods().len(), 2 * ECHOES);
    let attempts = ns.env().host_requests(mark).attempted_writes().namespace(ns.name()).resource("pods");
    assert_eq!(attempts.len(), 2 * ECHOES, "each Pod is written once, and no request fails");

    let mark = ns.env().mark();
    ns.kubectl(&["delete", "--all", "echoes", "--wait=false"]);
    for resource in ["echoes", "pods"] {
        wait("no object to be left", TIMEOUT, || ns.env().list(resource, ns.name()).is_empty().then_some(()));
    }
    // The host may write a status: its watch may show the end of a Pod before that of the Echo.
    let attempts = ns.env().host_requests(mark).attempted_writes().namespace(ns.name()).resource("pods");
    assert_eq!(attempts.to_vec(), [], "the garbage collector deletes them");
}

#[test]
fn namespace_with_echoes_is_deleted_without_recreating_pods() {
    let ns = shared().env.namespace("whole");
    for name in ["a", "b", "c"] {
        ns.echo(name, 2, "nginx:1");
    }
    for name in ["a", "b", "c"] {
        ns.wait_settled(name);
    }
    let mark = ns.env().mark();
    // Pods may be deleted before their Echoes: the host must not recreate them.
    ns.env().kubectl(&["delete", "namespace", ns.name(), "--wait=true", "--timeout=180s"]);
    let created = ns.env().host_writes(mark).namespace(ns.name()).filter(|write| write.verb == "create");
    assert_eq!(created.to_vec(), []);
}
