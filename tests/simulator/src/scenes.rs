//! Scenes: acts that matter only one after the other, so that chance alone rarely brings them together.

use serde_json::json;

use crate::generator::Generator;
use crate::history::{Act, Child, FINALIZING, Kind, Step, Version};

/// Makes the steps of a scene that begins at a time.
pub type Scene = fn(&mut Generator, u64) -> Vec<Step>;

/// All scenes.
pub const SCENES: [Scene; 14] = [
    fight,
    child_changed_during_deletion,
    failover_to_a_late_cache,
    pause_during_a_write,
    adoption,
    clean_up_of_orphans,
    refused_status,
    component_that_returns_less,
    lease_lost_while_writes_are_slow,
    restart_beside_a_rival,
    parents_move_while_writes_are_slow,
    suspended_and_no_longer_selected,
    pruned_beside_a_child_that_stays,
    finalizer_denied_for_a_while,
];

/// A user and the host change the same child again and again.
fn fight(of: &mut Generator, begin: u64) -> Vec<Step> {
    let (parent, child) = plain(of);
    of.desired[usize::from(parent)] = vec![child];
    let edit = |time: u8| Act::EditChild { parent, child: Child { value: 3 + time % 2, ..child } };
    let mut steps = vec![(0, applied(parent, child))];
    steps.extend((0..18).map(|time| (4_000 + 1_500 * u64::from(time), edit(time))));
    timed(begin, steps)
}

/// A parent no longer desires a child; while its deletion is on its way, a user puts another object in its place, or takes the owner off it.
fn child_changed_during_deletion(of: &mut Generator, begin: u64) -> Vec<Step> {
    let (parent, child) = plain(of);
    let apply = |children| Act::Apply { parent, children, fail: None, reads: false };
    of.desired[usize::from(parent)].clear();
    let mut steps = vec![
        (0, apply(vec![child])),
        (15_000, Act::SlowDown { most: 6_000, millis: 12_000, path: String::new() }),
        (15_100, apply(Vec::new())),
    ];
    let change = if of.chance.bool() { Act::Swap { parent, child } } else { Act::Disown { parent, child } };
    steps.extend((0..6).map(|_| (15_300 + of.chance.u64(0..9_000), change.clone())));
    timed(begin, steps)
}

/// A host is killed after it has created children that the other host does not see when it takes over.
fn failover_to_a_late_cache(of: &mut Generator, begin: u64) -> Vec<Step> {
    let (parent, child) = plain(of);
    of.desired[usize::from(parent)] = vec![child];
    let what = applied(parent, child);
    let at = 8_000 + of.chance.u64(500..3_000);
    timed(
        begin,
        vec![
            (0, Act::StandBy),
            (8_000, what),
            (8_000, Act::Lag { resource: "configmaps".to_owned(), millis: 50_000 }),
            (at, Act::Crash { host: 0 }),
        ],
    )
}

/// A host is paused for longer than a Lease lasts, after it has decided to write, while another host stands by.
fn pause_during_a_write(of: &mut Generator, begin: u64) -> Vec<Step> {
    let (parent, child) = plain(of);
    let applied = |value| applied(parent, Child { value, ..child });
    of.desired[usize::from(parent)] = vec![child];
    let (host, at) = (0, 8_000 + of.chance.u64(2..60));
    timed(
        begin,
        vec![(0, Act::StandBy), (0, applied(1)), (8_000, applied(0)), (at, Act::Pause { host, millis: 30_000 })],
    )
}

/// The Plugin adopts, and a parent desires a child whose name a user has taken, with the same content or another one.
fn adoption(of: &mut Generator, begin: u64) -> Vec<Step> {
    let (parent, child) = plain(of);
    let value = of.chance.u8(0..2);
    of.desired[usize::from(parent)] = vec![child];
    let apply = |children| Act::Apply { parent, children, fail: None, reads: false };
    timed(
        begin,
        vec![
            (0, Act::Plugin { spec: json!({ "adopt": true }) }),
            (0, apply(Vec::new())),
            (8_000, Act::Occupy { parent, child: Child { value, ..child }, plugin: of.another_plugin() }),
            (9_000, apply(vec![child])),
        ],
    )
}

/// A parent is deleted with `--cascade=orphan`, and its plugin desires during the clean-up what it has had before.
fn clean_up_of_orphans(of: &mut Generator, begin: u64) -> Vec<Step> {
    let child = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "${name}-c0" }, "data": { "value": "0" },
    });
    let when = ["childrenCreated", "always"][of.chance.usize(0..2)];
    let spec = json!({
        "children": [&child], "finalize": { "children": [&child], "finalizedWhen": when },
        "requirements": [], "childrenFrom": null, "fail": null, "status": null,
    });
    let deleted = of.chance.u64(4_000..12_000);
    let mut steps = vec![
        (0, Act::ApplySpec { parent: FINALIZING, spec }),
        (deleted, Act::Delete { parent: FINALIZING, policy: "Orphan".to_owned() }),
    ];
    if of.chance.bool() {
        // The garbage collector has released the children before the host sees the deletion.
        let resource = "finalizingpuppets.puppets.example".to_owned();
        steps.push((deleted - 1, Act::Lag { resource, millis: 10_000 }));
    }
    timed(begin, steps)
}

/// The API server rejects the status of parents for a while.
fn refused_status(of: &mut Generator, begin: u64) -> Vec<Step> {
    let (parent, child) = plain(of);
    of.desired[usize::from(parent)] = vec![child];
    timed(
        begin,
        vec![
            (0, Act::Refuse { code: 422, millis: 25_000, path: "/status".to_owned() }),
            (1_000, applied(parent, child)),
        ],
    )
}

