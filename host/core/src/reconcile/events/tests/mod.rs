mod ledger;

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::contract::{CallFailure, Failure};
use crate::fixtures::{created, parent_ref, parent_with, pod, snapshot, status_after, validate};
use crate::reconcile::not_ready::NotReady;
use crate::reconcile::outcome::{Problem, SuspendedBy, WriteProblem};
use crate::value::ids::{Gvk, ObjectKey, Uid};
use crate::value::line::is_unprintable;

fn child(kind: &str, name: &str) -> ChildId {
    let api_version = if kind == "Deployment" { "apps/v1" } else { "v1" };
    ChildId { kind: Arc::new(Gvk::from_api_version(api_version, kind)), key: ObjectKey::new(Some("default"), name) }
}

fn pods(names: &[&str]) -> Vec<ChildId> {
    names.iter().map(|name| child("Pod", name)).collect()
}

fn applied() -> Outcome {
    Outcome::applied(3, None)
}

fn conflict(name: &str) -> Outcome {
    Outcome::from(&Problem::Writes(vec![(child("Pod", name), WriteProblem::Taken(None))]))
}

fn outdated() -> Outcome {
    Outcome::from(&Problem::Writes(vec![(child("Pod", "a"), WriteProblem::Outdated)]))
}

fn suspended() -> Outcome {
    Outcome::from(&Problem::Suspended(SuspendedBy::Parent))
}

/// The event for a parent with this status.
fn event_for(status: &Json, changes: &Changes, outcome: &Outcome) -> Option<Note> {
    let parent = parent_with(status);
    let before = Before::in_status(&parent, outcome);
    note(&Snapshot { parent, ..snapshot(&[]) }, changes, &before, outcome)
}

/// The event when one outcome follows another, in the same process or in the next one.
fn event_between(before: &Outcome, after: &Outcome) -> Option<Note> {
    let mut ledger = Ledger::default();
    let (plugin, uid) = (parent_ref().plugin, Uid::from("u"));
    let now = jiff::Timestamp::UNIX_EPOCH;
    ledger.before(&plugin, &uid, before, now, || Before::Same);
    let known = ledger
        .before(&plugin, &uid, after, now, || Before::in_status(&parent_with(&status_after(before, None)), after));
    let note = note(&snapshot(&[]), &Changes::default(), &known, after);
    let is_read_back = before.progress != Progress::Suspended;
    if is_read_back {
        assert_eq!(event_for(&status_after(before, None), &Changes::default(), after), note, "{before:?} {after:?}");
    }
    note
}

fn line(note: &Note) -> String {
    format!("{:?} {}: {}", note.event_type, note.reason, note.message)
}

/// The event when the outcome stays the same.
fn event_of_changes(changes: &Changes) -> String {
    line(&event_for(&status_after(&applied(), None), changes, &applied()).expect("a note"))
}

#[test]
fn r20_steady_state_emits_no_event() {
    assert_eq!(note(&snapshot(&[]), &Changes::default(), &Before::Same, &applied()), None);
    for outcome in [applied(), conflict("a"), suspended(), suspended().while_finalizing(), outdated()] {
        assert_eq!(event_between(&outcome, &outcome), None, "{outcome:?}");
    }
    let released = Outcome::from(&Problem::Released(parent_ref().plugin));
    assert_eq!(event_between(&released, &applied()), None, "a parent that is selected again recovers from nothing");
    // Another number of children changes the message, but it is the same success.
    assert_eq!(event_between(&Outcome::applied(1, None), &applied()), None);
}

