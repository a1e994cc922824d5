use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::desired::Desired;
use crate::fixtures::{created, object, parent_ref, parent_with, pod, status_after, validate};
use crate::ids::{Gvk, ObjectKey, Uid};
use crate::outcome::{Outcome, Problem, SuspendedBy};
use crate::parent::ParentRef;
use crate::plan::{ChildId, plan};
use crate::snapshot::Snapshot;

const SHAPE: StatusShape = StatusShape { subresource: true, observed_generation: true, conditions: true };

/// A parent at generation 3 with this many Pods, this status and this annotation.
fn snapshot(pods: usize, status: &Json, allowed: &str) -> Snapshot {
    let mut parent: Json = serde_json::from_slice(&parent_with(status).json.bytes()).expect("JSON");
    parent["metadata"]["annotations"] = json!({"windlass.dev/allow-deletion": allowed});
    let children = desired_pods(&(0..pods).collect::<Vec<_>>()).children;
    Snapshot::new(parent_ref(), object(&parent), children.iter().map(|child| object(&created(child))), None, |_| false)
}

fn desired_pods(pods: &[usize]) -> Desired {
    validate(&pods.iter().map(|at| pod(&format!("p{at}"))).collect::<Vec<_>>()).expect("valid")
}

/// Plans to keep `keep` of `pods` children. Returns the blocked deletions, and how many prunes are left in the plan.
fn blocked(pods: usize, keep: usize) -> (Option<BlockedDeletions>, usize) {
    let snapshot = snapshot(pods, &json!({"observedGeneration": 3}), "");
    let mut plan = plan(&snapshot, &desired_pods(&(0..keep).collect::<Vec<_>>()));
    (apply_guard(&snapshot, &mut plan), plan.prunes.len())
}

/// The conditions of a parent with this problem.
fn conditions_of(problem: &Problem) -> Json {
    status_after(&Outcome::from(problem), None)["conditions"].clone()
}

/// Applies the guard as a reconcile does for a parent without blocked deletions.
fn apply_guard(snapshot: &Snapshot, plan: &mut Plan) -> Option<BlockedDeletions> {
    apply_guard_in(&mut Parents::default(), DeletionGuard::default(), snapshot, plan)
}

/// Applies the guard as a reconcile does under a version that is not new.
fn apply_guard_in(
    parents: &mut Parents,
    guard: DeletionGuard,
    snapshot: &Snapshot,
    plan: &mut Plan,
) -> Option<BlockedDeletions> {
    match judged(&mut Fleet::new(rollout(&[])), parents, guard, snapshot, plan) {
        Some(Stop::AtParent(blocked)) => Some(blocked),
        Some(stop) => panic!("{stop:?}"),
        None => None,
    }
}

/// Applies the guard to a selected parent, under a Plugin whose namespaces do not change.
fn judged(
    fleet: &mut Fleet,
    parents: &mut Parents,
    guard: DeletionGuard,
    snapshot: &Snapshot,
    plan: &mut Plan,
) -> Option<Stop> {
    let cause = || cause(snapshot, Phase::Sync, SHAPE);
    guard_plan(fleet, (parents.of(snapshot), guard), snapshot, cause, Leavers::default, plan)
}

/// The deletions that the guard remembers for each parent.
#[derive(Default)]
struct Parents(HashMap<ObjectKey, ParentDeletions>);

impl Parents {
    fn of(&mut self, snapshot: &Snapshot) -> &mut ParentDeletions {
        self.0.entry(snapshot.parent.key.clone()).or_default()
    }
}

#[test]
fn r09_deletion_of_more_than_the_allowed_share_of_children_is_blocked() {
    let (none, prunes) = blocked(10, 5);
    assert_eq!((none, prunes), (None, 5), "a half is not more than 50 %");
    let (some, prunes) = blocked(10, 4);
    assert_eq!(prunes, 0);
    expect_test::expect!["Blocked: 6 of 10 children would be deleted although the spec did not change. To allow exactly these deletions: kubectl annotate Echo.my-operator.dev hello -n default windlass.dev/allow-deletion=c27db0e670d5 --overwrite; children: Pod default/p9, Pod default/p8, Pod default/p7, Pod default/p6, Pod default/p5 and 1 more"]
    .assert_eq(&some.expect("blocked").to_string());
}

#[test]
fn r09_blocked_deletions_stay_blocked_when_creates_make_them_a_smaller_share() {
    let guard = DeletionGuard::default();
    let mut parents = Parents::default();
    let check = |parents: &mut Parents, pods: usize, status: &Json| {
        let snapshot = snapshot(pods, status, "");
        let mut plan = plan(&snapshot, &desired_pods(&[4, 5, 6, 7, 8, 9, 10, 11]));
        apply_guard_in(parents, guard, &snapshot, &mut plan)
    };
    let unchanged = json!({"observedGeneration": 3});
    let first = check(&mut parents, 4, &unchanged).expect("4 of 4");
    assert_eq!(check(&mut Parents::default(), 12, &unchanged), None, "4 of 12 are few");
    assert_eq!(check(&mut parents, 12, &unchanged).expect("blocked").hash, first.hash);
    // Another process reads the block from the status.
    let mut reported = unchanged.clone();
    reported["conditions"] = conditions_of(&Problem::DeletionsBlocked(first));
    assert!(check(&mut Parents::default(), 12, &reported).is_some());
    // Another version of the host gave another reason.
    reported["conditions"][1]["reason"] = json!("DeletionBlocked");
    assert!(check(&mut Parents::default(), 12, &reported).is_some());
    // A plugin's own condition of that reason: the host is not stalled.
    reported["conditions"][1]["status"] = json!("False");
    assert_eq!(check(&mut Parents::default(), 12, &reported), None);
    reported["conditions"].as_array_mut().expect("conditions").pop();
    assert_eq!(check(&mut Parents::default(), 12, &reported), None);
    reported["conditions"] = conditions_of(&Problem::DeletionsBlockedAtPlugin(parent_ref().plugin));
    assert_eq!(check(&mut Parents::default(), 12, &reported), None);
    // The block ends when a user asks for the deletions, or when the parent disappears.
    assert_eq!(check(&mut parents, 12, &json!({"observedGeneration": 2})), None);
    assert_eq!(check(&mut parents, 12, &unchanged), None);
    check(&mut parents, 4, &unchanged);
    parents.0.clear();
    assert_eq!(check(&mut parents, 12, &unchanged), None);
}

