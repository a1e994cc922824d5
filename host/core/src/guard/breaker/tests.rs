use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::contract::desired::Desired;
use crate::fixtures::{created, object, parent, plan, pod, snapshot, validate};
use crate::reconcile::plan::Write;
use crate::value::ids::Uid;

/// A breaker whose time is given in seconds since its start.
struct Clock {
    breaker: Breaker,
    start: Instant,
    parent: Object,
}

impl Clock {
    fn new() -> Self {
        Self { breaker: Breaker::default(), start: Instant::now(), parent: Object::clone(&parent()) }
    }

    fn at(&self, second: u64) -> Instant {
        self.start + Duration::from_secs(second)
    }

    fn write(&mut self, name: &str, second: u64) -> Result<(), u64> {
        let now = self.at(second);
        let kind = Gvk::from_api_version("v1", "Pod");
        let key = ObjectKey::new(Some("default"), name);
        self.breaker.admit(ParentRevision::of(&self.parent), &kind, &key, now).map_err(|wait| wait.as_secs())
    }

    fn trip(&mut self) {
        assert_eq!((0..10).map(|second| self.write("a", second)).collect::<Vec<_>>(), [Ok(()); 10]);
        assert_eq!(self.write("a", 10), Err(59), "a minute after the last write");
    }

    fn remembered(&self) -> usize {
        self.breaker.younger.len() + self.breaker.older.len() + self.breaker.tripped.len()
    }
}

#[test]
fn r18_eleventh_write_within_a_minute_waits_and_then_one_write_a_minute_is_admitted() {
    let mut clock = Clock::new();
    clock.trip();
    assert_eq!(clock.write("a", 68), Err(1));
    assert_eq!(clock.write("a", 69), Ok(()));
    assert_eq!(clock.write("a", 70), Err(59));
    assert_eq!(clock.write("a", 129), Ok(()));
}

#[test]
fn r18_writes_that_the_api_server_refuses_are_not_counted() {
    let mut clock = Clock::new();
    let child = ChildId { kind: Gvk::from_api_version("v1", "Pod").into(), key: ObjectKey::new(Some("default"), "a") };
    for second in 0..30 {
        assert_eq!(clock.write("a", second), Ok(()), "{second}");
        let parent = clock.parent.clone();
        clock.breaker.take_back(ParentRevision::of(&parent), &child);
    }
    assert_eq!(clock.remembered(), 0);
    assert_eq!((30..40).map(|second| clock.write("a", second)).collect::<Vec<_>>(), [Ok(()); 10]);
    let parent = clock.parent.clone();
    clock.breaker.take_back(ParentRevision::of(&parent), &child);
    assert_eq!(clock.write("a", 40), Ok(()), "nine of the ten count");
    assert_eq!(clock.write("a", 41), Err(59), "ten count");
    clock.breaker.take_back(ParentRevision::of(&parent), &child);
    assert_eq!(clock.write("a", 42), Err(58), "a tripped breaker stays so");
}

#[test]
fn r18_five_minutes_of_refusals_alone_reset_the_breaker() {
    let mut clock = Clock::new();
    clock.trip();
    let child = ChildId { kind: Gvk::from_api_version("v1", "Pod").into(), key: ObjectKey::new(Some("default"), "a") };
    let parent = clock.parent.clone();
    for minute in 0..4 {
        assert_eq!(clock.write("a", 69 + 60 * minute), Ok(()), "{minute}");
        clock.breaker.take_back(ParentRevision::of(&parent), &child);
        assert_eq!(clock.write("a", 70 + 60 * minute), Err(59), "{minute}");
    }
    assert_eq!(clock.write("a", 309), Ok(()), "the API server accepts this one");
    for minute in 1..5 {
        assert_eq!(clock.write("a", 309 + 60 * minute), Ok(()), "{minute}");
        clock.breaker.take_back(ParentRevision::of(&parent), &child);
        assert_eq!(
            clock.write("a", 310 + 60 * minute),
            Err(59),
            "five minutes since the first refusal, but not of refusals alone"
        );
    }
    assert_eq!((669..679).map(|second| clock.write("a", second)).collect::<Vec<_>>(), [Ok(()); 10]);
}

#[test]
fn r18_ten_writes_a_minute_never_trip_the_breaker() {
    let mut clock = Clock::new();
    for second in (0..3600).step_by(6) {
        assert_eq!(clock.write("a", second), Ok(()), "{second}");
    }
    assert_eq!(clock.remembered(), 1);
}

