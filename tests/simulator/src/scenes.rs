//! Scenes: acts that matter only one after the other, so that chance alone rarely brings them together.

use std::ops::Range;

use serde_json::json;

use crate::generator::Generator;
use crate::history::{Act, CLUSTER, Child, FINALIZING, Kind, ROLLING, Step, Version};
use crate::objects::{child_path, plugin_path, script_of};
use crate::setup::{NAMESPACE, OPERATORS, RENAMED};
use crate::trial::{label_namespace, select_namespace};

/// Makes the steps of a scene that begins at a time.
pub type Scene = fn(&mut Generator, u64) -> Vec<Step>;

/// All scenes.
pub const SCENES: [Scene; 25] = [
    fight,
    child_changed_during_deletion,
    failover_to_a_late_cache,
    pause_during_a_write,
    adoption,
    clean_up,
    refused_status,
    component_that_returns_less,
    second_change_before_the_first_is_decided,
    guard_is_turned_off,
    children_are_renamed,
    parents_change_during_a_rollout,
    blocked_deletions_grow,
    namespace_is_no_longer_selected,
    lease_lost_while_writes_are_slow,
    restart_beside_a_rival,
    parents_move_while_writes_are_slow,
    suspended_and_no_longer_selected,
    pruned_beside_a_child_that_is_not_there,
    deletion_denied_as_if_it_were_gone,
    finalizer_denied_for_a_while,
    children_change_one_after_the_other,
    namespace_goes_slowly,
    object_beside_a_marked_child,
    write_is_lost_and_nothing_else_happens,
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

/// The Plugin adopts, and a parent desires a child whose name a user has taken, with the same content or another one, or by a Secret for a
/// token.
fn adoption(of: &mut Generator, begin: u64) -> Vec<Step> {
    let (parent, child) = plain(of);
    let child = Child { kind: [Kind::ConfigMap, Kind::Secret][of.chance.usize(0..2)], ..child };
    let (value, token) = (of.chance.u8(0..2), of.chance.u8(0..4) == 0);
    let plugin = if of.chance.bool() { of.another_plugin() } else { String::new() };
    of.desired[usize::from(parent)] = vec![child];
    let apply = |children| Act::Apply { parent, children, fail: None, reads: false };
    timed(
        begin,
        vec![
            (0, Act::Plugin { spec: json!({ "adopt": true }) }),
            (0, apply(Vec::new())),
            (8_000, Act::Occupy { parent, child: Child { value, ..child }, plugin, owner: None, token }),
            (9_000, apply(vec![child])),
        ],
    )
}

/// A parent is deleted, half of the time with `--cascade=orphan`, and its plugin desires during the clean-up what it has had before, another
/// child, or nothing.
fn clean_up(of: &mut Generator, begin: u64) -> Vec<Step> {
    let [child, other] = [0, 1].map(|name| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": format!("${{name}}-c{name}") },
            "data": { "value": "0" },
        })
    });
    let when = ["childrenCreated", "always"][of.chance.usize(0..2)];
    let desired = [vec![&child], vec![&other], Vec::new()][of.chance.usize(0..3)].clone();
    let deleted = if of.chance.bool() { of.chance.u64(4_000..12_000) } else { 62_000 };
    let policy = ["", "Orphan"][of.chance.usize(0..2)].to_owned();
    // A plugin is not shown a child that its parent has released, and would wait for it for ever.
    let when = if policy.is_empty() { when } else { "always" };
    let spec = json!({
        "children": [&child], "finalize": { "children": desired, "finalizedWhen": when },
        "requirements": [], "childrenFrom": null, "fail": null, "status": null,
    });
    let lag = Act::Lag { resource: "finalizingpuppets.puppets.example".to_owned(), millis: 10_000 };
    let mut steps =
        vec![(0, Act::ApplySpec { parent: FINALIZING, spec }), (deleted, Act::Delete { parent: FINALIZING, policy })];
    match of.chance.u8(0..4) {
        // The host is before the garbage collector, or the other way round.
        0 => steps.push((deleted - 1, Act::StopCollector { millis: 10_000 })),
        1 => steps.push((deleted - 1, lag)),
        // The host sees late that its finalizer is gone.
        2 => steps.push((deleted + of.chance.u64(20..400), lag)),
        _ => {}
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
    let mut steps = fleet(of, 1..6);
    // Before that, a user may have asked for less, as far as the check of the guard knows.
    let begins = if of.chance.bool() { 12_000 } else { 62_000 };
    steps.push((begins, Act::Component { version: Version::Empty }));
    timed(begin, steps)
}

/// The same, and before the new component was called for all parents, or while its deletions are blocked, the Plugin changes again: its
/// config asks for less, too.
fn second_change_before_the_first_is_decided(of: &mut Generator, begin: u64) -> Vec<Step> {
    let mut steps = fleet(of, 1..6);
    let (first, second) = (Act::Component { version: Version::Empty }, json!({ "config": { "keepChildren": 0 } }));
    steps.extend([(62_000, first), (62_000 + of.chance.u64(50..20_000), Act::Plugin { spec: second })]);
    timed(begin, steps)
}

