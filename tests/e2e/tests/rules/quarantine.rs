//! Components that do nothing but trap, and parents that make them trap (R19).

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
    let places = ["quarantine-a", "quarantine-b"].map(|name| alone.env.namespace(name));
    let puppets: Vec<_> =
        (0..PARENTS).zip(places.iter().cycle()).map(|(at, ns)| ns.puppet(&format!("web-{at}"))).collect();
    for puppet in &puppets {
        puppet.apply(&json!({ "fail": "trap" }));
    }
    let calls = || puppets.iter().map(windlass_e2e::Puppet::calls).sum::<usize>();
    let quarantined = alone.env.wait_plugin("puppet", is_quarantined);
    assert!(condition(&quarantined, "Available").is_true(), "it is loaded: {quarantined:#}");
    let before = calls();
    assert!(before >= 5, "five in a row: {before}");
    // All parents have a reason to be called now.
    for ns in &places {
        ns.kubectl(&["annotate", "puppets", "--all", "touched=yes"]);
    }
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
fn r19_parent_that_traps_again_and_again_is_called_seldom_and_others_at_once() {
    let alone = alone();
    let (ns, others) = (alone.env.namespace("one-bad"), alone.env.namespace("others"));
    let bad = ns.puppet("bad");
    bad.apply(&json!({ "fail": "trap" }));
    let mut touched = 0;
    wait("the sixth trap", SOON, || {
        touched += 1;
        bad.kubectl("annotate", &["--overwrite", &format!("touched=a{touched}")]);
        (bad.calls() >= 6).then_some(())
    });
    let before = bad.calls();
    let plugin = alone.env.get("plugins.windlass.dev", "", "puppet").expect("the Plugin");
    assert!(!is_quarantined(&plugin), "{plugin:#}");
    // Beside it and in another namespace, now and without a probe.
    for (at, ns) in [&ns, &others].into_iter().enumerate() {
        ns.puppet(&format!("good-{at}")).play(&json!({}));
        bad.kubectl("annotate", &["--overwrite", &format!("touched=b{at}")]);
    }
    bad.wait_reason("Quarantined");
    assert!(bad.calls() - before < 4, "it is called now and then: {} calls", bad.calls() - before);
    let plugin = alone.env.get("plugins.windlass.dev", "", "puppet").expect("the Plugin");
    assert!(!is_quarantined(&plugin), "{plugin:#}");
}
