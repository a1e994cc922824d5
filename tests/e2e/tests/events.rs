//! What `kubectl get events` says of an Echo's life, and that it says nothing at rest.

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;
use windlass_e2e::{Env, Namespace, SOON, guest, shared, text, wait};

/// How long nothing may happen.
const REST: Duration = Duration::from_secs(20);

/// The events of the host on one Echo, oldest first: type, reason and note.
fn told(ns: &Namespace, echo: &str) -> Vec<(String, String, String)> {
    let mut events = ns.env().list("events.events.k8s.io", ns.name());
    events.retain(|event| event["regarding"]["name"] == echo && event["reportingController"] == "windlass.dev/host");
    events.sort_by_key(|event| text(event, "/eventTime"));
    events.iter().map(|event| (text(event, "/type"), text(event, "/reason"), text(event, "/note"))).collect()
}

/// Waits for an event with this reason on an Echo, and gives back the newest one's note.
#[track_caller]
fn wait_told(ns: &Namespace, echo: &str, reason: &str) -> String {
    wait(&format!("the event {reason} on {echo}"), SOON, || {
        told(ns, echo).into_iter().rfind(|(_, found, _)| found == reason).map(|(_, _, note)| note)
    })
}

#[test]
fn r20_an_echo_tells_that_it_was_created_and_scaled() {
    let ns = shared().env.namespace("events");
    ns.echo("web", 2, "nginx:1");
    let echo = ns.wait_settled("web");
    assert_eq!(wait_told(&ns, "web", "Created"), "Created Pods web-0, web-1");
    ns.echo("web", 1, "nginx:1");
    ns.wait_settled("web");
    ns.wait_pods(&["web-0"]);
    assert_eq!(wait_told(&ns, "web", "Scaled"), "Scaled Pods from 2 to 1: deleted Pod web-1");
    ns.echo("web", 3, "nginx:1");
    ns.wait_settled("web");
    wait("the second scaling", SOON, || (told(&ns, "web").len() == 3).then_some(()));
    let (kind, reason, note) = told(&ns, "web").remove(2);
    assert_eq!((kind.as_str(), reason.as_str()), ("Normal", "Scaled"));
    assert_eq!(note, "Scaled Pods from 1 to 3: created Pods web-1, web-2");

    // As a person sees them.
    let described = ns.kubectl(&["describe", "echo", "web"]);
    assert!(described.contains(&note), "{described}");
    let events = ns.env().list("events.events.k8s.io", ns.name());
    let event = events.iter().find(|event| event["note"] == note.as_str()).expect("the event");
    assert_eq!(text(event, "/regarding/uid"), text(&echo, "/metadata/uid"));
    assert_eq!(text(event, "/regarding/apiVersion"), "my-operator.dev/v1");
    assert_eq!(event.get("related").map(Value::is_null), None, "it is about more than one Pod: {event:#}");
}

#[test]
fn r20_a_conflict_is_told_once_and_so_is_the_recovery() {
    let ns = shared().env.namespace("events-conflict");
    let foreign = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0", "namespace": ns.name()},
        "spec": {"containers": [{"name": "nginx", "image": "foreign:1"}]},
    });
    ns.env().apply(&foreign.to_string());
    ns.echo("web", 1, "nginx:1");
    ns.wait_not_ready("web", "Conflict");
    let note = wait_told(&ns, "web", "Conflict");
    assert!(note.contains("web-0"), "{note}");
    // Tried again, and failed again for the same reason: at once, since this is another generation.
    ns.echo("web", 1, "nginx:2");
    ns.wait_echo("web", |echo| windlass_e2e::condition(echo, "Ready").observed_generation == Some(2));
    assert_eq!(told(&ns, "web").len(), 1, "{:#?}", told(&ns, "web"));

    ns.kubectl(&["delete", "pod", "web-0", "--wait=true"]);
    ns.echo("web", 1, "nginx:3");
    ns.wait_settled("web");
    let note = wait_told(&ns, "web", "Recovered");
    assert!(note.contains("Recovered from Conflict") && note.contains("Created Pod web-0"), "{note}");
    let (kind, _, _) = told(&ns, "web").remove(0);
    assert_eq!(kind, "Warning");
}

#[test]
fn r20_at_rest_and_across_a_restart_no_event_is_written() {
    let env = Env::start();
    let host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("events-rest");
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");
    assert_eq!(wait_told(&ns, "web", "Created"), "Created Pods web-0, web-1");

    let mark = env.mark();
    // Not a wait for anything: that nothing happens for so long is what is shown.
    sleep(REST);
    assert!(host.terminate().success(), "SIGTERM is a clean end");
    let _host = env.start_host();
    sleep(REST);
    assert_eq!(env.host_events(mark).to_vec(), []);
    // The audit log does show them.
    let mark = env.mark();
    ns.echo("web", 1, "nginx:1");
    ns.wait_settled("web");
    wait_told(&ns, "web", "Scaled");
    assert_eq!(env.host_events(mark).len(), 1);
}
