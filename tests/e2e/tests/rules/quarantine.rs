//! Logic that does nothing but trap (R19).

use serde_json::{Value, json};
use windlass_e2e::{SOON, condition, wait};

use crate::{alone, guest};

const PARENTS: usize = 20;

fn is_quarantined(plugin: &Value) -> bool {
    condition(plugin, "Ready").is_false("Quarantined")
}

#[test]
fn r19_after_five_traps_in_a_row_logic_is_asked_only_now_and_then_until_it_is_mended() {
    let alone = alone();
    let ns = alone.env.namespace("quarantine");
    let puppets: Vec<_> = (0..PARENTS).map(|at| ns.puppet(&format!("web-{at}"))).collect();
    for puppet in &puppets {
        puppet.apply(&json!({ "fail": "trap" }));
    }
    let calls = || puppets.iter().map(windlass_e2e::Puppet::calls).sum::<usize>();
    let quarantined = alone.env.wait_plugin("puppet", is_quarantined);
    assert!(condition(&quarantined, "Available").is_true(), "it is loaded: {quarantined:#}");
    let before = calls();
    assert!(before >= 5, "five in a row: {before}");
    // All parents have a reason to be called now.
    ns.kubectl(&["annotate", "puppets", "--all", "touched=yes"]);
    for puppet in &puppets {
        puppet.wait(|puppet| ["Quarantined", "Trapped"].contains(&&*condition(puppet, "Ready").reason));
    }
    let after = calls();
    assert!(after - before < 6, "a probe now and then, not {} calls", after - before);
    assert!(alone.host.is_running());

    alone.env.push(&guest("puppet-empty"), "puppet", &[]);
    alone.env.wait_live("puppet", &guest("puppet-empty"));
    for puppet in &puppets {
        puppet.wait_done();
    }
    alone.env.wait_plugin("puppet", |plugin| !is_quarantined(plugin));
}

#[test]
fn r19_one_parent_that_traps_beside_good_ones_is_no_quarantine() {
    let alone = alone();
    let ns = alone.env.namespace("one-bad");
    let bad = ns.puppet("bad");
    bad.apply(&json!({ "fail": "trap" }));
    bad.wait_reason("Trapped");
    for at in 0..6 {
        ns.puppet(&format!("good-{at}")).play(&json!({}));
        bad.kubectl("annotate", &["--overwrite", &format!("touched=a{at}")]);
    }
    wait("the bad one to be tried again", SOON, || {
        let trapped = alone.env.host_log_lines("reconcile failed").iter().any(|line| line.contains("Trapped"));
        trapped.then_some(())
    });
    let plugin = alone.env.get("plugins.windlass.dev", "", "puppet").expect("the Plugin");
    assert!(!is_quarantined(&plugin), "{plugin:#}");
}