#[test]
fn r18_five_minutes_without_attempted_writes_reset_the_breaker() {
    let mut clock = Clock::new();
    clock.trip();
    assert_eq!(clock.write("a", 11), Err(58));
    assert_eq!(clock.write("a", 250), Ok(()));
    assert_eq!(clock.write("a", 320), Ok(()), "five minutes since it tripped, but with attempted writes");
    assert_eq!(clock.write("a", 321), Err(59), "the breaker is still tripped");
    for second in 621..631 {
        assert_eq!(clock.write("a", second), Ok(()));
    }
    assert_eq!(clock.write("a", 631), Err(59), "after a reset, the breaker trips again");
}

#[test]
fn r18_new_generation_of_the_parent_resets_the_breaker() {
    let mut clock = Clock::new();
    clock.trip();
    clock.parent.generation = Some(4);
    assert_eq!(clock.write("a", 11), Ok(()));
    // Without generations, only time resets the breaker.
    let mut plain = Clock::new();
    plain.parent.generation = None;
    plain.trip();
}

#[test]
fn r18_number_of_children_never_trips_the_breaker() {
    let mut clock = Clock::new();
    for second in 0..10 {
        for child in 0..200 {
            assert_eq!(clock.write(&child.to_string(), second), Ok(()));
        }
    }
}

#[test]
fn r18_writes_are_counted_by_parent_kind_namespace_and_name() {
    let mut clock = Clock::new();
    clock.trip();
    let now = clock.at(11);
    let (pod, service) = (Gvk::from_api_version("v1", "Pod"), Gvk::from_api_version("v1", "Service"));
    let (here, there) = (ObjectKey::new(Some("default"), "a"), ObjectKey::new(Some("other"), "a"));
    let mut other = Object::clone(&clock.parent);
    other.uid = Uid::from("another");
    assert!(clock.breaker.admit(ParentRevision::of(&clock.parent), &pod, &here, now).is_err());
    assert!(clock.breaker.admit(ParentRevision::of(&clock.parent), &service, &here, now).is_ok());
    assert!(clock.breaker.admit(ParentRevision::of(&clock.parent), &pod, &there, now).is_ok());
    assert!(
        clock.breaker.admit(ParentRevision::of(&other), &pod, &here, now).is_ok(),
        "another parent has a count of its own"
    );
}

#[test]
fn r18_plan_keeps_admitted_writes_and_prunes_nothing_while_a_write_waits() {
    let mut clock = Clock::new();
    clock.trip();
    let now = clock.at(11);
    let live: Vec<_> = validate(&[pod("z")]).expect("valid").children.iter().map(|child| created(child)).collect();
    let snapshot = snapshot(&live);
    let planned = |names: &[&str]| {
        let desired = names.iter().map(|name| pod(name)).collect::<Vec<_>>();
        plan(&snapshot, &validate(&desired).expect("valid"))
    };
    let mut limited = planned(&["a", "b"]);
    let waiting = limited.admit(&mut clock.breaker, ParentRevision::of(&clock.parent), now);
    assert_eq!(waiting.iter().map(|(child, wait)| (&*child.key.name, wait.as_secs())).collect::<Vec<_>>(), [("a", 58)]);
    assert_eq!(limited.counts(), (1, 0, 0));
    let mut free = planned(&["b"]);
    assert!(free.admit(&mut clock.breaker, ParentRevision::of(&clock.parent), now).is_empty());
    assert_eq!(free.counts(), (1, 0, 1));
}

#[test]
fn r18_child_that_is_deleted_repeatedly_trips_the_breaker_although_its_uid_changes() {
    let mut clock = Clock::new();
    let desired = validate(&[pod("a")]).expect("valid");
    let mut created_at = Vec::new();
    for second in 0..60 {
        let mut plan = plan(&snapshot(&[]), &desired);
        let waiting = plan.admit(
            &mut clock.breaker,
            ParentRevision::of(&clock.parent),
            clock.start + Duration::from_secs(second),
        );
        assert_eq!(plan.writes.len() + waiting.len(), 1);
        created_at.extend((!plan.is_empty()).then_some(second));
    }
    assert_eq!(created_at, (0..10).collect::<Vec<_>>());
}

#[test]
fn c9_changed_labels_and_the_changed_content_of_a_kind_without_generation_reset_the_breaker() {
    let mut clock = Clock::new();
    let mut parent: serde_json::Value = serde_json::from_slice(&clock.parent.json.bytes()).expect("JSON");
    parent["metadata"].as_object_mut().expect("metadata").remove("generation");
    for second in 0..40 {
        parent["metadata"]["resourceVersion"] = second.to_string().into();
        if second < 20 {
            parent["metadata"]["labels"] = json!({ "team": second.to_string() });
        } else {
            parent["data"] = json!({ "key": second });
        }
        clock.parent = Object::clone(&object(&parent));
        assert_eq!(clock.write("a", second), Ok(()), "{second}");
    }
    let mut touched = 0;
    while clock.write("a", 40 + touched).is_ok() {
        touched += 1;
        parent["metadata"]["annotations"] = json!({ "touched": touched.to_string() });
        parent["metadata"]["resourceVersion"] = (100 + touched).to_string().into();
        clock.parent = Object::clone(&object(&parent));
    }
    assert_eq!(touched, 9, "an annotation is no new revision");
}

