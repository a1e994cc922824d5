//! The guard of the parents of a Plugin, as reconciles meet it.

use super::*;

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
    let mut snapshot = fleet_parent("a", 6, &status(UNCHANGED), "");
    for at in 0..6 {
        let mut live: Json = serde_json::from_slice(&snapshot.children[at].json.bytes()).expect("JSON");
        live["metadata"]["creationTimestamp"] = json!("2026-01-01T00:02:00Z");
        live["metadata"]["name"] = json!(format!("new-{at}"));
        snapshot.children.push(object(&live));
    }
    let record = RolloutRecord { began: Some((1200, begun)), ..record };
    let judge = |drops| {
        let again = Rollout::begin(guard, Digest::of(b"first"), parents.clone(), 2400, None);
        let mut fleet = Fleet::new(again.after(Some(&record), later));
        fleet.forget(&key("b"));
        judged(&mut fleet, &mut Parents::default(), guard, &snapshot, &mut dropping(&snapshot, drops))
    };
    assert_eq!(judge(3), None, "half of the 6 children at the start");
    let stop = judge(6);
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
