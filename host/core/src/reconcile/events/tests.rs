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

mod ledger_tests {
    use jiff::{SignedDuration, Timestamp};

    use super::*;
    use crate::value::ids::{PluginName, Uid};

    /// A ledger with a clock, one plugin and one parent.
    struct Reporter {
        ledger: Ledger,
        plugin: PluginName,
        parent: Uid,
        now: Timestamp,
    }

    impl Reporter {
        fn new() -> Self {
            let now = "2026-01-02T03:04:05Z".parse().expect("a time");
            Self { ledger: Ledger::default(), plugin: parent_ref().plugin, parent: Uid::from("u"), now }
        }

        fn report(&mut self, message: &str, occasion: Occasion) -> Option<EventWrite> {
            self.report_as(EventType::Normal, message, occasion)
        }

        fn report_as(&mut self, event_type: EventType, message: &str, occasion: Occasion) -> Option<EventWrite> {
            let event = Event { event_type, reason: "Reported".to_owned(), message: message.to_owned() };
            self.ledger.emit(&self.plugin, &self.parent, &Note::of_plugin(&event), occasion, self.now)
        }

        fn pass(&mut self, time: Duration) {
            self.now += SignedDuration::try_from(time).expect("not so long");
        }
    }

    fn is_new(write: Option<EventWrite>) -> bool {
        matches!(write, Some(EventWrite::Create { .. }))
    }

    #[test]
    fn r20_plugin_event_in_every_response_is_written_once() {
        let mut reporter = Reporter::new();
        assert!(
            is_new(reporter.report("a", Occasion::Steady)),
            "a new event in the steady state, as after a change of a related object"
        );
        for _ in 0..100 {
            reporter.pass(Duration::from_mins(10));
            assert_eq!(reporter.report("a", Occasion::Steady), None);
            assert_eq!(reporter.report("a", Occasion::Sweep), None);
        }
        assert!(is_new(reporter.report("b", Occasion::Steady)));
    }

    #[test]
    fn r20_plugin_event_repeated_after_a_host_restart_is_not_written_again() {
        let mut reporter = Reporter::new();
        assert_eq!(reporter.report("a", Occasion::Sweep), None);
        assert_eq!(reporter.report("a", Occasion::Steady), None);
        assert!(is_new(reporter.report("a", Occasion::Changed)), "the event comes with a change, so it is new");
        assert!(is_new(reporter.report("b", Occasion::Changed)));
    }

    #[test]
    fn r20_repeated_event_is_counted_and_the_count_is_written_periodically() {
        let mut reporter = Reporter::new();
        let Some(EventWrite::Create { stamp }) = reporter.report("a", Occasion::Changed) else { panic!("not written") };
        for _ in 0..5 {
            reporter.pass(Duration::from_mins(1));
            assert_eq!(reporter.report("a", Occasion::Changed), None);
        }
        reporter.pass(Duration::from_mins(1));
        assert_eq!(reporter.report("a", Occasion::Changed), Some(EventWrite::Count { stamp, count: 7 }));
        reporter.pass(Duration::from_mins(5));
        assert_eq!(reporter.report("a", Occasion::Changed), None);
        reporter.pass(Duration::from_mins(46));
        assert!(is_new(reporter.report("a", Occasion::Changed)), "the API server no longer has the event");
    }

    #[test]
    fn r20_event_with_another_parent_type_or_message_is_not_a_repetition() {
        let mut reporter = Reporter::new();
        assert!(is_new(reporter.report("a", Occasion::Changed)));
        assert!(is_new(reporter.report_as(EventType::Warning, "a", Occasion::Changed)));
        reporter.parent = Uid::from("another");
        assert!(is_new(reporter.report("a", Occasion::Changed)));
    }

    #[test]
    fn r20_event_stamps_are_unique_even_if_the_clock_stops_or_goes_back() {
        let mut reporter = Reporter::new();
        let stamp = |reporter: &mut Reporter, message: &str| match reporter.report(message, Occasion::Changed) {
            Some(EventWrite::Create { stamp }) => stamp,
            other => panic!("{other:?}"),
        };
        let (a, b) = (stamp(&mut reporter, "a"), stamp(&mut reporter, "b"));
        reporter.now -= SignedDuration::from_hours(1);
        let c = stamp(&mut reporter, "c");
        assert!(a < b && b < c);
    }

    /// Returns how many of `count` new events are written.
    fn written(reporter: &mut Reporter, event_type: EventType, what: &str, count: usize) -> usize {
        (0..count)
            .filter(|at| is_new(reporter.report_as(event_type, &format!("{what}-{at}"), Occasion::Changed)))
            .count()
    }

    #[test]
    fn r20_event_flood_of_a_plugin_is_limited_and_leaves_room_for_warnings_and_other_plugins() {
        let mut reporter = Reporter::new();
        assert_eq!(written(&mut reporter, EventType::Normal, "flood", 1000), 40);
        assert_eq!(written(&mut reporter, EventType::Warning, "warning", 1000), 10);
        reporter.plugin = "other".parse().expect("a name");
        assert_eq!(written(&mut reporter, EventType::Normal, "other", 1), 1);
        reporter.plugin = parent_ref().plugin;
        reporter.pass(Duration::from_secs(3));
        assert_eq!(written(&mut reporter, EventType::Warning, "later", 10), 3, "one a second");
        reporter.pass(Duration::from_hours(1));
        assert_eq!(written(&mut reporter, EventType::Normal, "much later", 1000), 40);
    }

