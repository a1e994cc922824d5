//! What a person reads in `kubectl describe` (R20).
//!
//! A plugin's events come out of one bucket, which a crowd of tests could empty: these are of `puppet-rolling`, of which
//! there are few.

use serde_json::{Value, json};
use windlass_e2e::{Namespace, Puppet, text};

use crate::scripts::{config_map, config_maps};
use crate::{children, events_of, stage, wait_event};

fn quiet(name: &str) -> (Namespace<'static>, Puppet<'static>) {
    let ns = stage().with("puppet-rolling").namespace(name);
    let puppet = ns.puppet_of("RollingPuppet", "web");
    (ns, puppet)
}

#[test]
fn r20_the_plugins_events_are_told_on_its_parent_once() {
    let (ns, puppet) = quiet("said");
    let said = json!([
        { "reason": "Danced", "message": "to the music" },
        { "warning": true, "reason": "Tripped", "message": "over a string" },
    ]);
    for at in 0..3 {
        let mut script = children([config_map("a", &at.to_string())]);
        script["events"] = said.clone();
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
    assert_eq!(danced, 1, "repetitions are counted");
}

#[test]
fn r20_a_failure_is_told_with_its_reason_and_so_is_the_recovery() {
    let (ns, puppet) = quiet("told");
    puppet.apply(&json!({ "fail": { "failed": "no strings" } }));
    let failed = wait_event(&ns, &puppet, |event| text(event, "/message").contains("no strings"));
    assert_eq!((text(&failed, "/type"), text(&failed, "/reason")), ("Warning".into(), "PluginFailed".into()));
    puppet.play(&children([config_map("a", "1")]));
    wait_event(&ns, &puppet, |event| event["reason"] == "Recovered");
}

#[test]
fn r20_what_was_done_to_children_is_one_event_a_reconcile() {
    let (ns, puppet) = quiet("done");
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
    let told = events_of(&ns, &puppet);
    assert_eq!(told.len(), 4, "{told:#?}");
    assert!(told.iter().all(|event| event["type"] == "Normal"), "{told:#?}");
}

#[test]
fn r16_a_suspension_and_its_end_are_told() {
    let (ns, puppet) = quiet("paused");
    puppet.play(&children([config_map("a", "1")]));
    puppet.kubectl("annotate", &["windlass.dev/suspend=true"]);
    wait_event(&ns, &puppet, |event| event["reason"] == "Suspended");
    puppet.kubectl("annotate", &["windlass.dev/suspend-"]);
    wait_event(&ns, &puppet, |event: &Value| event["reason"] == "Resumed");
}