#[test]
fn r20_all_changes_of_one_reconcile_are_one_event() {
    let created = || pods(&["web-10", "web-2", "web-1"]);
    let many: Vec<_> = (0..9).map(|at| child("Pod", &format!("p-{at}"))).collect();
    let seen = [
        Changes { created: pods(&["web-0"]), ..Changes::default() },
        Changes { created: created(), ..Changes::default() },
        Changes { created: many.clone(), ..Changes::default() },
        Changes { created: many[..6].to_vec(), ..Changes::default() },
        Changes { updated: vec![child("Deployment", "web"), child("ConfigMap", "web")], ..Changes::default() },
        Changes { restored: pods(&["web-0"]), ..Changes::default() },
        Changes { taken_over: vec![child("Deployment", "web")], ..Changes::default() },
        Changes { replaced: pods(&["web-0"]), ..Changes::default() },
        Changes { deleted: pods(&["web-9"]), ..Changes::default() },
        Changes { created: created(), deleted: pods(&["web-9"]), ..Changes::default() },
    ];
    expect_test::expect![[r"
        Normal Created: Created Pod web-0
        Normal Created: Created Pods web-1, web-2, web-10
        Normal Created: Created Pods p-0, p-1, p-2, p-3, p-4 and 4 more
        Normal Created: Created Pods p-0, p-1, p-2, p-3, p-4, p-5
        Normal Updated: Updated ConfigMap web, Deployment web
        Normal DriftCorrected: Reverted edits of Pod web-0
        Normal TakenOver: Forced ownership of Deployment web
        Normal Replacing: Began to recreate Pod web-0
        Normal Deleted: Deleted Pod web-9
        Normal Reconciled: Created Pods web-1, web-2, web-10; deleted Pod web-9"]]
    .assert_eq(&seen.iter().map(event_of_changes).collect::<Vec<_>>().join("\n"));
}

#[test]
fn r20_change_that_leads_to_more_than_it_shows_is_a_warning() {
    let adopted = |kind: &str| Changes { adopted: vec![child(kind, "a")], ..Changes::default() };
    let job = vec![child("Job", "backup")];
    let seen = [
        adopted("ConfigMap"),
        adopted("Namespace"),
        adopted("PersistentVolumeClaim"),
        Changes { adopted: vec![child("Namespace", "a"), child("Namespace", "b")], ..Changes::default() },
        Changes { created: job.clone(), ..Changes::default() },
        Changes { created: job.clone(), expiring: job, ..Changes::default() },
    ];
    expect_test::expect![[r"
        Normal Adopted: Adopted ConfigMap a
        Warning Adopted: Adopted Namespace a. Namespace a will be deleted with all contents when the parent is deleted, or when the plugin no longer returns it, unless the plugin retains it
        Warning Adopted: Adopted PersistentVolumeClaim a. PersistentVolumeClaim a will be deleted with all contents when the parent is deleted, or when the plugin no longer returns it, unless the plugin retains it
        Warning Adopted: Adopted Namespaces a, b. Namespaces a, b will be deleted with all contents when the parent is deleted, or when the plugin no longer returns them, unless the plugin retains them
        Normal Created: Created Job backup
        Warning Created: Created Job backup. Job backup (ttlSecondsAfterFinished): Kubernetes deletes a finished Job after that time, and while the plugin returns it, the host creates it again, and it runs again"]]
    .assert_eq(&seen.iter().map(event_of_changes).collect::<Vec<_>>().join("\n"));
}

#[test]
fn r20_warnings_of_the_api_server_are_one_event_for_each_text() {
    let mut warnings = ApiWarnings::default();
    for (name, text) in [("b", "insecure"), ("c", "deprecated"), ("a", "insecure")] {
        warnings.add(&child("Pod", name), text.into());
    }
    let notes = of_warnings(&warnings, Some("default"));
    expect_test::expect![[r"
        Warning ApiWarnings: The API server warns about Pod c: deprecated
        Warning ApiWarnings: The API server warns about Pods a, b: insecure"]]
    .assert_eq(&notes.iter().map(line).collect::<Vec<_>>().join("\n"));
    assert_eq!(notes[0].related, Some(child("Pod", "c")));
    assert_eq!(notes[1].related, None);
    (0..100).for_each(|at| warnings.add(&child("Pod", "a"), format!("text {at}").into()));
    assert_eq!(of_warnings(&warnings, None).len(), 5, "a webhook may warn about each child in other words");
}

#[test]
fn r20_an_event_about_one_child_refers_to_it() {
    let related = |changes: &Changes| event_for(&json!({}), changes, &applied()).expect("a note").related;
    let one = Changes { deleted: pods(&["web-9"]), ..Changes::default() };
    assert_eq!(related(&one), Some(child("Pod", "web-9")));
    assert_eq!(related(&Changes { created: pods(&["web-0"]), ..one }), None);
    assert_eq!(related(&Changes { created: pods(&["web-0", "web-1"]), ..Changes::default() }), None);
}

#[test]
fn r20_event_names_the_namespace_of_a_child_outside_the_parents_namespace() {
    let parent = json!({"apiVersion": "my-operator.dev/v1", "kind": "Echo",
        "metadata": {"name": "hello", "uid": "u", "resourceVersion": "5"}});
    let cluster_scoped = Snapshot { parent: crate::fixtures::object(&parent), ..snapshot(&[]) };
    let changes = Changes { created: pods(&["web-0"]), ..Changes::default() };
    let note = note(&cluster_scoped, &changes, &Before::Same, &applied()).expect("a note");
    assert_eq!(note.message, "Created Pod default/web-0");
}

/// The event for a parent of generation 3 with these Pods, whose status has the generation `observed`.
fn with_pods(names: &[&str], observed: i64, changes: &Changes) -> String {
    let wanted: Vec<_> = names.iter().map(|name| pod(name)).collect();
    let desired = validate(&wanted).expect("valid");
    let children: Vec<_> = desired.children.iter().map(|child| created(child)).collect();
    let parent = parent_with(&json!({"observedGeneration": observed}));
    let snapshot = Snapshot { parent, ..snapshot(&children) };
    line(&note(&snapshot, changes, &Before::Same, &applied()).expect("a note"))
}

#[test]
fn r20_more_or_fewer_children_of_a_kind_in_a_new_generation_emit_scaled() {
    let more = Changes { created: pods(&["web-1", "web-2"]), ..Changes::default() };
    let fewer = Changes { deleted: pods(&["web-1"]), ..Changes::default() };
    let both = Changes { created: more.created.clone(), ..fewer.clone() };
    let other = Changes { created: vec![child("Service", "web")], ..Changes::default() };
    expect_test::expect![["
        Normal Scaled: Scaled Pods from 1 to 3: created Pods web-1, web-2
        Normal Scaled: Scaled Pods from 2 to 1: deleted Pod web-1
        Normal Created: Created Pods web-1, web-2
        Normal Deleted: Deleted Pod web-1
        Normal Created: Created Pods web-1, web-2
        Normal Reconciled: Created Pods web-1, web-2; deleted Pod web-1
        Normal Created: Created Service web
        Normal Reconciled: Created Pods web-1, web-2; updated Pod web-0"]]
    .assert_eq(
        &[
            with_pods(&["web-0"], 2, &more),
            with_pods(&["web-0", "web-1"], 2, &fewer),
            // The generation is the same: a Pod that was deleted manually is recreated.
            with_pods(&["web-0"], 3, &more),
            // Scaling to zero and from zero.
            with_pods(&["web-1"], 2, &fewer),
            with_pods(&[], 2, &more),
            // Changes other than more or fewer children.
            with_pods(&["web-0", "web-1"], 2, &both),
            with_pods(&["web-0"], 2, &other),
            with_pods(&["web-0"], 2, &Changes { updated: pods(&["web-0"]), ..more.clone() }),
        ]
        .join("\n"),
    );
}

#[test]
fn r20_failure_emits_an_event_when_it_differs_from_the_last_outcome() {
    let event = event_between(&applied(), &conflict("a")).expect("an event");
    assert_eq!((event.event_type, &*event.reason), (EventType::Warning, "Conflict"));
    assert_eq!(event.message, conflict("a").message);
    assert_eq!(event_between(&conflict("a"), &conflict("a")), None);
    assert!(event_between(&conflict("a"), &conflict("b")).is_some(), "the same reason about another child");
    let failed = Outcome::from(&Problem::Plugin(Failure::Failed("no idea".to_owned())));
    assert_eq!(
        event_between(&conflict("a"), &failed).map(|note| line(&note)).as_deref(),
        Some("Warning PluginFailed: no idea")
    );
    assert!(event_for(&json!({}), &Changes::default(), &failed).is_some(), "the parent has no earlier outcome");
    let stalled = Outcome::from(&Problem::Plugin(Failure::Invalid("replicas: too many".to_owned())));
    assert_eq!(event_between(&stalled, &stalled), None);
}

#[test]
fn r20_recovery_emits_one_event_and_only_after_a_failure() {
    let event = event_between(&conflict("a"), &applied()).map(|note| line(&note));
    assert_eq!(event.as_deref(), Some("Normal Recovered: Recovered from Conflict: 3 children applied"));
    assert_eq!(event_between(&applied(), &applied()), None);
    let waiting = Outcome::from(&Problem::Plugin(Failure::Retry { message: "starts".to_owned(), after: 1000 }));
    assert_eq!(event_between(&waiting, &applied()), None);
    assert_eq!(event_for(&json!({}), &Changes::default(), &applied()), None, "the first success is not a recovery");
    // A plugin's own `Ready=False` is not a failure of the host.
    for reason in ["Conflict", "Suspended"] {
        let own = json!({"conditions": [{"type": "Ready", "status": "False", "reason": reason, "message": "m"}]});
        assert_eq!(event_for(&status_after(&applied(), Some(&own)), &Changes::default(), &applied()), None);
    }
}

#[test]
fn r20_expected_states_emit_a_normal_event_or_none() {
    let summary = |outcome: &Outcome| {
        event_between(&applied(), outcome).map(|note| format!("{:?} {}", note.event_type, note.reason))
    };
    let retry = Failure::Retry { message: "the database starts".to_owned(), after: 1000 };
    assert_eq!(summary(&Outcome::from(&Problem::Plugin(retry))).as_deref(), Some("Normal Waiting"));
    assert_eq!(summary(&Outcome::from(&Problem::Finalizing(None, None))).as_deref(), Some("Normal Finalizing"));
    assert_eq!(summary(&suspended()).as_deref(), Some("Normal Suspended"));
    assert_eq!(summary(&Outcome::from(&Problem::Terminating(pods(&["web-0"])))), None);
    assert_eq!(summary(&Outcome::from(&Problem::Rolling(pods(&["web-0"])))), None);
    let quarantined = Problem::Quarantined(Duration::from_secs(1));
    assert_eq!(summary(&Outcome::from(&quarantined)).as_deref(), Some("Warning Quarantined"));
    assert_eq!(event_between(&suspended(), &applied()).map(|note| note.reason).as_deref(), Some("Resumed"));
}

#[test]
fn r20_outdated_write_emits_neither_failure_nor_recovery() {
    assert_eq!(event_between(&applied(), &outdated()), None);
    assert_eq!(event_between(&outdated(), &applied()), None);
    let busy = WriteProblem::Unavailable { message: "busy".to_owned(), retry_after: None };
    let busy = Outcome::from(&Problem::Writes(vec![(child("Pod", "a"), busy)]));
    assert!(event_between(&outdated(), &busy).is_some());
    assert!(event_between(&busy, &applied()).is_some());
}

#[test]
fn r20_event_states_the_failure_first_and_then_the_changes() {
    let done = Changes { created: pods(&["web-0"]), ..Changes::default() };
    let invalid = Outcome::from(&Problem::Call(CallFailure::Trap("unreachable.".to_owned())));
    let event_line = |before: &Outcome, after: &Outcome| {
        line(&event_for(&status_after(before, None), &done, after).expect("a note"))
    };
    expect_test::expect![["
        Warning Trapped: The plugin's call failed: trap: unreachable. Created Pod web-0
        Normal Recovered: Recovered from Trapped: 3 children applied. Created Pod web-0
        Normal Created: Created Pod web-0"]]
    .assert_eq(
        &[
            event_line(&applied(), &invalid),
            event_line(&invalid, &applied()),
            // A lasting failure is not repeated with every change.
            event_line(&invalid, &invalid),
        ]
        .join("\n"),
    );
}

#[test]
fn r20_removal_of_the_finalizer_emits_an_event() {
    let (done, skipped) = (Note::finalized(&FinalizerEnd::CleanedUp), Note::finalized(&FinalizerEnd::Skipped));
    assert_eq!((done.event_type, &*done.reason, done.action), (EventType::Normal, "Finalized", "Finalize"));
    assert_eq!((skipped.event_type, &*skipped.reason), (EventType::Warning, "FinalizerSkipped"));
    let (unneeded, not_called) = (Note::finalized(&FinalizerEnd::Unneeded), Note::finalized(&FinalizerEnd::NotCalled));
    assert!(!unneeded.message.contains("has cleaned up"), "{}", unneeded.message);
    assert!(!not_called.message.contains("user asked"), "{}", not_called.message);
}

#[test]
fn r20_invalid_event_reason_of_a_plugin_is_replaced() {
    let of = |reason: &str| {
        Note::of_plugin(&Event { event_type: EventType::Warning, reason: reason.to_owned(), message: "m".to_owned() })
    };
    assert_eq!(line(&of("CertificateExpires")), "Warning CertificateExpires: m");
    assert_eq!(of(&"A".repeat(128)).reason.len(), 128);
    for bad in ["", "lower", "Two Words", "With-Dash", "Ünicode", "9Lives", "A\n", &"A".repeat(129)] {
        assert_eq!(line(&of(bad)), "Warning PluginEvent: m", "{bad:?}");
    }
}

#[test]
fn kinds_get_their_english_plural() {
    let kinds = ["Pod", "Ingress", "NetworkPolicy", "Gateway", "Endpoints", "Switch", "ConfigMap"];
    assert_eq!(
        kinds.map(|kind| plural(kind).into_owned()).join(" "),
        "Pods Ingresses NetworkPolicies Gateways Endpoints Switches ConfigMaps"
    );
}

proptest! {
    #[test]
    fn r20_events_stay_within_the_limits_of_kubernetes(
        reason in ".{0,200}", message in "(?s:.{0,1200})", names in 0..200_usize
    ) {
        let event = Event { event_type: EventType::Normal, reason, message: message.clone() };
        let note = Note::of_plugin(&event);
        prop_assert!(is_reason(&note.reason));
        prop_assert!(note.message.len() <= NOTE_MAX);
        prop_assert!(one_line(&message).starts_with(note.message.trim_end_matches('…')));
        prop_assert!(!note.message.contains(is_unprintable), "{:?}", note.message);
        let long: Vec<_> = (0..names).map(|at| child(&format!("Kind{at}"), &"n".repeat(253))).collect();
        let changes = Changes { created: long, ..Changes::default() };
        let outcome = Outcome::from(&Problem::Plugin(Failure::Failed(message)));
        let own = super::note(&snapshot(&[]), &changes, &Before::Other(None), &outcome).expect("a failure event");
        prop_assert!(own.message.len() <= NOTE_MAX);
    }
}