#[test]
fn r09_block_survives_a_restart_after_a_reconcile_that_ended_before_its_plan() {
    let unchanged = json!({"observedGeneration": 3});
    let mut parents = Parents::default();
    let first = snapshot(4, &unchanged, "");
    let rename_all = |snapshot: &Snapshot| plan(snapshot, &desired_pods(&[4, 5, 6, 7, 8, 9, 10, 11]));
    let blocked = apply_guard_in(&mut parents, DeletionGuard::default(), &first, &mut rename_all(&first));
    assert!(blocked.is_some());
    let decided = parents.of(&first).decided(&first.parent);
    assert_eq!(decided, Some(BlockReason::Inputs));

    // Two outcomes without a plan: the second is of another process, which knows the status alone.
    let mut status = unchanged.clone();
    for decided in [decided, None] {
        let parent = snapshot(12, &status, "").parent;
        let suspended = Outcome {
            blocked: decided.or_else(|| blocked_in_status(&parent)),
            ..Outcome::from(&Problem::Suspended(SuspendedBy::Parent))
        };
        status["conditions"] = status_after(&suspended, None)["conditions"].clone();
        assert_eq!(status["conditions"][0]["reason"], "Suspended");
        assert_eq!(status["conditions"][1]["type"], "DeletionsBlocked");
        assert_eq!(status["conditions"][1]["reason"], "SpecUnchanged");
    }
    let later = snapshot(12, &status, "");
    let mut parents = Parents::default();
    let still = apply_guard_in(&mut parents, DeletionGuard::default(), &later, &mut rename_all(&later));
    assert!(still.is_some(), "4 of 12 are few, but were blocked before");

    // A plan without deletions ends the block.
    let nothing = apply_guard_in(&mut parents, DeletionGuard::default(), &later, &mut Plan::default());
    assert_eq!((nothing, parents.of(&later).decided(&later.parent)), (None, None));
    let applied = status_after(&Outcome::applied(12, None), None);
    assert_eq!(applied["conditions"].as_array().map(Vec::len), Some(1), "Ready alone: {applied:#}");

    // Another controller of the kind may have a condition of this type.
    status["conditions"][1]["reason"] = json!("Maintenance");
    assert_eq!(blocked_in_status(&snapshot(12, &status, "").parent), None);
}

#[test]
fn r09_guard_changed_to_block_nothing_releases_blocked_deletions() {
    let trusting = DeletionGuard { max_percent: 100, ..DeletionGuard::default() };
    let few = DeletionGuard { min_children: 13, ..DeletionGuard::default() };
    let looser = DeletionGuard { max_percent: 99, ..DeletionGuard::default() };
    for (guard, blocks) in [(trusting, false), (few, true), (looser, true)] {
        let mut parents = Parents::default();
        let mut check = |guard, pods, conditions: Json| {
            let snapshot = snapshot(pods, &json!({"observedGeneration": 3, "conditions": conditions}), "");
            let mut plan = plan(&snapshot, &desired_pods(&[4, 5, 6, 7, 8, 9, 10, 11]));
            apply_guard_in(&mut parents, guard, &snapshot, &mut plan)
        };
        let first = check(DeletionGuard::default(), 4, json!([])).expect("4 of 4");
        let reported = conditions_of(&Problem::DeletionsBlocked(first));
        assert_eq!(check(guard, 12, reported).is_some(), blocks, "{guard:?}");
        // The block is dropped: later deletions are counted from scratch.
        assert_eq!(check(DeletionGuard::default(), 12, json!([])).is_some(), blocks, "{guard:?}");

        let mut rollout =
            Rollout::begin(DeletionGuard::default(), Digest::of(b"component"), [key("a")], 12, Some("before"));
        evaluated(&mut rollout, "a", 4);
        assert!(rollout.blocked().is_some());
        rollout.take_to_queue();
        rollout.adjust(guard);
        assert_eq!((rollout.blocked().is_some(), rollout.take_to_queue().is_empty()), (blocks, blocks), "{guard:?}");
        let begun = Rollout::begin(guard, Digest::of(b"component"), [key("a")], 12, Some("before"));
        assert_eq!(begun.is_complete(), !blocks, "{guard:?}");
    }
}

#[test]
fn r09_parent_with_few_children_is_not_guarded() {
    assert_eq!(blocked(3, 0), (None, 3));
    assert!(blocked(4, 0).0.is_some());
}

#[test]
fn r09_terminating_and_retained_children_are_not_counted() {
    let mut snapshot = snapshot(4, &json!({"observedGeneration": 3}), "");
    let mut leaving: Json = serde_json::from_slice(&snapshot.children[0].json.bytes()).expect("JSON");
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    snapshot.children[0] = object(&leaving);
    let mut first = plan(&snapshot, &Desired::default());
    assert_eq!((first.prunes.len(), apply_guard(&snapshot, &mut first)), (3, None));
    let mut kept = pod("kept");
    kept["metadata"]["annotations"] = json!({"windlass.dev/retain": "true"});
    snapshot.children.push(object(&created(&validate(&[kept]).expect("valid").children[0])));
    let mut second = plan(&snapshot, &Desired::default());
    assert_eq!((second.prunes.len(), apply_guard(&snapshot, &mut second)), (3, None));
}

#[test]
fn r09_blocked_deletions_leave_creates_and_updates_in_the_plan() {
    let snapshot = snapshot(4, &json!({"observedGeneration": 3}), "");
    let mut plan = plan(&snapshot, &desired_pods(&[7, 8]));
    let blocked = apply_guard(&snapshot, &mut plan).expect("blocked");
    assert_eq!((blocked.deletions, plan.counts()), (4, (2, 0, 0)));
}

#[test]
fn r09_scale_down_by_the_user_is_not_blocked() {
    let is_requested = |status: Json, shape: StatusShape| {
        let snapshot = snapshot(10, &status, "");
        cause(&snapshot, Phase::Sync, shape) == Cause::SpecChanged
    };
    assert!(is_requested(json!({"observedGeneration": 2}), SHAPE), "the spec changed since");
    assert!(!is_requested(json!({"observedGeneration": 3}), SHAPE));
    assert!(!is_requested(json!({}), SHAPE), "the status has no observedGeneration");
    assert!(!is_requested(json!({"observedGeneration": "2"}), SHAPE), "observedGeneration is not a number");
    let without = StatusShape { observed_generation: false, ..SHAPE };
    assert!(
        !is_requested(json!({"observedGeneration": 2}), without),
        "the schema has no observedGeneration, so the host did not write it"
    );
}

