//! The events on an Echo, as `kubectl get events` shows them; in steady state there are none.

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;
use windlass_e2e::{Env, Namespace, TIMEOUT, guest, shared, text, wait};

/// How long the host must write no event.
const OBSERVATION: Duration = Duration::from_secs(20);

/// The events of the host on one Echo, oldest first: type, reason and note.
fn events_on(ns: &Namespace, echo: &str) -> Vec<(String, String, String)> {
    let mut events = ns.env().list("events.events.k8s.io", ns.name());
    events.retain(|event| event["regarding"]["name"] == echo && event["reportingController"] == "windlass.dev/host");
    events.sort_by_key(|event| text(event, "/eventTime"));
    events.iter().map(|event| (text(event, "/type"), text(event, "/reason"), text(event, "/note"))).collect()
}

/// Waits for an event with this reason on an Echo, and gives back the newest one's note.
#[track_caller]
fn wait_event(ns: &Namespace, echo: &str, reason: &str) -> String {
    wait(&format!("the event {reason} on {echo}"), TIMEOUT, || {
        events_on(ns, echo).into_iter().rfind(|(_, found, _)| found == reason).map(|(_, _, note)| note)
    })
}

#[test]
fn r20_creating_and_scaling_the_pods_of_an_echo_emit_events() {
    let ns = shared().env.namespace("events");
    ns.echo("web", 2, "nginx:1");
    let echo = ns.wait_settled("web");
    assert_eq!(wait_event(&ns, "web", "Created"), "Created Pods web-0, web-1");
    ns.echo("web", 1, "nginx:1");
    ns.wait_settled("web");
    ns.wait_pods(&["web-0"]);
    assert_eq!(wait_event(&ns, "web", "Scaled"), "Scaled Pods from 2 to 1: deleted Pod web-1");
    ns.echo("web", 3, "nginx:1");
    ns.wait_settled("web");
    wait("the second scaling", TIMEOUT, || (events_on(&ns, "web").len() == 3).then_some(()));
    let (kind, reason, note) = events_on(&ns, "web").remove(2);
    assert_eq!((kind.as_str(), reason.as_str()), ("Normal", "Scaled"));
    assert_eq!(note, "Scaled Pods from 1 to 3: created Pods web-1, web-2");

    // `kubectl describe` shows the event.
    let described = ns.kubectl(&["describe", "echo", "web"]);
    assert!(described.contains(&note), "{described}");
    let events = ns.env().list("events.events.k8s.io", ns.name());
    let event = events.iter().find(|event| event["note"] == note.as_str()).expect("the event");
    assert_eq!(text(event, "/regarding/uid"), text(&echo, "/metadata/uid"));
    assert_eq!(text(event, "/regarding/apiVersion"), "my-operator.dev/v1");
    assert_eq!(
        event.get("related").map(Value::is_null),
        None,
        "an event about several Pods has no related object: {event:#}"
    );
}

#[test]
fn r20_conflict_and_recovery_emit_one_event_each() {
    let ns = shared().env.namespace("events-conflict");
    let foreign = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0", "namespace": ns.name()},
        "spec": {"containers": [{"name": "nginx", "image": "foreign:1"}]},
    });
    ns.env().apply(&foreign.to_string());
    ns.echo("web", 1, "nginx:1");
    ns.wait_not_ready("web", "Conflict");
    let note = wait_event(&ns, "web", "Conflict");
    assert!(note.contains("web-0"), "{note}");
    // The new generation is reconciled at once, and fails again for the same reason.
    ns.echo("web", 1, "nginx:2");
    ns.wait_echo("web", |echo| windlass_e2e::condition(echo, "Ready").observed_generation == Some(2));
    assert_eq!(events_on(&ns, "web").len(), 1, "{:#?}", events_on(&ns, "web"));

    ns.kubectl(&["delete", "pod", "web-0", "--wait=true"]);
    ns.echo("web", 1, "nginx:3");
    ns.wait_settled("web");
    let note = wait_event(&ns, "web", "Recovered");
    assert!(note.contains("Recovered from Conflict") && note.contains("Created Pod web-0"), "{note}");
    let (kind, _, _) = events_on(&ns, "web").remove(0);
    assert_eq!(kind, "Warning");
}

#[test]
fn r20_no_event_is_written_in_steady_state_or_after_a_restart() {
    let env = Env::start();
    let host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("events-rest");
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");
    assert_eq!(wait_event(&ns, "web", "Created"), "Created Pods web-0, web-1");

    let mark = env.mark();
    // Not a synchronization: the test shows that nothing happens for this time.
    sleep(OBSERVATION);
    assert!(host.terminate().success(), "SIGTERM ends the host with exit code 0");
    let _host = env.start_host();
    sleep(OBSERVATION);
    assert_eq!(env.host_events(mark).to_vec(), []);
    // The audit log contains events when they are written.
    let mark = env.mark();
    ns.echo("web", 1, "nginx:1");
    ns.wait_settled("web");
    wait_event(&ns, "web", "Scaled");
    assert_eq!(env.host_events(mark).len(), 1);
}