#[test]
fn u2_children_under_ever_new_names_trip_the_breaker_of_their_kind() {
    let mut clock = Clock::new();
    let mut live: Vec<serde_json::Value> = Vec::new();
    let mut created_at = Vec::new();
    for second in 0..300 {
        let desired = validate(&[pod(&format!("a-{second}"))]).expect("valid");
        let mut plan = plan(&snapshot(&live), &desired);
        let waiting = plan.admit(
            &mut clock.breaker,
            ParentRevision::of(&clock.parent),
            clock.start + Duration::from_secs(second),
        );
        if let [Write::Create(child)] = &*plan.writes {
            created_at.push(second);
            live.push(created(child));
        }
        assert!(!plan.is_empty() || !waiting.is_empty(), "what waits is reported");
        let pruned: Vec<_> = plan.prunes.iter().map(|delete| delete.child.key.name.clone()).collect();
        live.retain(|live| !pruned.iter().any(|name| live["metadata"]["name"] == **name));
        assert!(live.len() < 3, "they do not pile up");
    }
    // Ten children are deleted within a minute. After that, one is created once the last one is a minute old, and another one right after it.
    assert_eq!(created_at, (0..11).chain([70, 71, 131, 132, 192, 193, 253, 254]).collect::<Vec<_>>());
    clock.parent.generation = Some(clock.parent.generation.unwrap_or(0) + 1);
    let mut plan = plan(&snapshot(&live), &validate(&[pod("b")]).expect("valid"));
    let now = clock.at(300);
    assert!(plan.admit(&mut clock.breaker, ParentRevision::of(&clock.parent), now).is_empty(), "the spec has changed");
}

#[test]
fn u2_children_that_live_longer_than_a_minute_may_be_replaced_at_any_rate() {
    let mut clock = Clock::new();
    for second in 0..60 {
        let old = created(&validate(&[pod(&format!("old-{second}"))]).expect("valid").children[0]);
        let desired = validate(&[pod(&format!("new-{second}"))]).expect("valid");
        let mut plan = plan(&snapshot(&[old]), &desired);
        assert!(
            plan.admit(
                &mut clock.breaker,
                ParentRevision::of(&clock.parent),
                clock.start + Duration::from_secs(second)
            )
            .is_empty()
        );
    }
}

