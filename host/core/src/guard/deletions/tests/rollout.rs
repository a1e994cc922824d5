//! The guard of a rollout: deletions of all parents together.

use super::*;

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
    for parent in &parents[1..9] {
        rollout.forget(&key(parent));
    }
    // Nobody has asked for the rest, few as it is by now.
    assert_eq!(rollout.blocked().map(|blocked| (&blocked.hash, blocked.deletions)), Some((&hash, 3)));
    rollout.forget(&key("p9"));
    assert!(rollout.is_complete());
}

#[test]
fn r09_hash_of_blocked_deletions_is_the_same_in_a_host_that_did_not_see_those_that_were_allowed_before() {
    let begin = |parents: &[&str], was_blocked| {
        let parents = parents.iter().map(|name| key(name));
        Rollout::begin(DeletionGuard::default(), Digest::of(b"component"), parents, 12, was_blocked)
    };
    let mut rollout = begin(&["a", "stalled"], Some("before"));
    rollout.unplanned(&key("stalled"));
    let first = hash_in(evaluated(&mut rollout, "a", 3));
    rollout.allow(Some(&first));
    assert_eq!(evaluated(&mut rollout, "a", 3), RolloutDecision::Allowed);
    let second = hash_in(evaluated(&mut rollout, "stalled", 9));
    assert_eq!(second, hash_in(evaluated(&mut begin(&["stalled"], None), "stalled", 9)));
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