#[test]
fn r09_parent_without_generation_never_requests_deletions() {
    let mut snapshot = snapshot(10, &json!({"observedGeneration": 2}), "");
    let mut parent: Json = serde_json::from_slice(&snapshot.parent.json.bytes()).expect("JSON");
    parent["metadata"].as_object_mut().expect("metadata").remove("generation");
    snapshot.parent = object(&parent);
    assert_eq!(cause(&snapshot, Phase::Sync, SHAPE), Cause::Unchanged);
}

#[test]
fn r09_deletion_of_the_parent_permits_deletions_and_leaving_the_selector_does_not() {
    let mut snapshot = snapshot(10, &json!({"observedGeneration": 3}), "");
    assert_eq!(cause(&snapshot, Phase::Finalize, SHAPE), Cause::Unchanged, "the parent is not being deleted");
    let mut parent: Json = serde_json::from_slice(&snapshot.parent.json.bytes()).expect("JSON");
    parent["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    snapshot.parent = object(&parent);
    assert_eq!(cause(&snapshot, Phase::Finalize, SHAPE), Cause::Deleted);
}

#[test]
fn r09_annotation_allows_exactly_the_deletions_that_its_hash_names() {
    let status = json!({"observedGeneration": 3});
    let hash = blocked(10, 4).0.expect("blocked").hash;
    let is_blocked = |keep: &[usize]| {
        let snapshot = snapshot(10, &status, &hash);
        apply_guard(&snapshot, &mut plan(&snapshot, &desired_pods(keep))).is_some()
    };
    assert!(!is_blocked(&[0, 1, 2, 3]));
    assert!(is_blocked(&[0, 1, 2, 4]), "as many deletions, but of other children");
    assert!(is_blocked(&[0, 1, 2]), "one more");
}

#[test]
fn r09_rest_of_allowed_deletions_stays_allowed_while_the_annotation_is_set() {
    let status = json!({"observedGeneration": 3});
    let hash = blocked(10, 2).0.expect("blocked").hash;
    let mut parents = Parents::default();
    // Of p2 to p9, the first `gone` are deleted already.
    let is_blocked = |parents: &mut Parents, gone: usize, annotation: &str, keep: &[usize]| {
        let mut snapshot = snapshot(10, &status, annotation);
        snapshot.children.drain(2..2 + gone);
        apply_guard_in(parents, DeletionGuard::default(), &snapshot, &mut plan(&snapshot, &desired_pods(keep)))
            .is_some()
    };
    assert!(is_blocked(&mut parents, 2, &hash, &[0, 1]), "6 of 8, and the guard has not seen the allowed plan");
    assert!(!is_blocked(&mut parents, 0, &hash, &[0, 1]));
    assert!(!is_blocked(&mut parents, 2, &hash, &[0, 1]));
    assert!(is_blocked(&mut parents, 2, &hash, &[0]), "one more");
    assert!(is_blocked(&mut parents, 2, "another", &[0, 1]));
    // All allowed deletions are done, or the parent disappeared: later deletions are counted from scratch.
    for forget in [true, false] {
        assert!(!is_blocked(&mut parents, 0, &hash, &[0, 1]));
        if forget {
            parents.0.clear();
        } else {
            assert!(!is_blocked(&mut parents, 8, &hash, &[0, 1]));
        }
        assert!(is_blocked(&mut parents, 2, &hash, &[0, 1]));
    }
}

#[test]
fn r09_hash_of_blocked_deletions_depends_on_uids_and_not_on_their_order() {
    let mut prunes = prunes_of("a", 5);
    let hash = hash_of(&prunes);
    prunes.reverse();
    assert_eq!(hash_of(&prunes), hash);
    prunes[0].uid = Uid::from("another life");
    assert_ne!(hash_of(&prunes), hash);
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(Some("default"), name)
}

fn prunes_of(parent: &str, count: usize) -> Vec<Delete> {
    let kind = std::sync::Arc::new(Gvk::from_api_version("v1", "Pod"));
    (0..count)
        .map(|at| Delete {
            child: ChildId { kind: kind.clone(), key: key(&format!("{parent}-{at}")) },
            uid: Uid::from(format!("uid-of-{parent}-{at}").as_str()),
            resource_version: 1,
        })
        .collect()
}

/// A new version over these parents, which own three children each.
fn rollout(parents: &[&str]) -> Rollout {
    Rollout::begin(
        DeletionGuard::default(),
        Digest::of(b"component"),
        parents.iter().map(|name| key(name)),
        3 * parents.len(),
        None,
    )
}

fn evaluated(rollout: &mut Rollout, parent: &str, prunes: usize) -> RolloutDecision {
    rollout.evaluated(&key(parent), &prunes_of(parent, prunes), false)
}

fn hash_in(decision: RolloutDecision) -> String {
    let RolloutDecision::Blocked(blocked) = decision else { panic!("{decision:?}") };
    blocked.hash
}

#[test]
fn r09_component_that_would_delete_all_children_deletes_none() {
    let mut rollout = rollout(&["a", "b", "c", "d"]);
    for parent in ["a", "b", "c"] {
        assert_eq!(evaluated(&mut rollout, parent, 3), RolloutDecision::PutOff);
    }
    let last = evaluated(&mut rollout, "d", 3);
    assert!(
        matches!(&last, RolloutDecision::Blocked(blocked) if (blocked.deletions, blocked.children_total) == (12, 12)),
        "{last:?}"
    );
    let mut queued = rollout.take_to_queue();
    queued.sort();
    assert_eq!(queued, ["a", "b", "c"].map(key), "the parents that were evaluated before report the block, too");
    assert_eq!(evaluated(&mut rollout, "a", 3), last, "the decision stays the same");
    assert!(!rollout.is_complete());
}

#[test]
fn r09_deletions_by_a_new_component_proceed_if_they_are_few_in_total() {
    let mut rollout = rollout(&["a", "b", "c", "d"]);
    assert_eq!(evaluated(&mut rollout, "a", 3), RolloutDecision::PutOff);
    assert_eq!(evaluated(&mut rollout, "b", 2), RolloutDecision::PutOff);
    assert_eq!(evaluated(&mut rollout, "c", 0), RolloutDecision::Delete, "there is no deletion to put off");
    assert!(rollout.take_to_queue().is_empty());
    assert_eq!(evaluated(&mut rollout, "d", 1), RolloutDecision::Delete);
    let mut released = rollout.take_to_queue();
    released.sort();
    assert_eq!(released, ["a", "b"].map(key));
    assert!(rollout.is_complete());
    assert_eq!(evaluated(&mut rollout, "a", 3), RolloutDecision::Delete);
}

#[test]
fn r09_deletions_requested_by_a_user_neither_wait_nor_count() {
    let mut rollout = rollout(&["a", "b"]);
    assert_eq!(rollout.evaluated(&key("a"), &prunes_of("a", 3), true), RolloutDecision::Delete);
    assert_eq!(evaluated(&mut rollout, "b", 3), RolloutDecision::Delete, "a half is not more than 50 %");
}

#[test]
fn r09_rollout_does_not_wait_for_a_deleted_parent() {
    let mut rollout = rollout(&["a", "b"]);
    assert_eq!(evaluated(&mut rollout, "a", 3), RolloutDecision::PutOff);
    rollout.forget(&key("b"));
    assert_eq!(rollout.take_to_queue(), [key("a")]);
    assert!(rollout.is_complete());
}

#[test]
fn r09_parents_whose_calls_failed_count_once_a_call_succeeds() {
    let mut rollout = rollout(&["a", "b", "c", "d"]);
    for parent in ["a", "b", "c", "d"] {
        rollout.unplanned(&key(parent));
    }
    assert!(!rollout.is_complete());
    assert_eq!(evaluated(&mut rollout, "a", 3), RolloutDecision::Delete);
    assert_eq!(evaluated(&mut rollout, "b", 3), RolloutDecision::Delete, "half of the children so far");
    let hash = hash_in(evaluated(&mut rollout, "c", 3));
    assert_eq!(evaluated(&mut rollout, "b", 1), RolloutDecision::Delete, "this deletion was released before");
    let grown = hash_in(evaluated(&mut rollout, "d", 3));
    assert_ne!(hash, grown);
    rollout.allow(Some(&hash));
    assert!(rollout.blocked().is_some(), "the hash names fewer deletions");
    rollout.allow(Some(&grown));
    assert!(rollout.is_complete());
}

#[test]
fn r09_annotation_of_the_plugin_releases_exactly_the_deletions_that_its_hash_names() {
    let mut first = rollout(&["a", "b", "c"]);
    evaluated(&mut first, "a", 3);
    evaluated(&mut first, "b", 3);
    let hash = hash_in(evaluated(&mut first, "c", 1));
    first.take_to_queue();
    first.allow(Some("another"));
    assert_eq!(first.blocked().map(|blocked| &blocked.hash), Some(&hash));
    first.allow(Some(&hash));
    let mut released = first.take_to_queue();
    released.sort();
    assert_eq!((released, first.is_complete()), (["a", "b", "c"].map(key).to_vec(), true));

    let mut larger = rollout(&["a", "b", "c"]);
    larger.allow(Some(&hash));
    evaluated(&mut larger, "a", 3);
    evaluated(&mut larger, "b", 3);
    assert_ne!(hash_in(evaluated(&mut larger, "c", 2)), hash, "the hash allows one plan only");
    // A restarted host computes the same hash, and finds it allowed.
    let mut again = rollout(&["a", "b", "c"]);
    again.allow(Some(&hash));
    evaluated(&mut again, "a", 3);
    evaluated(&mut again, "c", 1);
    assert_eq!(evaluated(&mut again, "b", 3), RolloutDecision::Allowed);
}

#[test]
fn r09_hash_of_blocked_deletions_stays_while_parents_are_deleted() {
    let parents: Vec<String> = (0..10).map(|at| format!("p{at}")).collect();
    let mut rollout = rollout(&parents.iter().map(String::as_str).collect::<Vec<_>>());
    let hash = hash_in(parents.iter().map(|parent| evaluated(&mut rollout, parent, 3)).last().expect("some"));
    rollout.forget(&key("p0"));
    assert_eq!(rollout.blocked().map(|blocked| (&blocked.hash, blocked.deletions)), Some((&hash, 27)));
    for parent in &parents[1..5] {
        rollout.forget(&key(parent));
    }
    assert!(rollout.is_complete(), "the remaining deletions are half of the children");
}

#[test]
fn r09_rollout_of_a_plugin_with_few_children_is_complete_at_once() {
    let few = Rollout::begin(DeletionGuard::default(), Digest::of(b""), [key("a")], 3, None);
    assert!(few.is_complete());
    assert!(rollout(&[]).is_complete());
}

#[test]
fn r09_deletions_blocked_before_a_restart_are_blocked_after_it() {
    let mut again =
        Rollout::begin(DeletionGuard::default(), Digest::of(b"component"), ["a", "b"].map(key), 100, Some("before"));
    assert_eq!(evaluated(&mut again, "a", 1), RolloutDecision::PutOff);
    assert_eq!(evaluated(&mut again, "b", 0), RolloutDecision::Delete);
    assert_eq!(again.blocked().map(|blocked| (blocked.deletions, blocked.children_total)), Some((1, 100)));
    assert_eq!(evaluated(&mut again, "a", 0), RolloutDecision::Delete);
    assert!(again.is_complete(), "the response no longer drops the child");
}

#[test]
fn r09_block_lasts_until_it_is_decided_and_the_next_rollout_begins_with_it() {
    let begin = |was_blocked: Option<&str>| {
        Rollout::begin(DeletionGuard::default(), Digest::of(b"component"), ["a", "b"].map(key), 100, was_blocked)
    };
    let mut first = begin(Some("before"));
    assert_eq!((first.blocked_hash(), first.blocked()), (Some("before"), None), "no parent was evaluated yet");
    evaluated(&mut first, "a", 1);
    first.unplanned(&key("b"));
    let hash = first.blocked().expect("blocked").hash.clone();
    assert_eq!(first.blocked_hash(), Some(&*hash), "the hash is the one that allows the deletions now");

    let mut second = begin(first.blocked_hash());
    second.unplanned(&key("a"));
    second.unplanned(&key("b"));
    assert_eq!(
        (second.blocked_hash(), second.blocked()),
        (Some(&*hash), None),
        "no deletion waits, but no parent was evaluated"
    );
    evaluated(&mut second, "a", 0);
    evaluated(&mut second, "b", 0);
    assert_eq!(second.blocked_hash(), None, "no response drops children any longer");

    first.allow(Some(&hash));
    assert_eq!(first.blocked_hash(), None, "allowed, although b was not evaluated");
    assert_eq!(begin(None).blocked_hash(), None);
}

#[test]
fn r09_allowed_deletions_do_not_count_against_later_deletions() {
    for was_blocked in [Some("before"), None] {
        let parents = ["a", "b", "c", "d", "stalled"].map(key);
        let mut rollout = Rollout::begin(DeletionGuard::default(), Digest::of(b"component"), parents, 15, was_blocked);
        rollout.unplanned(&key("stalled"));
        for parent in ["a", "b", "c"] {
            evaluated(&mut rollout, parent, 3);
        }
        let hash = hash_in(evaluated(&mut rollout, "d", 3));
        rollout.allow(Some(&hash));
        assert!(!rollout.is_complete(), "the stalled parent may still drop children");
        assert_eq!(evaluated(&mut rollout, "new", 1), RolloutDecision::Delete);
    }
}

#[test]
fn r09_creates_made_while_deletions_wait_do_not_release_the_deletions_later() {
    let unchanged = json!({"observedGeneration": 3});
    let parents = ["hello", "other"].map(key);
    let rollout = Rollout::begin(DeletionGuard::default(), Digest::of(b"component"), parents, 100, None);
    let mut fleet = Fleet::new(rollout);
    let mut blocked = Parents::default();
    let mut stop = |fleet: &mut Fleet, pods: usize| {
        let snapshot = snapshot(pods, &unchanged, "");
        let mut plan = plan(&snapshot, &desired_pods(&[4, 5, 6, 7, 8, 9, 10, 11]));
        let stop = judged(fleet, &mut blocked, DeletionGuard::default(), &snapshot, &mut plan);
        assert!(plan.prunes.is_empty());
        stop
    };
    assert_eq!(stop(&mut fleet, 4), Some(Stop::PutOff));
    fleet.forget(&key("other"));
    let stop = stop(&mut fleet, 12);
    assert!(matches!(&stop, Some(Stop::AtParent(blocked)) if blocked.deletions == 4), "{stop:?}");
}

#[test]
fn r09_deletions_blocked_at_the_plugin_are_removed_from_the_plan() {
    let unchanged = json!({"observedGeneration": 3});
    let rollout = Rollout::begin(DeletionGuard::default(), Digest::of(b"component"), [key("hello")], 3, Some("before"));
    let snapshot = snapshot(3, &unchanged, "");
    let mut plan = plan(&snapshot, &Desired::default());
    let guard = DeletionGuard::default();
    let judged = judged(&mut Fleet::new(rollout), &mut Parents::default(), guard, &snapshot, &mut plan);
    assert!(matches!(&judged, Some(Stop::AtPlugin(blocked)) if blocked.deletions == 3), "{judged:?}");
    assert!(plan.is_empty());
}

/// A parent in a fleet under a new component, with this many Pods of its own.
fn fleet_parent(name: &str, pods: usize, status: &Json, annotation: &str) -> Snapshot {
    let uid = format!("uid-of-{name}");
    let mut parent: Json = serde_json::from_slice(&parent_with(status).json.bytes()).expect("JSON");
    parent["metadata"]["name"] = json!(name);
    parent["metadata"]["uid"] = json!(uid);
    parent["metadata"]["annotations"] = json!({"windlass.dev/allow-deletion": annotation});
    let parent = object(&parent);
    let children = desired_pods(&(0..pods).collect::<Vec<_>>()).children.into_iter().map(|child| {
        let mut live: Json = created(&child);
        live["metadata"]["name"] = json!(format!("{name}-{}", child.key.name));
        live["metadata"]["uid"] = json!(format!("uid-of-{name}-{}", child.key.name));
        live["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        live["metadata"]["labels"]["windlass.dev/parent-uid"] = json!(uid);
        live["metadata"]["ownerReferences"][0]["uid"] = json!(uid);
        object(&live)
    });
    Snapshot::new(
        ParentRef::of(&parent_ref().plugin, &parent, None),
        parent,
        children.collect::<Vec<_>>(),
        None,
        |_| false,
    )
}

/// A plan that deletes the first `count` children.
fn dropping(snapshot: &Snapshot, count: usize) -> Plan {
    Plan { prunes: snapshot.children.iter().take(count).map(|child| Delete::of(child)).collect(), ..Plan::default() }
}

fn fleet_of(parents: &[&str], owned: usize) -> Fleet {
    let parents = parents.iter().map(|name| key(name));
    Fleet::new(Rollout::begin(DeletionGuard::default(), Digest::of(b"component"), parents, owned, None))
}

/// The status of a parent whose spec changed since its last reconcile, because its user changed it or because its last
/// reconcile failed.
const CHANGED: &str = r#"{"observedGeneration": 2}"#;
const UNCHANGED: &str = r#"{"observedGeneration": 3}"#;

fn status(text: &str) -> Json {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn r09_guard_of_a_new_component_counts_parents_whose_spec_changed_or_that_fail() {
    let mut fleet = fleet_of(&["a", "b"], 12);
    let mut parents = Parents::default();
    let guard = DeletionGuard::default();
    let mut stops = Vec::new();
    for (name, status_text) in [("a", CHANGED), ("b", UNCHANGED), ("a", CHANGED)] {
        let snapshot = fleet_parent(name, 6, &status(status_text), "");
        let mut plan = dropping(&snapshot, 6);
        stops.push(judged(&mut fleet, &mut parents, guard, &snapshot, &mut plan));
        assert!(plan.is_empty(), "{name} deletes");
    }
    assert_eq!(stops[0], Some(Stop::PutOff));
    for stop in &stops[1..] {
        assert!(
            matches!(stop, Some(Stop::AtPlugin(blocked)) if (blocked.deletions, blocked.children_total) == (12, 12)),
            "{stop:?}"
        );
    }
}

#[test]
fn r09_scale_down_by_user_is_not_blocked_once_the_new_component_was_called_for_that_parent() {
    let mut fleet = fleet_of(&["a", "b"], 12);
    let (mut parents, guard) = (Parents::default(), DeletionGuard::default());
    let steady = fleet_parent("a", 6, &status(UNCHANGED), "");
    assert_eq!(judged(&mut fleet, &mut parents, guard, &steady, &mut dropping(&steady, 0)), None);
    let scaled_down = fleet_parent("a", 6, &status(CHANGED), "");
    assert_eq!(judged(&mut fleet, &mut parents, guard, &scaled_down, &mut dropping(&scaled_down, 5)), None);
}

#[test]
fn r09_new_component_that_drops_most_children_of_a_parent_is_blocked_also_after_a_spec_change() {
    let mut fleet = fleet_of(&["a", "b"], 106);
    let (mut parents, guard) = (Parents::default(), DeletionGuard::default());
    let snapshot = fleet_parent("a", 6, &status(CHANGED), "");
    let mut judge = |fleet: &mut Fleet| judged(fleet, &mut parents, guard, &snapshot, &mut dropping(&snapshot, 6));
    assert_eq!(judge(&mut fleet), Some(Stop::PutOff));
    fleet.forget(&key("b"));
    for _ in 0..2 {
        let stop = judge(&mut fleet);
        assert!(
            matches!(&stop, Some(Stop::AtParent(blocked)) if blocked.because == BlockReason::NewComponent),
            "{stop:?}"
        );
    }
    // Another process reads the block from the status.
    let Some(Stop::AtParent(blocked)) = judge(&mut fleet) else { panic!("not blocked") };
    let mut reported = status(CHANGED);
    reported["conditions"] = conditions_of(&Problem::DeletionsBlocked(blocked));
    let snapshot = fleet_parent("a", 6, &reported, "");
    let known = Rollout::begin(guard, Digest::of(b"component"), [], 106, None);
    let record = known.record();
    let mut fleet = Fleet::new(known.after(Some(&record), Timestamp::UNIX_EPOCH));
    let mut plan = dropping(&snapshot, 6);
    let stop = judged(&mut fleet, &mut Parents::default(), guard, &snapshot, &mut plan);
    assert!(matches!(&stop, Some(Stop::AtParent(_))) && plan.is_empty(), "{stop:?}");
}

#[test]
fn r09_replacements_by_a_new_component_count_as_deletions_and_those_by_a_user_do_not() {
    let guard = DeletionGuard::default();
    let replacing = |snapshot: &Snapshot| Plan {
        writes: snapshot.children.iter().map(|child| Write::Replace(Delete::of(child))).collect(),
        ..Plan::default()
    };
    let snapshot = fleet_parent("a", 6, &status(CHANGED), "");
    let mut fleet = fleet_of(&["a"], 6);
    let mut plan = replacing(&snapshot);
    let stop = judged(&mut fleet, &mut Parents::default(), guard, &snapshot, &mut plan);
    assert!(matches!(&stop, Some(Stop::AtPlugin(blocked)) if blocked.deletions == 6), "{stop:?}");
    assert!(plan.is_empty());
    let mut plan = replacing(&snapshot);
    let mut known = fleet_of(&[], 6);
    assert_eq!(judged(&mut known, &mut Parents::default(), guard, &snapshot, &mut plan), None);
    assert_eq!(plan.writes.len(), 6);
}

#[test]
fn r09_blocked_replacements_stay_blocked_after_a_restart() {
    let guard = DeletionGuard::default();
    let snapshot = |status: &Json| fleet_parent("a", 6, status, "");
    let replacing = |snapshot: &Snapshot, prunes: usize| Plan {
        writes: snapshot.children.iter().skip(prunes).map(|child| Write::Replace(Delete::of(child))).collect(),
        ..dropping(snapshot, prunes)
    };
    for (prunes, status_text) in [(0, UNCHANGED), (4, UNCHANGED), (0, CHANGED), (4, CHANGED)] {
        let mut reported = status(status_text);
        let first = snapshot(&reported);
        let (mut own, mut plan) = (ParentDeletions::default(), replacing(&first, prunes));
        own.blocked = Some(Blocked { uid: first.parent.uid.clone(), because: BlockReason::NewComponent });
        let unchanged = || Cause::Unchanged;
        let stop = guard_plan(&mut fleet_of(&[], 6), (&mut own, guard), &first, unchanged, Leavers::default, &mut plan);
        let Some(Stop::AtParent(blocked)) = stop else { panic!("{stop:?}") };
        assert_eq!(blocked.deletions, 6, "{prunes} {status_text}");
        // The next process knows the block from the status alone.
        reported["conditions"] = conditions_of(&Problem::DeletionsBlocked(blocked));
        let second = snapshot(&reported);
        let mut plan = replacing(&second, prunes);
        let stop = judged(&mut fleet_of(&[], 6), &mut Parents::default(), guard, &second, &mut plan);
        assert!(matches!(&stop, Some(Stop::AtParent(blocked)) if blocked.deletions == 6), "{prunes} {stop:?}");
        assert!(plan.is_empty(), "{prunes} {status_text}");
    }
}

#[test]
fn r09_leaving_the_selector_is_no_request_for_deletions_whether_or_not_the_spec_changed() {
    let guard = DeletionGuard::default();
    for status_text in [CHANGED, UNCHANGED, "{}"] {
        let snapshot = fleet_parent("a", 6, &status(status_text), "");
        let mut plan = dropping(&snapshot, 6);
        let mut own = ParentDeletions::default();
        let stop = guard_plan(
            &mut fleet_of(&[], 6),
            (&mut own, guard),
            &snapshot,
            || Cause::LeftSelector,
            Leavers::default,
            &mut plan,
        );
        assert!(matches!(&stop, Some(Stop::AtParent(blocked)) if blocked.because == BlockReason::Left), "{stop:?}");
        assert!(plan.is_empty(), "{status_text}");
    }
}

#[test]
fn r09_namespace_that_leaves_the_selector_is_blocked_as_a_whole_and_released_by_one_annotation() {
    let names = ["a", "b", "c"];
    // These parents are a small part of a fleet of thousands.
    let mut fleet = fleet_of(&[], 10_000);
    let mut parents = Parents::default();
    let guard = DeletionGuard::default();
    let leavers = || Leavers { parents: names.map(key).to_vec(), owned: 6 };
    // Each parent has too few children for a guard of its own.
    let mut leave = |fleet: &mut Fleet, name: &str, cause: Cause| {
        let snapshot = fleet_parent(name, 2, &status(CHANGED), "");
        let mut plan = dropping(&snapshot, if cause == Cause::LeftNamespaces { 2 } else { 0 });
        let stop = guard_plan(fleet, (parents.of(&snapshot), guard), &snapshot, || cause, leavers, &mut plan);
        (stop, plan.prunes.len())
    };
    assert_eq!(leave(&mut fleet, "a", Cause::LeftNamespaces), (Some(Stop::PutOff), 0));
    assert_eq!(fleet.take_to_queue().len(), 2, "the other parents of the namespace are queued");
    assert_eq!(leave(&mut fleet, "b", Cause::LeftNamespaces), (Some(Stop::PutOff), 0));
    let (stop, prunes) = leave(&mut fleet, "c", Cause::LeftNamespaces);
    assert!(matches!(&stop, Some(Stop::AtPlugin(blocked)) if blocked.deletions == 6), "{stop:?}");
    assert_eq!(prunes, 0);
    let hash = fleet.blocked().expect("blocked").hash.clone();
    fleet.allow(Some("another"));
    let message = fleet.blocked().expect("blocked").message_for_plugin(&parent_ref().plugin);
    assert!(message.contains(r#"value "another" does not match"#) && !message.contains("rollback"), "{message}");
    fleet.allow(Some(&hash));
    assert_eq!(fleet.blocked(), None);
    for name in names {
        assert_eq!(leave(&mut fleet, name, Cause::LeftNamespaces), (None, 2), "{name}");
        assert_eq!(leave(&mut fleet, name, Cause::LeftNamespaces), (None, 2), "the rest stays allowed");
    }
    // The namespace leaves once more, and is selected again before the deletions were allowed.
    fleet.allow(None);
    for name in names {
        leave(&mut fleet, name, Cause::Unchanged);
        leave(&mut fleet, name, Cause::LeftNamespaces);
    }
    assert!(fleet.blocked().is_some());
    for name in names {
        leave(&mut fleet, name, Cause::Unchanged);
    }
    assert_eq!(fleet.blocked(), None);
}

#[test]
fn r09_leaving_parents_that_finalize_first_requeue_no_other_parent_and_count_when_they_delete() {
    let mut fleet = fleet_of(&[], 10_000);
    let (mut parents, guard) = (Parents::default(), DeletionGuard::default());
    let leavers = || Leavers { parents: ["a", "b"].map(key).to_vec(), owned: 4 };
    let mut leave = |fleet: &mut Fleet, name: &str, drops: usize| {
        let snapshot = fleet_parent(name, 2, &status(CHANGED), "");
        let mut plan = dropping(&snapshot, drops);
        let stop =
            guard_plan(fleet, (parents.of(&snapshot), guard), &snapshot, || Cause::LeftNamespaces, leavers, &mut plan);
        (stop, plan.prunes.len())
    };
    assert_eq!(leave(&mut fleet, "a", 2), (Some(Stop::PutOff), 0));
    assert_eq!(fleet.take_to_queue(), [key("b")]);
    assert_eq!(leave(&mut fleet, "b", 0), (None, 0), "its plugin cleans up first");
    assert_eq!(fleet.take_to_queue(), [key("a")], "2 of 4 may go");
    assert_eq!(leave(&mut fleet, "a", 2), (None, 2));
    assert_eq!(fleet.take_to_queue(), [], "no parent is queued repeatedly");
    assert_eq!(leave(&mut fleet, "b", 0), (None, 0));
    let (stop, prunes) = leave(&mut fleet, "b", 2);
    assert!(
        matches!(&stop, Some(Stop::AtPlugin(_))) && prunes == 0,
        "with those of a, all children would be deleted: {stop:?}"
    );
}

/// The fleet of a host that has a share of the parents, under a rollout that the leader has decided, or not yet.
fn fleet_of_share(is_decided: bool) -> Fleet {
    let version = Digest::of(b"component");
    let rollout = RolloutRecord { hash: version.short(), is_decided, began: None };
    Fleet::of_share(DeletionGuard::default(), version, rollout)
}

/// Applies the guard to a parent with this many Pods, of which this many would be deleted for this cause.
fn stop(fleet: &mut Fleet, (pods, drops): (usize, usize), seen: &str, cause: Cause) -> (Option<Stop>, usize) {
    let snapshot = fleet_parent("a", pods, &status(seen), "");
    let (mut plan, mut own) = (dropping(&snapshot, drops), ParentDeletions::default());
    let guard = DeletionGuard::default();
    let stop = guard_plan(fleet, (&mut own, guard), &snapshot, || cause, Leavers::default, &mut plan);
    (stop, plan.prunes.len())
}

#[test]
fn h03_host_with_a_share_leaves_deletions_of_many_parents_to_the_leader_and_decides_those_of_one_parent() {
    let decided = &mut fleet_of_share(true);
    assert_eq!(stop(decided, (2, 2), UNCHANGED, Cause::Unchanged), (None, 2), "few children need no guard");
    assert!(matches!(stop(decided, (6, 6), UNCHANGED, Cause::Unchanged), (Some(Stop::AtParent(_)), 0)));
    assert!(matches!(stop(decided, (6, 6), UNCHANGED, Cause::LeftSelector), (Some(Stop::AtParent(_)), 0)));
    assert_eq!(stop(decided, (6, 6), CHANGED, Cause::SpecChanged), (None, 6), "a user asked");
    assert_eq!(stop(decided, (2, 2), UNCHANGED, Cause::LeftNamespaces), (Some(Stop::ForLeader), 0));

    // New children would make the same deletions a smaller share, so they wait for the leader as well.
    let renamed = fleet_parent("a", 2, &status(UNCHANGED), "");
    let mut plan = plan(&renamed, &desired_pods(&[7, 8]));
    assert!(!plan.writes.is_empty() && !plan.prunes.is_empty());
    let (guard, mut own) = (DeletionGuard::default(), ParentDeletions::default());
    guard_plan(decided, (&mut own, guard), &renamed, || Cause::LeftNamespaces, Leavers::default, &mut plan);
    assert!(plan.is_empty());

    // The leader's rollout waits for other parents, whose reconciles fail.
    let undecided = &mut fleet_of_share(false);
    assert_eq!(stop(undecided, (2, 0), UNCHANGED, Cause::Unchanged), (None, 0));
    assert_eq!(stop(undecided, (2, 1), UNCHANGED, Cause::Unchanged), (Some(Stop::ForLeader), 0));
    assert_eq!(stop(undecided, (2, 1), CHANGED, Cause::SpecChanged), (Some(Stop::ForLeader), 0));
    assert_eq!(stop(undecided, (2, 2), UNCHANGED, Cause::Deleted), (None, 2));
}

#[test]
fn h03_leader_keeps_all_parents_as_long_as_a_host_with_a_share_would_leave_one_to_it() {
    let mut fleet = fleet_of(&[], 10_000);
    assert!(fleet.is_settled());
    fleet.evaluated(
        DeletionGuard::default(),
        &key("a"),
        &prunes_of("a", 2),
        (false, Cause::LeftNamespaces),
        true,
        || Leavers { parents: vec![key("a")], owned: 2 },
    );
    assert!(!fleet.is_settled());
    fleet.forget(&key("a"));
    assert!(fleet.is_settled());
    let mut undecided = fleet_of(&["a", "failing"], 10_000);
    assert!(!undecided.is_settled(), "no parent was evaluated");
    undecided.unplanned(&key("failing"));
    assert_eq!(stop(&mut undecided, (2, 0), UNCHANGED, Cause::Unchanged), (None, 0));
    assert!(!undecided.is_settled(), "the deletions of the failing parent would be the component's");
    undecided.forget(&key("failing"));
    assert!(undecided.is_settled());
}

#[test]
fn r09_suspended_parent_that_left_the_selector_counts_once_it_is_resumed() {
    let mut fleet = fleet_of(&["a", "b", "c"], 9);
    let (mut parents, guard) = (Parents::default(), DeletionGuard::default());
    let mut leave = |fleet: &mut Fleet, name: &str| {
        let snapshot = fleet_parent(name, 3, &status(UNCHANGED), "");
        let mut plan = dropping(&snapshot, 3);
        let stop = guard_plan(
            fleet,
            (parents.of(&snapshot), guard),
            &snapshot,
            || Cause::LeftSelector,
            Leavers::default,
            &mut plan,
        );
        (stop, plan.prunes.len())
    };
    leave(&mut fleet, "a");
    leave(&mut fleet, "b");
    let (stop, _) = leave(&mut fleet, "c");
    assert!(matches!(stop, Some(Stop::AtPlugin(_))), "{stop:?}");
    let blocked = fleet.blocked().expect("blocked").hash.clone();
    for name in ["a", "b", "c"] {
        fleet.unplanned(&key(name));
    }
    assert_eq!(
        fleet.blocked().map(|blocked| blocked.hash.clone()),
        Some(blocked),
        "the block did not change meanwhile"
    );
    for name in ["a", "b", "c"] {
        let (stop, prunes) = leave(&mut fleet, name);
        assert!(matches!(stop, Some(Stop::AtPlugin(_))) && prunes == 0, "{stop:?}");
    }
}

#[test]
fn r09_annotation_of_the_plugin_covers_the_guard_of_each_parent_and_nothing_more() {
    let mut fleet = fleet_of(&["a", "b"], 12);
    let (mut parents, guard) = (Parents::default(), DeletionGuard::default());
    let mut judge = |fleet: &mut Fleet, name: &str, pods: usize, drops: usize| {
        let snapshot = fleet_parent(name, pods, &status(UNCHANGED), "");
        let mut plan = dropping(&snapshot, drops);
        judged(fleet, &mut parents, guard, &snapshot, &mut plan)
    };
    judge(&mut fleet, "a", 6, 5);
    judge(&mut fleet, "b", 6, 5);
    let hash = fleet.blocked().expect("blocked").hash.clone();
    fleet.allow(Some(&hash));
    assert_eq!(judge(&mut fleet, "a", 6, 5), None, "the Plugin's annotation allows 5 of 6");
    assert_eq!(judge(&mut fleet, "a", 6, 5), None, "a second attempt stays allowed");
    let more = judge(&mut fleet, "b", 6, 6);
    assert!(matches!(more, Some(Stop::AtParent(_))), "the response drops more than was allowed: {more:?}");
}

#[test]
fn r09_children_created_during_an_undecided_rollout_do_not_count_after_a_restart_or_second_push() {
    let guard = DeletionGuard::default();
    let parents = ["a", "b"].map(key);
    let begun: Timestamp = "2026-01-01T00:01:00Z".parse().expect("a time");
    let first = Rollout::begin(guard, Digest::of(b"first"), parents.clone(), 12, None).after(None, begun);
    let record = first.record();
    assert_eq!((record.is_decided, record.began), (false, Some((12, begun))));
    let later: Timestamp = "2026-01-01T00:09:00Z".parse().expect("a time");
    for component in ["first", "second"] {
        // Each response renames all children: as many children were created as are to be deleted.
        let mut again = Rollout::begin(guard, Digest::of(component.as_bytes()), parents.clone(), 24, None)
            .after(Some(&record), later);
        assert_eq!(again.record().began, Some((12, begun)), "the recorded start stays");
        again.evaluated(&key("a"), &prunes_of("a", 6), false);
        let decision = again.evaluated(&key("b"), &prunes_of("b", 6), false);
        assert!(matches!(decision, RolloutDecision::Blocked(_)), "12 of the 12 children at the start: {decision:?}");
    }
    // The same holds for each parent on its own in a large fleet.
    let mut fleet = Fleet::new(
        Rollout::begin(guard, Digest::of(b"first"), parents, 2400, None)
            .after(Some(&RolloutRecord { began: Some((1200, begun)), ..record }), later),
    );
    fleet.forget(&key("b"));
    let mut snapshot = fleet_parent("a", 6, &status(UNCHANGED), "");
    for at in 0..6 {
        let mut live: Json = serde_json::from_slice(&snapshot.children[at].json.bytes()).expect("JSON");
        live["metadata"]["creationTimestamp"] = json!("2026-01-01T00:02:00Z");
        live["metadata"]["name"] = json!(format!("new-{at}"));
        snapshot.children.push(object(&live));
    }
    let stop = judged(&mut fleet, &mut Parents::default(), guard, &snapshot, &mut dropping(&snapshot, 6));
    assert!(matches!(&stop, Some(Stop::AtParent(blocked)) if blocked.deletions == 6), "{stop:?}");
}

#[test]
fn r09_rollout_that_only_waits_for_a_failing_parent_records_no_start() {
    let guard = DeletionGuard::default();
    let mut rollout = Rollout::begin(guard, Digest::of(b"component"), ["a", "b"].map(key), 12, None);
    rollout.unplanned(&key("a"));
    evaluated(&mut rollout, "b", 0);
    assert_eq!((rollout.record().is_decided, rollout.record().began), (false, None));
    evaluated(&mut rollout, "a", 0);
    assert!(rollout.record().is_decided);
}

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
            let cause = || if has_left { Cause::LeftSelector } else { cause(&snapshot, Phase::Sync, SHAPE) };
            guard_plan(&mut fleet, (parents.of(&snapshot), guard), &snapshot, cause, Leavers::default, &mut plan);
            fleet.take_to_queue();
            let deleted = deletions(&plan, true).into_owned();
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
