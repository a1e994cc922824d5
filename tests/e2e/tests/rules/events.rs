//! The events that `kubectl describe` shows (R20).
//!
//! A Plugin's events share one token bucket, which many tests could empty: these tests use `puppet-rolling`, which has few
//! parents.

use serde_json::{Value, json};
use windlass_e2e::{Namespace, Puppet, text};

use crate::scripts::{config_map, config_maps, pod};
use crate::{children, events_of, previewed, stage, wait_event};

fn rolling_puppet(name: &str) -> (Namespace<'static>, Puppet<'static>) {
    let ns = stage().with("puppet-rolling").namespace(name);
    let puppet = ns.puppet_of("RollingPuppet", "web");
    (ns, puppet)
}

#[test]
fn r20_event_of_a_plugin_is_written_once_on_the_parent() {
    let (ns, puppet) = rolling_puppet("said");
    let events = json!([
        { "reason": "Danced", "message": "to the music" },
        { "warning": true, "reason": "Tripped", "message": "over a string" },
    ]);
    for at in 0..3 {
        let mut script = children([config_map("a", &at.to_string())]);
        script["events"] = events.clone();
        puppet.play(&script);
    }
    let danced = wait_event(&ns, &puppet, |event| event["reason"] == "Danced");
    assert_eq!((text(&danced, "/type"), text(&danced, "/message")), ("Normal".into(), "to the music".into()));
    let tripped = wait_event(&ns, &puppet, |event| event["reason"] == "Tripped");
    assert_eq!(text(&tripped, "/type"), "Warning");
    // One task writes all events in their order.
    puppet.play(&children([]));
    wait_event(&ns, &puppet, |event| event["reason"] == "Deleted");
    let danced = events_of(&ns, &puppet).into_iter().filter(|event| event["reason"] == "Danced").count();
    assert_eq!(danced, 1, "repetitions are counted in the event's series");
}

#[test]
fn r20_failure_emits_an_event_with_its_reason_and_recovery_emits_an_event() {
    let (ns, puppet) = rolling_puppet("told");
    puppet.apply(&json!({ "fail": { "failed": "no strings" } }));
    let failed = wait_event(&ns, &puppet, |event| text(event, "/message").contains("no strings"));
    assert_eq!((text(&failed, "/type"), text(&failed, "/reason")), ("Warning".into(), "PluginFailed".into()));
    puppet.play(&children([config_map("a", "1")]));
    wait_event(&ns, &puppet, |event| event["reason"] == "Recovered");
}

#[test]
fn r20_all_changes_of_children_by_one_reconcile_are_one_event() {
    let (ns, puppet) = rolling_puppet("done");
    let wait_reason = |reason: &str| wait_event(&ns, &puppet, |event| event["reason"] == reason);
    puppet.play(&children(config_maps(20, "1")));
    let created = wait_reason("Created");
    assert!(text(&created, "/message").contains("ConfigMaps web-0, web-1"), "{created:#}");
    puppet.play(&children(config_maps(5, "1")));
    let scaled = wait_reason("Scaled");
    assert!(text(&scaled, "/message").contains("ConfigMaps from 20 to 5"), "{scaled:#}");
    puppet.play(&children(config_maps(5, "2")));
    wait_reason("Updated");
    puppet.play(&children([]));
    wait_reason("Deleted");
    let events = events_of(&ns, &puppet);
    assert_eq!(events.len(), 4, "{events:#?}");
    assert!(events.iter().all(|event| event["type"] == "Normal"), "{events:#?}");
}

#[test]
fn r20_warning_of_the_api_server_about_children_is_one_event_and_diff_shows_it() {
    let ns = stage().with("puppet-staged").namespace("warned");
    ns.kubectl(&["label", "namespace", ns.name(), "pod-security.kubernetes.io/warn=restricted"]);
    let puppet = ns.puppet_of("StagedPuppet", "web");
    // No Node runs the first two, for which the last one waits.
    let pods = ["a", "b", "later"].map(|name| {
        let mut pod = pod(name, "nginx:1");
        pod["spec"]["nodeSelector"] = json!({ "no": "node" });
        pod["options"] = json!({ "stage": u32::from(name == "later") });
        pod
    });
    puppet.apply(&children(pods));
    let warned = wait_event(&ns, &puppet, |event| event["reason"] == "ApiWarnings");
    assert_eq!(text(&warned, "/type"), "Warning");
    let message = text(&warned, "/message");
    let begins = "The API server warns about Pods a, b: would violate PodSecurity \"restricted:latest\"";
    assert!(message.starts_with(begins), "{message}");
    let warnings = events_of(&ns, &puppet).into_iter().filter(|event| event["reason"] == "ApiWarnings").count();
    assert_eq!(warnings, 1);
    let note = format!("Pod {}/later: the API server warns: would violate PodSecurity", ns.name());
    assert_eq!(previewed(&ns, "puppet-staged", &note), 1);
}

#[test]
fn r16_suspending_and_resuming_a_parent_emit_events() {
    let (ns, puppet) = rolling_puppet("paused");
    puppet.play(&children([config_map("a", "1")]));
    puppet.kubectl("annotate", &["windlass.dev/suspend=true"]);
    wait_event(&ns, &puppet, |event| event["reason"] == "Suspended");
    puppet.kubectl("annotate", &["windlass.dev/suspend-"]);
    wait_event(&ns, &puppet, |event: &Value| event["reason"] == "Resumed");
}