/// A component that returns no children takes the place of one whose parents have a few children each.
fn component_that_returns_less(of: &mut Generator, begin: u64) -> Vec<Step> {
    let mut steps = Vec::new();
    for parent in 0..FINALIZING {
        let children: Vec<_> =
            (0..of.chance.u8(1..4)).map(|name| Child { kind: Kind::ConfigMap, name, value: 0 }).collect();
        of.desired[usize::from(parent)].clone_from(&children);
        steps.push((u64::from(parent), Act::Apply { parent, children, fail: None, reads: false }));
    }
    steps.push((12_000, Act::Component { version: Version::Empty }));
    timed(begin, steps)
}

/// The leader can renew its Lease no more, and another host takes it, while what the first one wrote is still on its way.
fn lease_lost_while_writes_are_slow(of: &mut Generator, begin: u64) -> Vec<Step> {
    let (parent, child) = plain(of);
    of.desired[usize::from(parent)] = vec![child];
    let applied = |value| applied(parent, Child { value, ..child });
    let mut steps = vec![
        (0, Act::StandBy),
        (0, applied(1)),
        (8_000, Act::Refuse { code: 503, millis: of.chance.u64(12_000..20_000), path: "/leases".to_owned() }),
        (9_000, Act::SlowDown { most: 10_000, millis: 25_000, path: "/configmaps".to_owned() }),
    ];
    steps.extend((0..10_u8).map(|time| (9_500 + 1_500 * u64::from(time), applied(time % 2))));
    steps.push((36_000, applied(0)));
    timed(begin, steps)
}

/// A second Plugin of the kind comes, and the host starts again.
fn restart_beside_a_rival(of: &mut Generator, begin: u64) -> Vec<Step> {
    let (parent, child) = plain(of);
    of.desired[usize::from(parent)] = vec![child];
    let applied = |value| applied(parent, Child { value, ..child });
    let again = if of.chance.bool() { Act::Crash { host: 0 } } else { Act::Restart { host: 0 } };
    timed(begin, vec![(0, applied(1)), (5_000, Act::Rival), (12_000, again), (30_000, applied(0))])
}

/// Hosts share the parents, and another one joins while they write: parents move whose reconciles still run.
fn parents_move_while_writes_are_slow(of: &mut Generator, begin: u64) -> Vec<Step> {
    of.shards = Some(2);
    let child = Child { kind: Kind::ConfigMap, name: 0, value: 0 };
    let applied = |parent, value| applied(parent, Child { value, ..child });
    let mut steps = vec![
        // Lists are as fast as ever, so that the other host begins soon.
        (0, Act::SlowDown { most: 4_000, millis: 30_000, path: "/configmaps/".to_owned() }),
        (of.chance.u64(4_000..8_000), Act::StandBy),
    ];
    for parent in 0..FINALIZING {
        of.desired[usize::from(parent)] = vec![child];
        let at = |time| 1_500 * u64::from(time) + 300 * u64::from(parent);
        steps.extend((0..9_u8).map(|time| (at(time), applied(parent, time % 2))));
    }
    timed(begin, steps)
}

/// A parent is suspended for more than a minute when its Plugin selects it no more.
fn suspended_and_no_longer_selected(of: &mut Generator, begin: u64) -> Vec<Step> {
    let (parent, child) = plain(of);
    of.desired[usize::from(parent)] = vec![child];
    let selector = json!({ "namespaceSelector": { "matchLabels": { "team": "other" } } });
    timed(
        begin,
        vec![
            (0, applied(parent, child)),
            (4_000, Act::SuspendParent { parent, suspended: true }),
            (70_000, Act::Plugin { spec: selector }),
        ],
    )
}

/// A child stays for more than a minute after its deletion, and then its parent desires another one no more.
fn pruned_beside_a_child_that_stays(of: &mut Generator, begin: u64) -> Vec<Step> {
    let (parent, child) = plain(of);
    of.desired[usize::from(parent)] = vec![child];
    let both = vec![child, Child { name: 1, ..child }];
    timed(
        begin,
        vec![
            (0, Act::Apply { parent, children: both, fail: None, reads: false }),
            (5_000, Act::ChildFinalizer { parent, child, is_set: true }),
            (5_100, Act::DeleteChild { parent, child }),
            (70_000, applied(parent, child)),
        ],
    )
}

/// The host may not set the finalizer of a new parent for a while, and nothing else changes afterwards.
fn finalizer_denied_for_a_while(of: &mut Generator, begin: u64) -> Vec<Step> {
    let child = Child { kind: Kind::ConfigMap, name: 0, value: 0 };
    of.desired[usize::from(FINALIZING)] = vec![child];
    let deny = |denied| Act::Deny {
        plugin: None,
        host: true,
        verb: "patch".to_owned(),
        resource: "finalizingpuppets.puppets.example".to_owned(),
        denied,
    };
    timed(
        begin,
        vec![
            (0, Act::Delete { parent: FINALIZING, policy: String::new() }),
            (6_000, deny(true)),
            (7_000, applied(FINALIZING, child)),
            (7_000 + of.chance.u64(2_000..40_000), deny(false)),
        ],
    )
}

/// A user applies a parent with this child alone.
fn applied(parent: u8, child: Child) -> Act {
    Act::Apply { parent, children: vec![child], fail: None, reads: false }
}

/// A parent of the first Plugin, and a ConfigMap of it.
fn plain(of: &mut Generator) -> (u8, Child) {
    let parent = of.chance.u8(0..FINALIZING);
    (parent, Child { kind: Kind::ConfigMap, name: 0, value: 0 })
}

fn timed(begin: u64, steps: Vec<(u64, Act)>) -> Vec<Step> {
    steps.into_iter().map(|(after, what)| Step { at: begin + after, what }).collect()
}
