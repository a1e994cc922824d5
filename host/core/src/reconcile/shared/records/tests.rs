use std::sync::Arc;

use super::*;
use crate::fixtures::CLOCK;
use crate::reconcile::record::own_writes::FORGOTTEN;
use crate::reconcile::record::steady::Inputs;
use crate::reconcile::written::Written;
use crate::value::digest::Digest;
use crate::value::ids::Uid;

const CONFLICT: Option<(ParentReason, &str)> = Some((ParentReason::Conflict, "taken"));

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(Some("n"), name)
}

fn records() -> (Records, Arc<Mutex<Vec<Duration>>>) {
    let woken = Arc::new(Mutex::new(Vec::new()));
    let waits = woken.clone();
    (Records::new(CLOCK, move |wait| waits.lock().push(wait)), woken)
}

fn known(records: &Records) -> usize {
    records.all.lock().parents.len()
}

fn keep_steady(record: &mut Record) {
    let inputs = Inputs { call: Some((1, Digest::of(b"call"))), ..Inputs::default() };
    record.steady.keep(inputs, None);
}

#[test]
fn parent_without_remembered_state_has_no_record() {
    let (records, _) = records();
    assert!(
        !records.with(&key("a"), |record| record.has_own_writes() || record.is_namespace_terminating(&Uid::from("1")))
    );
    records.with(&key("a"), |record| record.own_writes().is_empty() && record.take_deletions().is_empty());
    assert_eq!(known(&records), 0);
    records.with(&key("a"), keep_steady);
    records.note_result(&key("b"), CONFLICT);
    records.with(&key("c"), |record| write(record, Instant::now()));
    assert_eq!(known(&records), 3);
    records.with(&key("a"), |record| record.steady.end());
    records.note_result(&key("b"), None);
    records.forget(&key("c"));
    assert_eq!(known(&records), 0);
}

#[test]
fn record_of_a_parent_in_steady_state_is_small() {
    let size = size_of::<ObjectKey>() + size_of::<Record>();
    assert!(size <= 168, "{size} bytes, for each of a hundred thousand parents");
}

fn write(record: &mut Record, now: Instant) {
    record.own_writes().add([Written::Parent { resource_version: 7 }], now);
}

#[test]
fn parents_deleted_while_no_component_was_live_are_forgotten_once_their_writes_are_old() {
    let ((records, _), now) = (records(), Instant::now());
    for name in ["gone", "there"] {
        records.with(&key(name), keep_steady);
    }
    records.with(&key("unselected"), |record| write(record, now));
    assert_eq!(records.forget_unless(|parent| *parent == key("there"), now), [key("unselected")]);
    let is_steady = |name: &str| records.with(&key(name), |record| !record.steady.is_empty());
    assert_eq!((is_steady("gone"), is_steady("there")), (false, true));
    assert!(records.with(&key("unselected"), |record| record.has_own_writes()), "its children may still be coming");
    assert_eq!(records.forget_unless(|parent| *parent == key("there"), now + FORGOTTEN), []);
    assert_eq!(known(&records), 1);
}

#[test]
fn r03_plugin_that_is_deleted_and_created_again_waits_for_the_writes_before() {
    let ((records, _), now) = (records(), Instant::now());
    records.with(&key("a"), keep_steady);
    records.note_result(&key("b"), CONFLICT);
    records.with(&key("c"), |record| {
        keep_steady(record);
        write(record, now);
    });
    records.note_result(&key("c"), CONFLICT);
    records.forget_all_but_writes(now);
    assert_eq!((known(&records), records.failing()), (1, Vec::new()));
    assert_eq!(records.begin_report(None, |_| true).last, None, "the failure was one of the deleted Plugin");
    assert!(records.with(&key("c"), |record| record.has_own_writes() && record.steady.is_empty()));
    records.forget_all_but_writes(now + FORGOTTEN);
    assert!(records.is_empty());
}

#[test]
fn r03_failure_of_a_parent_that_is_gone_is_forgotten_and_its_writes_are_not() {
    let (records, _) = records();
    records.with(&key("a"), |record| write(record, Instant::now()));
    records.note_result(&key("a"), CONFLICT);
    assert_eq!(records.begin_report(None, |_| false).failing, 0);
    assert!(records.with(&key("a"), |record| record.has_own_writes()) && records.failing().is_empty());
    records.note_result(&key("b"), CONFLICT);
    records.begin_report(None, |_| false);
    assert_eq!(known(&records), 1, "nothing is left of a parent without writes");
}

#[test]
fn r14_time_of_a_parent_in_a_terminating_namespace_runs_from_the_first_rejected_write() {
    let (mut web, begin) = (Record::default(), Instant::now());
    let (first, namesake) = (Uid::from("1"), Uid::from("2"));
    assert!(!web.is_namespace_terminating(&first));
    for seconds in [0, 10, 40].map(Duration::from_secs) {
        assert_eq!(web.note_namespace_terminating(&first, begin + seconds), seconds);
        assert!(web.is_namespace_terminating(&first) && !web.is_namespace_terminating(&namesake));
    }
    assert_eq!(web.note_namespace_terminating(&namesake, begin + Duration::from_secs(50)), Duration::ZERO);
}

#[test]
fn r12_repeated_failure_needs_no_write_and_another_message_does() {
    let (records, woken) = records();
    let read = || {
        woken.lock().clear();
        records.begin_report(None, |_| true)
    };
    records.note_result(&key("a"), None);
    assert!(woken.lock().is_empty(), "a parent that does not fail changes nothing");
    records.note_result(&key("a"), CONFLICT);
    assert_eq!(woken.lock().len(), 1);
    assert_eq!(read().failing, 1);
    records.note_result(&key("a"), CONFLICT);
    assert!(woken.lock().is_empty(), "the same failure needs no new write");
    records.note_result(&key("a"), Some((ParentReason::Conflict, "taken by another")));
    assert_eq!(woken.lock().len(), 1);
    let last = read().last.expect("a failure");
    assert_eq!((last.object.as_str(), last.message.as_str()), ("n/a", "taken by another"));
    records.note_result(&key("a"), None);
    let sums = read();
    assert_eq!((sums.failing, sums.last), (0, Some(last)), "the last failure can be read after it has passed");
}

#[test]
fn deleted_parent_no_longer_counts_as_failing_and_needs_one_write() {
    let (records, woken) = records();
    records.note_result(&key("a"), CONFLICT);
    records.removed(&key("a"));
    assert_eq!(woken.lock().len(), 1, "one write covers both");
    assert_eq!(records.begin_report(None, |_| true).failing, 0);
    records.note_result(&key("b"), None);
    assert_eq!(woken.lock().len(), 1);
    // Its last reconcile ends after it is gone.
    records.note_result(&key("a"), CONFLICT);
    records.note_result(&key("b"), CONFLICT);
    assert_eq!(records.begin_report(None, |_| true).failing, 2);
    woken.lock().clear();
    records.forget(&key("a"));
    assert_eq!((woken.lock().len(), records.failing()), (1, vec![key("b")]));
}