#[test]
fn r18_deletions_count_only_once_they_are_due() {
    let mut clock = Clock::new();
    let (desired, leaving) = (validate(&[pod("a")]).expect("valid"), validate(&[pod("b")]).expect("valid"));
    let mut terminating = created(&desired.children[0]);
    terminating["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let waits = snapshot(&[terminating, created(&leaving.children[0])]);
    let due = snapshot(&[created(&leaving.children[0])]);
    for second in 0..40 {
        let now = clock.at(second);
        let mut plan = plan(&waits, &desired);
        assert!(plan.admit(&mut clock.breaker, ParentRevision::of(&clock.parent), now).is_empty() && plan.is_empty());
    }
    for second in 40..60 {
        let now = clock.at(second);
        let mut plan = plan(&due, &Desired::default());
        let waiting = plan.admit(&mut clock.breaker, ParentRevision::of(&clock.parent), now);
        assert_eq!((plan.prunes.len(), waiting.len()), if second < 50 { (1, 0) } else { (0, 1) });
    }
}

#[test]
fn r18_status_that_keeps_changing_is_thrashing_unless_its_children_change_too() {
    let mut clock = Clock::new();
    let still = snapshot(&[]);
    let start = clock.start;
    let mut admit = |snapshot: &Snapshot, second| {
        clock.breaker.admit_status(
            ParentRevision::of(&snapshot.parent),
            snapshot,
            || None,
            start + Duration::from_secs(second),
        )
    };
    let passes: Vec<_> = (0..13).map(|second| admit(&still, second)).collect();
    assert_eq!(passes[..10], [StatusPass::Write; 10]);
    assert_eq!(passes[10], StatusPass::WriteThrashing, "the eleventh status is written to report the thrashing");
    assert!(matches!(passes[11..], [StatusPass::Wait(_), StatusPass::Wait(_)]), "{passes:?}");
    assert_eq!(admit(&still, 70), StatusPass::WriteThrashing, "one status a minute is written");
    let desired = validate(&[pod("a")]).expect("valid");
    for second in 0..50 {
        let mut child = created(&desired.children[0]);
        child["metadata"]["resourceVersion"] = json!((100 + second).to_string());
        assert_eq!(admit(&snapshot(&[child]), 70), StatusPass::Write);
    }
}

/// The results of `admit_status` at these seconds, for a status whose breaker tripped in second 10. Each entry has
/// the status that would be written without the reason `Thrashing`.
fn thrashing(statuses: impl IntoIterator<Item = (u64, Option<String>)>) -> Vec<(u64, StatusPass)> {
    let mut clock = Clock::new();
    let still = snapshot(&[]);
    for second in 0..=10 {
        clock.breaker.admit_status(ParentRevision::of(&still.parent), &still, || None, clock.at(second));
    }
    let passes = statuses.into_iter().map(|(second, status)| {
        let status = status.map(|phase| Map::from([("phase", phase.into())]));
        (
            second,
            clock.breaker.admit_status(
                ParentRevision::of(&still.parent),
                &still,
                || status,
                clock.start + Duration::from_secs(second),
            ),
        )
    });
    passes.collect()
}

/// The second at which the status is written without the report again.
fn recovers_at(statuses: impl IntoIterator<Item = (u64, Option<String>)>) -> Option<u64> {
    thrashing(statuses).into_iter().find(|(_, pass)| *pass == StatusPass::Write).map(|(second, _)| second)
}

#[test]
fn r18_status_that_stays_the_same_for_five_minutes_is_written_without_the_thrashing_report() {
    let each_minute = || (1..30).map(|minute| minute * 60 + 9);
    assert_eq!(recovers_at(each_minute().map(|second| (second, Some("calm".to_owned())))), Some(69 + 300));
    assert_eq!(
        recovers_at(each_minute().map(|second| (second, Some(second.to_string())))),
        None,
        "the status keeps changing"
    );
    assert_eq!(
        recovers_at(each_minute().map(|second| (second, None))),
        None,
        "another writer keeps removing the report"
    );
    let late =
        each_minute().map(|second| (second, Some(if second < 200 { second.to_string() } else { String::new() })));
    assert_eq!(recovers_at(late), Some(249 + 300));
}

#[test]
fn r18_unchanged_status_is_checked_each_minute_until_the_breaker_resets() {
    let passes = thrashing([69, 70, 129, 350].map(|second| (second, Some("calm".to_owned()))));
    let passes: Vec<_> = passes.into_iter().map(|(_, pass)| pass).collect();
    let wait = |seconds| StatusPass::Wait(Duration::from_secs(seconds));
    assert_eq!(passes, [StatusPass::WriteThrashing, wait(60), wait(60), wait(19)]);
}

#[test]
fn r18_breaker_remembers_a_bounded_number_of_objects_for_minutes() {
    let mut clock = Clock::new();
    clock.trip();
    for object in 0..3 * OBJECTS_MAX {
        assert_eq!(clock.write(&object.to_string(), 20), Ok(()));
    }
    assert!(clock.remembered() <= 2 * OBJECTS_MAX + 1);
    clock.breaker.expire(clock.at(81));
    clock.breaker.expire(clock.at(200));
    assert_eq!(clock.remembered(), 1, "the tripped object");
    clock.breaker.expire(clock.at(400));
    assert_eq!((clock.remembered(), clock.breaker.tripped.capacity()), (0, 0));
}

proptest! {
    #[test]
    fn r18_no_minute_has_more_than_ten_writes_and_no_write_waits_longer_than_a_minute(
        pauses in proptest::collection::vec(prop_oneof![30 => 0_u64..6000, 1 => Just(59_999), 1 => Just(60_000)], 1..80)
    ) {
        let mut breaker = Breaker::default();
        let (parent, start) = (parent(), Instant::now());
        let mut passed: Vec<Instant> = Vec::new();
        let mut now = start;
        for pause in pauses {
            now += Duration::from_millis(pause);
            let within = passed.iter().filter(|at| now - **at < WINDOW).count();
            match breaker.admit(ParentRevision::of(&parent), &parent.kind, &parent.key, now) {
                Ok(()) => {
                    prop_assert!(within < WRITES);
                    passed.push(now);
                }
                Err(wait) => {
                    prop_assert!(!wait.is_zero() && wait <= PACE);
                    prop_assert!(passed.len() >= WRITES);
                }
            }
        }
    }

    #[test]
    fn r18_writes_below_the_limit_never_wait(pauses in proptest::collection::vec(6000_u64..200_000, 1..60)) {
        let mut breaker = Breaker::default();
        let (parent, mut now) = (object(&json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "uid": "u", "resourceVersion": "1"},
        })), Instant::now());
        for pause in pauses {
            now += Duration::from_millis(pause);
            prop_assert_eq!(breaker.admit(ParentRevision::of(&parent), &parent.kind, &parent.key, now), Ok(()));
        }
    }
}
