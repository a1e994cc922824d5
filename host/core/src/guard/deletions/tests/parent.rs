//! The guard of one parent.

use super::*;

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
    let decided = parents.of(&first).blocked_by_last_plan(&first.parent);
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
    assert_eq!((nothing, parents.of(&later).blocked_by_last_plan(&later.parent)), (None, None));
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

        for (deletions, was_blocked) in [(4, Some("before")), (12, None)] {
            let mut rollout =
                Rollout::begin(DeletionGuard::default(), Digest::of(b"component"), [key("a")], 12, was_blocked);
            evaluated(&mut rollout, "a", deletions);
            assert!(rollout.blocked().is_some());
            rollout.take_to_queue();
            rollout.adjust(guard);
            assert_eq!(
                (rollout.blocked().is_some(), rollout.take_to_queue().is_empty()),
                (blocks, blocks),
                "{guard:?}"
            );
        }
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
        cause(&snapshot, Phase::Sync, shape, None) == Cause::SpecChanged
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
fn c9_scale_down_of_a_parent_whose_status_the_host_does_not_write_is_seen() {
    let snapshot = snapshot(10, &json!({}), "");
    let parent = |change: &dyn Fn(&mut Json)| {
        let mut parent: Json = serde_json::from_slice(&snapshot.parent.json.bytes()).expect("JSON");
        change(&mut parent);
        object(&parent)
    };
    let is_requested = |before: &Object, now: Arc<Object>| {
        let snapshot = Snapshot { parent: now, ..snapshot.clone() };
        cause(&snapshot, Phase::Sync, StatusShape::NONE, Some(SpecHash::of(before))) == Cause::SpecChanged
    };
    let scaled = parent(&|parent| parent["spec"]["replicas"] = 2.into());
    let labelled = parent(&|parent| parent["metadata"]["labels"] = json!({"a": "b"}));
    assert!(is_requested(&snapshot.parent, scaled.clone()));
    assert!(!is_requested(&snapshot.parent, labelled), "a label is no spec");
    let annotated = parent(&|parent| parent["metadata"]["generation"] = 4.into());
    assert!(!is_requested(&snapshot.parent, annotated), "an annotation of a Deployment is a new generation");
    let restarted = Snapshot { parent: scaled, ..snapshot.clone() };
    assert_eq!(cause(&restarted, Phase::Sync, StatusShape::NONE, None), Cause::Unchanged, "nothing is known");
    let without = |data: &str| {
        parent(&|parent| {
            parent["metadata"].as_object_mut().expect("metadata").remove("generation");
            parent["data"] = json!({ "size": data });
        })
    };
    assert!(is_requested(&without("3"), without("1")), "a ConfigMap has no generation");
    assert!(!is_requested(&without("3"), without("3")));
}

#[test]
fn r09_parent_without_generation_never_requests_deletions_by_its_status() {
    let mut snapshot = snapshot(10, &json!({"observedGeneration": 2}), "");
    let mut parent: Json = serde_json::from_slice(&snapshot.parent.json.bytes()).expect("JSON");
    parent["metadata"].as_object_mut().expect("metadata").remove("generation");
    snapshot.parent = object(&parent);
    assert_eq!(cause(&snapshot, Phase::Sync, SHAPE, None), Cause::Unchanged);
}

#[test]
fn r09_deletion_of_the_parent_permits_deletions_and_leaving_the_selector_does_not() {
    let mut snapshot = snapshot(10, &json!({"observedGeneration": 3}), "");
    assert_eq!(cause(&snapshot, Phase::Finalize, SHAPE, None), Cause::Unchanged, "the parent is not being deleted");
    let mut parent: Json = serde_json::from_slice(&snapshot.parent.json.bytes()).expect("JSON");
    parent["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    snapshot.parent = object(&parent);
    assert_eq!(cause(&snapshot, Phase::Finalize, SHAPE, None), Cause::Deleted);
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