/// The same, and a user turns the deletion guard off.
fn guard_is_turned_off(of: &mut Generator, begin: u64) -> Vec<Step> {
    let mut steps = component_that_returns_less(of, 0);
    let guard = json!({ "deletionGuard": { "maxPercent": 100 } });
    steps.push(Step { at: 80_000, what: Act::Plugin { spec: guard } });
    steps.into_iter().map(|step| Step { at: begin + step.at, ..step }).collect()
}

/// The Plugin's config renames all children; while the deletions of the old ones are blocked, another component comes that does the same,
/// or the host is killed. By then the new children exist, so that the old ones are only half of all.
fn children_are_renamed(of: &mut Generator, begin: u64) -> Vec<Step> {
    let mut steps = fleet(of, 1..6);
    let next = if of.chance.bool() { Act::Component { version: Version::Narrow } } else { Act::Crash { host: 0 } };
    let after = [600, 30_000][of.chance.usize(0..2)];
    steps.extend([
        (62_000, Act::Plugin { spec: json!({ "config": { "prefix": RENAMED } }) }),
        (62_000 + of.chance.u64(20..after), next),
    ]);
    timed(begin, steps)
}

/// A component that returns no children comes, and about then users change what the children of all parents contain. They have asked for no
/// deletions.
fn parents_change_during_a_rollout(of: &mut Generator, begin: u64) -> Vec<Step> {
    let mut steps = fleet(of, 1..6);
    steps.push((62_000, Act::Component { version: Version::Empty }));
    for parent in 0..FINALIZING {
        let children = of.desired[usize::from(parent)].iter().map(|child| Child { value: 1, ..*child }).collect();
        let at = 61_500 + of.chance.u64(0..4_000);
        steps.push((at, Act::Apply { parent, children, fail: None, reads: false }));
    }
    timed(begin, steps)
}

/// Deletions are blocked, and then a parent is resumed that has more of them.
fn blocked_deletions_grow(of: &mut Generator, begin: u64) -> Vec<Step> {
    let mut steps = fleet(of, 1..6);
    let parent = of.chance.u8(0..FINALIZING);
    let suspend = |suspended| Act::SuspendParent { parent, suspended };
    steps.extend([
        (50_000, suspend(true)),
        (62_000, Act::Component { version: Version::Empty }),
        (70_000 + of.chance.u64(0..15_000), suspend(false)),
    ]);
    timed(begin, steps)
}

/// A user takes off the label by which the Plugin selects the namespace of parents with a few children each.
fn namespace_is_no_longer_selected(of: &mut Generator, begin: u64) -> Vec<Step> {
    let mut steps = fleet(of, 1..4);
    steps.extend(select_namespace(OPERATORS[0].name).map(|act| (0, act)));
    steps.push((62_000, label_namespace(None)));
    timed(begin, steps)
}