    #[test]
    fn r20_dropped_events_are_reported_at_most_once_a_minute_and_not_written_later() {
        let mut reporter = Reporter::new();
        assert_eq!(reporter.ledger.take_dropped(&reporter.plugin, reporter.now), None);
        written(&mut reporter, EventType::Normal, "flood", 45);
        assert_eq!(reporter.ledger.take_dropped(&reporter.plugin, reporter.now), Some(5));
        reporter.ledger.lost(&reporter.plugin, reporter.now);
        assert_eq!(reporter.ledger.take_dropped(&reporter.plugin, reporter.now), None);
        reporter.pass(Duration::from_mins(2));
        assert_eq!(reporter.ledger.take_dropped(&reporter.plugin, reporter.now), Some(1));
        assert_eq!(reporter.report("flood-44", Occasion::Steady), None);
    }

    /// More events than the ledger remembers.
    const MANY: usize = 20_000;

    #[test]
    fn r20_steady_state_emits_nothing_once_the_ledger_forgot_a_standing_event() {
        let mut reporter = Reporter::new();
        for at in 0..MANY {
            reporter.report(&format!("standing-{at}"), Occasion::Sweep);
        }
        assert_eq!(
            reporter.report("standing-0", Occasion::Steady),
            None,
            "the ledger forgot the event and cannot distinguish it from a new one"
        );
        assert!(is_new(reporter.report("standing-1", Occasion::Changed)));
    }

    #[test]
    fn r20_events_of_a_plugin_affect_no_event_of_another() {
        let mut reporter = Reporter::new();
        let (plugin, other) = (parent_ref().plugin, "other".parse().expect("a name"));
        assert!(is_new(reporter.report("standing", Occasion::Changed)));
        let failure = conflict("a");
        let before = |reporter: &mut Reporter| {
            reporter.ledger.before(&reporter.plugin, &reporter.parent, &failure, reporter.now, || Before::Other(None))
        };
        before(&mut reporter);
        reporter.plugin = other;
        let parent = reporter.parent.clone();
        for at in 0..MANY {
            reporter.report(&format!("standing-{at}"), Occasion::Steady);
            reporter.parent = Uid::from(format!("u{at}").as_str());
            before(&mut reporter);
        }
        (reporter.plugin, reporter.parent) = (plugin.clone(), parent);
        assert!(is_new(reporter.report("new", Occasion::Steady)), "the flood of the other plugin does not silence it");
        assert_eq!(reporter.report("standing", Occasion::Steady), None, "the flood displaced no event");
        assert_eq!(before(&mut reporter), Before::Same, "the flood displaced no outcome");
        reporter.ledger.forget(&plugin);
        assert!(is_new(reporter.report("standing", Occasion::Steady)), "the Plugin was deleted and created again");
    }

    #[test]
    fn r20_new_event_in_the_steady_state_is_written_after_any_number_of_earlier_events() {
        let mut reporter = Reporter::new();
        for at in 0..MANY {
            reporter.report(&format!("passing-{at}"), Occasion::Changed);
        }
        reporter.pass(Duration::from_hours(1));
        assert!(is_new(reporter.report("news", Occasion::Steady)));
    }

    #[test]
    fn r20_repeated_event_that_replaces_its_own_record_is_not_a_forgotten_one() {
        let mut reporter = Reporter::new();
        assert!(is_new(reporter.report("standing", Occasion::Changed)));
        assert_eq!(reporter.report("standing", Occasion::Steady), None);
        reporter.pass(Duration::from_hours(1));
        assert!(is_new(reporter.report("standing", Occasion::Changed)));
        assert!(is_new(reporter.report("news", Occasion::Steady)));
    }

    #[test]
    fn r20_recovery_is_told_although_steps_without_an_event_come_between() {
        let mut reporter = Reporter::new();
        let Reporter { ledger, plugin, parent, now } = &mut reporter;
        let mut before = |outcome: &Outcome| ledger.before(plugin, parent, outcome, *now, || Before::Other(None));
        let pod = |is_failed| {
            let child = child("Pod", "a");
            Outcome::not_ready(&[NotReady { child, why: "why".into(), is_failed }], None)
        };
        assert_eq!(before(&pod(true)), Before::Other(None));
        for _ in 0..2 {
            assert_eq!(before(&pod(false)), Before::Same);
            assert_eq!(before(&pod(true)), Before::Same, "the same failure again");
        }
        assert_eq!(before(&pod(false)), Before::Same);
        assert_eq!(before(&Outcome::applied(1, None)), Before::Other(Some(ParentReason::ChildFailed)));
    }

    #[test]
    fn r20_host_events_do_not_evict_plugin_events_from_the_ledger() {
        let mut reporter = Reporter::new();
        assert!(is_new(reporter.report("a", Occasion::Changed)));
        for at in 0..MANY {
            let created = Changes { created: pods(&[&format!("web-{at}")]), ..Changes::default() };
            let own = note(&snapshot(&[]), &created, &Before::Same, &applied()).expect("a note");
            reporter.ledger.emit(&reporter.plugin, &reporter.parent, &own, Occasion::Changed, reporter.now);
        }
        assert_eq!(reporter.report("a", Occasion::Steady), None);
    }

    #[test]
    fn r20_last_failure_of_a_parent_without_conditions_is_remembered() {
        let mut reporter = Reporter::new();
        let (parent, now) = (reporter.parent.clone(), reporter.now);
        let mut before = |outcome: &Outcome| {
            reporter.ledger.before(&parent_ref().plugin, &parent, outcome, now, || Before::unknown(outcome))
        };
        let other = Before::Other;
        let reason = Some(ParentReason::Conflict);
        assert_eq!(before(&applied()), Before::Same);
        assert_eq!(before(&conflict("a")), Before::Other(None));
        assert_eq!(before(&conflict("a")), Before::Same);
        assert_eq!(before(&conflict("b")), other(reason));
        assert_eq!(before(&applied()), other(reason));
        assert_eq!(before(&applied()), Before::Same);
    }
}
