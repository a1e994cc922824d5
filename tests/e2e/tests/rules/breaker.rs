//! An object that is written again and again (R18).

use serde_json::json;
use windlass_e2e::{SOON, condition, text, wait};

use crate::scripts::config_map;
use crate::{asked, barrier, barrier_of, children, puppets, stage, value};

/// Writes to one object at one generation within a minute, before it is left alone.
const WRITES: usize = 10;

#[test]
fn r18_an_answer_that_flips_is_written_ten_times_and_then_once_a_minute() {
    let ns = puppets("flips");
    let mark = ns.env().mark();
    let puppet = ns.puppet("web");
    puppet.apply(&children([config_map("flipping", "${flip}"), config_map("steady", "1")]));
    let ready = puppet.wait_reason("Thrashing");
    assert!(ready.status == "False" && ready.message.contains("flipping"), "{ready:?}");
    assert!(!ready.message.contains("steady"), "{ready:?}");
    // New events do not bring it back.
    puppet.kubectl("annotate", &["touched=yes"]);
    barrier(&ns, "after");
    let of = |name: &str| {
        let asked = asked(&ns, mark, "configmaps").name(name);
        // The migration of managedFields is a JSON patch of its own; it comes once.
        asked.filter(|event| event.verb == "create" || event.query("fieldManager").is_some()).len()
    };
    assert!((WRITES..=WRITES + 2).contains(&of("flipping")), "{}", of("flipping"));
    assert_eq!(of("steady"), 1);

    // A new generation is a new start.
    puppet.play(&children([config_map("flipping", "calm"), config_map("steady", "1")]));
    assert_eq!(value(&ns, "flipping"), "calm");
}

#[test]
fn r18_somebody_who_keeps_editing_a_child_wins_for_a_while_and_is_named() {
    let ns = puppets("fight");
    let puppet = ns.puppet("web");
    puppet.play(&children([config_map("fought", "ours"), config_map("peace", "ours")]));
    let mark = ns.env().mark();
    let edit = |value: &str| {
        let patch = json!({ "data": { "value": value } }).to_string();
        ns.kubectl(&["patch", "configmap", "fought", "--type=merge", "-p", &patch]);
    };
    // The migration of managedFields counts with the apply that follows it.
    for at in 1..WRITES {
        edit(&format!("theirs-{at}"));
        ns.env().wait_object("configmaps", ns.name(), "fought", |map| text(map, "/data/value") == "ours");
    }
    for at in WRITES..WRITES + 2 {
        edit(&format!("theirs-{at}"));
        wait("an answer to the edit", SOON, || {
            let given_up = condition(&puppet.get()?, "Ready").reason == "Thrashing";
            (value(&ns, "fought") == "ours" || given_up).then_some(())
        });
    }
    edit("theirs-last");
    let ready = puppet.wait_reason("Thrashing");
    assert!(ready.message.contains("fought"), "{ready:?}");
    barrier(&ns, "after");
    let forced = asked(&ns, mark, "configmaps").name("fought").filter(|event| event.query("force") == Some("true"));
    assert!(forced.len() <= WRITES + 1, "{forced:#?}");
    assert_eq!(value(&ns, "fought"), "theirs-last");
    assert_eq!(asked(&ns, mark, "configmaps").name("peace").to_vec(), []);
}

#[test]
fn r18_somebody_who_keeps_removing_the_finalizer_wins_for_a_while_and_is_told_so() {
    let ns = stage().with("puppet-finalizes").namespace("fight-finalizer");
    let puppet = ns.puppet_of("FinalizingPuppet", "web");
    let mark = ns.env().mark();
    puppet.play(&children([config_map("a", "1")]));
    let is_held = |puppet: &serde_json::Value| !puppet["metadata"]["finalizers"].is_null();
    let remove = || puppet.kubectl("patch", &["--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#]);
    for _ in 1..WRITES {
        remove();
        puppet.wait(is_held);
    }
    remove();
    let ready = puppet.wait_reason("Thrashing");
    assert!(ready.message.contains("web"), "{ready:?}");
    barrier_of(&ns, "FinalizingPuppet", "after");
    let added = asked(&ns, mark, "finalizingpuppets").name("web");
    let added = added.filter(|event| event.query("fieldManager") == Some("windlass-finalizer"));
    assert_eq!(added.len(), WRITES, "{added:#?}");
}
