//! An object that is written again and again (R18).

use serde_json::json;
use windlass_e2e::{TIMEOUT, condition, text, wait};

use crate::scripts::config_map;
use crate::{barrier, barrier_of, children, events_of, puppets, stage, value, wait_event, write_attempts};

/// Writes to one object at one generation within a minute, before the breaker trips.
const WRITES: usize = 10;

#[test]
fn r18_child_that_changes_with_each_response_is_written_ten_times_and_then_withheld() {
    let ns = puppets("flips");
    let mark = ns.env().mark();
    let puppet = ns.puppet("web");
    puppet.apply(&children([config_map("flipping", "${flip}"), config_map("steady", "1")]));
    let ready = puppet.wait_reason("Thrashing");
    assert!(ready.status == "False" && ready.message.contains("flipping"), "{ready:?}");
    assert!(!ready.message.contains("steady"), "{ready:?}");
    // A change of the parent queues it at once, and the child is withheld nevertheless.
    puppet.kubectl("annotate", &["touched=yes"]);
    barrier(&ns, "after");
    let of = |name: &str| {
        let attempts = write_attempts(&ns, mark, "configmaps").name(name);
        // The change of managedFields is a JSON patch of its own; it is sent once.
        attempts.filter(|event| event.verb == "create" || event.query("fieldManager").is_some()).len()
    };
    assert!((WRITES..=WRITES + 2).contains(&of("flipping")), "{}", of("flipping"));
    assert_eq!(of("steady"), 1);

    // A new generation resets the breaker.
    puppet.play(&children([config_map("flipping", "calm"), config_map("steady", "1")]));
    assert_eq!(value(&ns, "flipping"), "calm");
}

#[test]
fn u2_children_under_ever_new_names_are_created_ten_times_and_then_withheld() {
    let ns = puppets("renames");
    let mark = ns.env().mark();
    let puppet = ns.puppet("web");
    puppet.apply(&children([config_map("a-${random}", "1")]));
    let ready = puppet.wait_reason("Thrashing");
    assert!(ready.status == "False" && ready.message.contains("the names of children"), "{ready:?}");
    puppet.kubectl("annotate", &["touched=yes"]);
    barrier(&ns, "after");
    let created = write_attempts(&ns, mark, "configmaps").filter(|event| event.verb == "create").len();
    assert!((WRITES..=WRITES + 4).contains(&created), "{created}");
    puppet.play(&children([config_map("a", "calm")]));
    assert_eq!(value(&ns, "a"), "calm");
}

#[test]
fn r18_status_that_changes_with_each_response_is_reported_as_thrashing_and_not_as_recovered() {
    let ns = puppets("restless");
    let puppet = ns.puppet("web");
    // The status has the time of the call, in seconds.
    puppet.apply(&json!({ "children": [], "status": "reflect", "readClock": true }));
    let mut touched = 0;
    let mut touch = || {
        touched += 1;
        puppet.kubectl("annotate", &[&format!("touched=at-{touched}"), "--overwrite"]);
    };
    wait("Ready=False with reason Thrashing", TIMEOUT, || {
        touch();
        (condition(&puppet.get()?, "Ready").reason == "Thrashing").then_some(())
    });
    wait_event(&ns, &puppet, |event| event["reason"] == "Thrashing");
    // Further responses change the status as well; for a minute, none of them is written.
    for _ in 0..3 {
        touch();
    }
    barrier(&ns, "after");
    let events = events_of(&ns, &puppet);
    assert!(events.iter().all(|event| event["reason"] != "Recovered"), "{events:#?}");
    assert_eq!(condition(&puppet.get().expect("the parent"), "Ready").reason, "Thrashing");
}

#[test]
fn r18_child_that_a_user_keeps_editing_is_left_for_a_while_and_named_in_the_condition() {
    let ns = puppets("fight");
    let puppet = ns.puppet("web");
    puppet.play(&children([config_map("fought", "ours"), config_map("peace", "ours")]));
    let mark = ns.env().mark();
    let edit = |value: &str| {
        let patch = json!({ "data": { "value": value } }).to_string();
        ns.kubectl(&["patch", "configmap", "fought", "--type=merge", "-p", &patch]);
    };
    // The change of managedFields counts with the apply that follows it.
    for at in 1..WRITES {
        edit(&format!("theirs-{at}"));
        ns.env().wait_object("configmaps", ns.name(), "fought", |map| text(map, "/data/value") == "ours");
    }
    for at in WRITES..WRITES + 2 {
        edit(&format!("theirs-{at}"));
        wait("a reaction to the edit", TIMEOUT, || {
            let is_thrashing = condition(&puppet.get()?, "Ready").reason == "Thrashing";
            (value(&ns, "fought") == "ours" || is_thrashing).then_some(())
        });
    }
    edit("theirs-last");
    let ready = puppet.wait_reason("Thrashing");
    assert!(ready.message.contains("fought"), "{ready:?}");
    barrier(&ns, "after");
    let forced =
        write_attempts(&ns, mark, "configmaps").name("fought").filter(|event| event.query("force") == Some("true"));
    assert!(forced.len() <= WRITES + 1, "{forced:#?}");
    assert_eq!(value(&ns, "fought"), "theirs-last");
    assert_eq!(write_attempts(&ns, mark, "configmaps").name("peace").to_vec(), []);
}

#[test]
fn r18_finalizer_that_a_user_keeps_removing_is_left_off_for_a_while_and_reported() {
    let ns = stage().with("puppet-finalizes").namespace("fight-finalizer");
    let puppet = ns.puppet_of("FinalizingPuppet", "web");
    let mark = ns.env().mark();
    puppet.play(&children([config_map("a", "1")]));
    let has_finalizer = |puppet: &serde_json::Value| !puppet["metadata"]["finalizers"].is_null();
    let remove = || puppet.kubectl("patch", &["--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#]);
    for _ in 1..WRITES {
        remove();
        puppet.wait(has_finalizer);
    }
    remove();
    let ready = puppet.wait_reason("Thrashing");
    assert!(ready.message.contains("web"), "{ready:?}");
    barrier_of(&ns, "FinalizingPuppet", "after");
    let added = write_attempts(&ns, mark, "finalizingpuppets").name("web");
    let added = added.filter(|event| event.query("fieldManager") == Some("windlass-finalizer"));
    assert_eq!(added.len(), WRITES, "{added:#?}");
}
