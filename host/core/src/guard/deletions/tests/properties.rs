//! What holds for any order of evaluations and of plans.

use super::*;

#[derive(Debug, Clone, Copy)]
enum Step {
    Evaluated(u8, u8, bool),
    Unplanned(u8),
    Forget(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_u8..8, 0_u8..4, proptest::bool::weighted(0.2)).prop_map(|(parent, prunes, is_requested)| Step::Evaluated(parent, prunes, is_requested)),
        1 => (0_u8..8).prop_map(Step::Unplanned),
        1 => (0_u8..8).prop_map(Step::Forget),
    ];
    proptest::collection::vec(step, 0..60)
}

proptest! {
    #[test]
    fn r09_unrequested_deletions_stay_below_the_limit_and_every_waiting_parent_is_queued_again(steps in steps()) {
        let names: Vec<String> = (0..6).map(|at| at.to_string()).collect();
        let mut rollout = rollout(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let mut untried: HashSet<String> = names.into_iter().collect();
        // By parent: the deletions it planned last, those that were released, and the parents that wait to be queued
        // again.
        let mut planned: HashMap<String, usize> = HashMap::new();
        let mut deleted: HashMap<String, usize> = HashMap::new();
        let mut put_off: HashSet<ObjectKey> = HashSet::new();
        for step in steps {
            if rollout.is_complete() {
                break;
            }
            match step {
                Step::Evaluated(parent, prunes, is_requested) => {
                    let name = parent.to_string();
                    untried.remove(&name);
                    let decision = rollout.evaluated(&key(&name), &prunes_of(&name, usize::from(prunes)), is_requested);
                    put_off.remove(&key(&name));
                    if is_requested || prunes == 0 {
                        prop_assert_eq!(decision, RolloutDecision::Delete);
                        planned.remove(&name);
                    } else if decision == RolloutDecision::Delete {
                        prop_assert!(untried.is_empty());
                        // Deletions beyond those released before are subject to the parent's own guard.
                        deleted.entry(name).or_insert(usize::from(prunes));
                    } else {
                        planned.insert(name.clone(), usize::from(prunes));
                        prop_assert_eq!(decision == RolloutDecision::PutOff, !untried.is_empty());
                        if decision == RolloutDecision::PutOff {
                            put_off.insert(key(&name));
                        }
                    }
                }
                Step::Unplanned(parent) => {
                    untried.remove(&parent.to_string());
                    rollout.unplanned(&key(&parent.to_string()));
                }
                Step::Forget(parent) => {
                    untried.remove(&parent.to_string());
                    put_off.remove(&key(&parent.to_string()));
                    rollout.forget(&key(&parent.to_string()));
                }
            }
            for parent in rollout.take_to_queue() {
                put_off.remove(&parent);
                if rollout.blocked().is_none() {
                    let name = parent.name.to_string();
                    deleted.insert(name.clone(), planned[&name]);
                }
            }
            prop_assert!(deleted.values().sum::<usize>() * 2 <= 18);
            prop_assert!(!untried.is_empty() || put_off.is_empty(), "{:?} wait for ever", put_off);
        }
    }
}

/// An event at one parent of a fleet.
#[derive(Debug, Clone, Copy)]
struct Event {
    parent: usize,
    /// Number of children that the parent's plan deletes.
    drops: usize,
    /// Number of children that the parent's plan replaces.
    replaces: usize,
    /// Whether the parent's spec changed since its last reconcile.
    spec_changed: bool,
    has_left: bool,
    fails: bool,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = (
        0_usize..5,
        0_usize..7,
        0_usize..7,
        any::<bool>(),
        proptest::bool::weighted(0.2),
        proptest::bool::weighted(0.2),
    );
    let event = event.prop_map(|(parent, drops, replaces, spec_changed, has_left, fails)| Event {
        parent,
        drops,
        replaces: replaces.min(6 - drops),
        spec_changed,
        has_left,
        fails,
    });
    proptest::collection::vec(event, 1..40)
}

proptest! {
    /// Five parents with six children each, in any state, under a component that plans anything: before all parents
    /// were evaluated, nothing is deleted; afterwards, no more than the guard permits, until a user allows more.
    #[test]
    fn r09_new_component_deletes_no_more_than_the_guard_allows_in_any_state_of_the_parents(events in events()) {
        let guard = DeletionGuard::default();
        let names = ["a", "b", "c", "d", "e"];
        let mut fleet = fleet_of(&names, 30);
        let mut parents = Parents::default();
        let mut untried: HashSet<usize> = (0..5).collect();
        let mut gone: HashMap<usize, HashSet<Uid>> = HashMap::new();
        for event in events {
            let Event { parent, drops, replaces, spec_changed, has_left, fails } = event;
            let name = names[parent];
            untried.remove(&parent);
            if fails {
                fleet.unplanned(&key(name));
                continue;
            }
            let was_in_doubt = fleet.is_undecided_for(&key(name));
            let snapshot = fleet_parent(name, 6, &status(if spec_changed { CHANGED } else { UNCHANGED }), "");
            let mut plan = dropping(&snapshot, drops);
            let replaced = snapshot.children.iter().skip(drops).take(replaces);
            plan.writes = replaced.map(|child| Write::Replace(Delete::of(child))).collect();
            let cause = || if has_left { Cause::LeftSelector } else { cause(&snapshot, Phase::Sync, SHAPE, None) };
            guard_plan(&mut fleet, (parents.of(&snapshot), guard), &snapshot, cause, Leavers::default, &mut plan);
            fleet.take_to_queue();
            let deleted = plan.deletions().counted(true).into_owned();
            prop_assert!(!has_left || plan.prunes.len() <= 3, "leaving the selector is not a request for deletions");
            if was_in_doubt {
                prop_assert!(deleted.is_empty() || untried.is_empty(), "deletions before all parents were evaluated");
                prop_assert!(deleted.len() <= 3, "{} of 6 of one parent", deleted.len());
                gone.entry(parent).or_default().extend(deleted.into_iter().map(|delete| delete.uid));
            }
        }
        let gone: usize = gone.values().map(HashSet::len).sum();
        prop_assert!(gone * 2 <= 30, "{} of 30", gone);
    }
}
