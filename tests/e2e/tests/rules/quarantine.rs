//! Components whose calls always trap, and parents whose calls trap (R19).

use serde_json::{Value, json};
use windlass_e2e::{TIMEOUT, condition, wait};

use crate::{alone, guest};

const PARENTS: usize = 20;

fn is_quarantined(plugin: &Value) -> bool {
    condition(plugin, "Ready").is_false("Quarantined")
}

#[test]
fn r19_component_is_called_rarely_after_five_traps_in_a_row_until_it_is_replaced() {
    let alone = alone();
    let places = ["quarantine-a", "quarantine-b"].map(|name| alone.env.namespace(name));
    let puppets: Vec<_> =
        (0..PARENTS).zip(places.iter().cycle()).map(|(at, ns)| ns.puppet(&format!("web-{at}"))).collect();
    for puppet in &puppets {
        puppet.apply(&json!({ "fail": "trap" }));
    }
    let calls = || puppets.iter().map(windlass_e2e::Puppet::calls).sum::<usize>();
    let quarantined = alone.env.wait_plugin("puppet", is_quarantined);
    assert!(condition(&quarantined, "Available").is_true(), "a quarantined component stays loaded: {quarantined:#}");
    let before = calls();
    assert!(before >= 5, "quarantined after {before} calls, fewer than five");
    // Now every parent has a reason for a call.
    for ns in &places {
        ns.kubectl(&["annotate", "puppets", "--all", "touched=yes"]);
    }
    for puppet in &puppets {
        puppet.wait(|puppet| ["Quarantined", "Trapped"].contains(&&*condition(puppet, "Ready").reason));
    }
    let after = calls();
    assert!(after - before < 6, "expected a few probes, not {} calls", after - before);
    assert!(alone.host.is_running());

    alone.env.push(&guest("puppet-empty"), "puppet", &[]);
    alone.env.wait_live("puppet", &guest("puppet-empty"));
    for puppet in &puppets {
        puppet.wait_done();
    }
    alone.env.wait_plugin("puppet", |plugin| !is_quarantined(plugin));
}

#[test]
fn r19_parent_whose_calls_keep_trapping_is_called_rarely_and_others_at_once() {
    let alone = alone();
    let (ns, others) = (alone.env.namespace("one-bad"), alone.env.namespace("others"));
    let bad = ns.puppet("bad");
    bad.apply(&json!({ "fail": "trap" }));
    let mut touched = 0;
    wait("the sixth trap", TIMEOUT, || {
        touched += 1;
        bad.kubectl("annotate", &["--overwrite", &format!("touched=a{touched}")]);
        (bad.calls() >= 6).then_some(())
    });
    let before = bad.calls();
    let plugin = alone.env.get("plugins.windlass.dev", "", "puppet").expect("the Plugin");
    assert!(!is_quarantined(&plugin), "{plugin:#}");
    // Other parents in this and in another namespace are called at once.
    for (at, ns) in [&ns, &others].into_iter().enumerate() {
        ns.puppet(&format!("good-{at}")).play(&json!({}));
        bad.kubectl("annotate", &["--overwrite", &format!("touched=b{at}")]);
    }
    bad.wait_reason("Quarantined");
    assert!(bad.calls() - before < 4, "expected few calls of the trapping parent, not {}", bad.calls() - before);
    let plugin = alone.env.get("plugins.windlass.dev", "", "puppet").expect("the Plugin");
    assert!(!is_quarantined(&plugin), "{plugin:#}");
}