/// The parents of the first Plugin have children, each a number in this range.
fn fleet(of: &mut Generator, count: Range<u8>) -> Vec<(u64, Act)> {
    let mut apply = |parent: u8| {
        let children: Vec<_> =
            (0..of.chance.u8(count.clone())).map(|name| Child { kind: Kind::ConfigMap, name, value: 0 }).collect();
        of.desired[usize::from(parent)].clone_from(&children);
        (u64::from(parent), Act::Apply { parent, children, fail: None, reads: false })
    };
    (0..FINALIZING).map(&mut apply).collect()
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

/// Two hosts share the parents, and one of them is replaced while both write: parents move although reconciles of them still run.
fn parents_move_while_writes_are_slow(of: &mut Generator, begin: u64) -> Vec<Step> {
    of.shards = Some(2);
    let child = Child { kind: Kind::ConfigMap, name: 0, value: 0 };
    let applied = |parent, value| applied(parent, Child { value, ..child });
    let mut steps = vec![
        // Lists are as fast as ever, so that the other host begins soon.
        (0, Act::SlowDown { most: of.chance.u64(1_000..9_000), millis: 40_000, path: "/configmaps/".to_owned() }),
        (of.chance.u64(4_000..12_000), Act::Restart { host: 0 }),
    ];
    for parent in 0..FINALIZING {
        of.desired[usize::from(parent)] = vec![child];
        let at = |time| 1_500 * u64::from(time) + 300 * u64::from(parent);
        steps.extend((0..21_u8).map(|time| (at(time), applied(parent, time % 2))));
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

/// A child stays for more than a minute after its deletion, or its name is taken, and then its parent desires another one no more.
fn pruned_beside_a_child_that_is_not_there(of: &mut Generator, begin: u64) -> Vec<Step> {
    let (parent, child) = plain(of);
    of.desired[usize::from(parent)] = vec![child];
    let other = Child { name: 1, ..child };
    let both = Act::Apply { parent, children: vec![child, other], fail: None, reads: false };
    let mut steps = if of.chance.bool() {
        vec![
            (0, both),
            (5_000, Act::ChildFinalizer { parent, child, is_set: true }),
            (5_100, Act::DeleteChild { parent, child }),
        ]
    } else {
        vec![
            (0, applied(parent, other)),
            (4_000, Act::Occupy { parent, child, plugin: of.another_plugin(), owner: None, token: false }),
            (5_000, both),
        ]
    };
    steps.push((70_000, applied(parent, child)));
    timed(begin, steps)
}

/// A webhook denies the deletion of a child with 404, as if the child were gone.
fn deletion_denied_as_if_it_were_gone(of: &mut Generator, begin: u64) -> Vec<Step> {
    let (parent, child) = plain(of);
    of.desired[usize::from(parent)] = vec![child];
    let other = Child { name: 1, ..child };
    let path = child_path(parent, other);
    timed(
        begin,
        vec![
            (0, Act::Apply { parent, children: vec![child, other], fail: None, reads: false }),
            (8_000, Act::Refuse { code: 404, millis: 20_000, path }),
            (8_000, applied(parent, child)),
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

/// All children of a parent change, whose Plugin changes one after the other.
fn children_change_one_after_the_other(of: &mut Generator, begin: u64) -> Vec<Step> {
    let kind = [Kind::Doll, Kind::Mask][of.chance.usize(0..2)];
    let apply = |value| {
        let children = (0..4).map(|name| Child { kind, name, value }).collect();
        Act::Apply { parent: ROLLING, children, fail: None, reads: false }
    };
    of.desired[usize::from(ROLLING)] = vec![Child { kind, name: 0, value: 1 }];
    // One child is edited meanwhile, and put back.
    let edited = Act::EditChild { parent: ROLLING, child: Child { kind, name: 3, value: 2 } };
    timed(begin, vec![(0, apply(0)), (62_000, apply(1)), (62_000 + of.chance.u64(0..6_000), edited)])
}

/// A user deletes the namespace, and while the controllers have done nothing about that, a parent desires another child.
fn namespace_goes_slowly(of: &mut Generator, begin: u64) -> Vec<Step> {
    let (parent, child) = plain(of);
    let both = vec![child, Child { name: 1, ..child }];
    of.desired[usize::from(parent)].clone_from(&both);
    timed(
        begin,
        vec![
            (0, applied(parent, child)),
            (8_000, Act::StopCollector { millis: 20_000 }),
            (8_000, Act::DeleteNamespace),
            (9_000, Act::Apply { parent, children: both, fail: None, reads: false }),
        ],
    )
}

/// A user deletes or changes a child, and what the host writes then does not arrive. Nothing else makes it look at the parent again.
fn write_is_lost_and_nothing_else_happens(of: &mut Generator, begin: u64) -> Vec<Step> {
    let (parent, child) = plain(of);
    of.desired[usize::from(parent)] = vec![child];
    let edit = Act::EditChild { parent, child: Child { value: 1, ..child } };
    let change = if of.chance.bool() { Act::DeleteChild { parent, child } } else { edit };
    timed(begin, vec![(0, applied(parent, child)), (8_000, Act::LoseRequests { count: 1 }), (8_000, change)])
}

/// A user copies a child of a cluster-scoped parent, with its mark, or creates an object without one, which may have an owner. It may be
/// adopted, unless it only says that it is a child. The parent may desire a child of that name later.
fn object_beside_a_marked_child(of: &mut Generator, begin: u64) -> Vec<Step> {
    of.plugins = vec!["puppet-cluster".to_owned()];
    let child = Child { kind: Kind::ConfigMap, name: 0, value: 0 };
    let apply = |children: &[Child]| {
        let scripts = children.iter().map(|child| {
            let mut script = script_of(*child);
            script["metadata"]["namespace"] = NAMESPACE.into();
            script
        });
        let spec = json!({ "children": scripts.collect::<Vec<_>>(), "requirements": [], "childrenFrom": null });
        Act::ApplySpec { parent: CLUSTER, spec }
    };
    let other = Child { name: 1, ..child };
    let mut steps = vec![(0, apply(&[child]))];
    if of.chance.bool() {
        steps.push((8_000, Act::Copy { parent: CLUSTER, child, name: other.name }));
    } else {
        let adopts = Act::Patch { path: plugin_path("puppet-cluster"), patch: json!({ "spec": { "adopt": true } }) };
        let owner = [None, Some(0), Some(CLUSTER)][of.chance.usize(0..3)];
        steps.extend((owner != Some(CLUSTER)).then_some((4_000, adopts)));
        steps.push((8_000, Act::Occupy { parent: CLUSTER, child: other, plugin: String::new(), owner, token: false }));
    }
    if of.chance.bool() {
        steps.push((12_000, apply(&[child, other])));
    }
    timed(begin, steps)
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
