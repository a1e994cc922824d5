use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::contract::{CallFailure, Failure};
use crate::fixtures::{created, parent_ref, parent_with, pod, snapshot, status_after, validate};
use crate::ids::{Gvk, ObjectKey, Uid};
use crate::outcome::{Problem, SuspendedBy, WriteProblem};

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
    Outcome::from(&Problem::Writes(vec![(child("Pod", name), WriteProblem::Taken)]))
}

fn outdated() -> Outcome {
    Outcome::from(&Problem::Writes(vec![(child("Pod", "a"), WriteProblem::Outdated)]))
}

fn suspended() -> Outcome {
    Outcome::from(&Problem::Suspended(SuspendedBy::Parent))
}

/// The event for a parent with this status.
fn told_with(status: &Json, changes: &Changes, outcome: &Outcome) -> Option<Note> {
    let parent = parent_with(status);
    let before = Before::in_status(&parent, outcome);
    note(&Snapshot { parent, ..snapshot(&[]) }, changes, &before, outcome)
}

/// The event when one outcome follows another, in the same process or in the next one.
fn turn_from(before: &Outcome, after: &Outcome) -> Option<Note> {
    let mut ledger = Ledger::default();
    let uid = Uid::from("u");
    ledger.before(&uid, before, || Before::Same);
    let known = ledger.before(&uid, after, || Before::in_status(&parent_with(&status_after(before, None)), after));
    let note = note(&snapshot(&[]), &Changes::default(), &known, after);
    let is_read_back = before.progress != Progress::Suspended;
    if is_read_back {
        assert_eq!(told_with(&status_after(before, None), &Changes::default(), after), note, "{before:?} {after:?}");
    }
    note
}

fn line(note: &Note) -> String {
    format!("{:?} {}: {}", note.event_type, note.reason, note.message)
}

/// The event when the outcome stays the same.
fn of_changes(changes: &Changes) -> String {
    line(&told_with(&status_after(&applied(), None), changes, &applied()).expect("a note"))
}

#[test]
fn r20_at_rest_there_is_nothing_to_tell() {
    assert_eq!(note(&snapshot(&[]), &Changes::default(), &Before::Same, &applied()), None);
    for outcome in [applied(), conflict("a"), suspended(), suspended().while_finalizing(), outdated()] {
        assert_eq!(turn_from(&outcome, &outcome), None, "{outcome:?}");
    }
    // Another number of children changes the message, but it is the same success.
    assert_eq!(turn_from(&Outcome::applied(1, None), &applied()), None);
}

#[test]
fn r20_all_that_one_reconcile_did_is_one_event() {
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
    .assert_eq(&seen.iter().map(of_changes).collect::<Vec<_>>().join("\n"));
}

#[test]
fn r20_an_event_about_one_child_refers_to_it() {
    let related = |changes: &Changes| told_with(&json!({}), changes, &applied()).expect("a note").related;
    let one = Changes { deleted: pods(&["web-9"]), ..Changes::default() };
    assert_eq!(related(&one), Some(child("Pod", "web-9")));
    assert_eq!(related(&Changes { created: pods(&["web-0"]), ..one }), None);
    assert_eq!(related(&Changes { created: pods(&["web-0", "web-1"]), ..Changes::default() }), None);
}

#[test]
fn r20_children_in_other_namespaces_are_named_with_them() {
    let parent = json!({"apiVersion": "my-operator.dev/v1", "kind": "Echo",
        "metadata": {"name": "hello", "uid": "u", "resourceVersion": "5"}});
    let cluster_scoped = Snapshot { parent: crate::fixtures::object(&parent), ..snapshot(&[]) };
    let changes = Changes { created: pods(&["web-0"]), ..Changes::default() };
    let note = note(&cluster_scoped, &changes, &Before::Same, &applied()).expect("a note");
    assert_eq!(note.message, "Created Pod default/web-0");
}

/// The event for a parent with existing Pods, whose generation may be beyond the observed one.
fn with_pods(names: &[&str], observed: i64, changes: &Changes) -> String {
    let wanted: Vec<_> = names.iter().map(|name| pod(name)).collect();
    let desired = validate(&wanted).expect("valid");
    let children: Vec<_> = desired.children.iter().map(|child| created(child)).collect();
    let parent = parent_with(&json!({"observedGeneration": observed}));
    let snapshot = Snapshot { parent, ..snapshot(&children) };
    line(&note(&snapshot, changes, &Before::Same, &applied()).expect("a note"))
}

#[test]
fn r20_more_or_fewer_of_a_kind_in_a_new_generation_is_scaling() {
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
fn r20_a_failure_is_told_when_it_is_another_one() {
    let told = turn_from(&applied(), &conflict("a")).expect("told");
    assert_eq!((told.event_type, &*told.reason), (EventType::Warning, "Conflict"));
    assert_eq!(told.message, conflict("a").message);
    assert_eq!(turn_from(&conflict("a"), &conflict("a")), None);
    assert!(turn_from(&conflict("a"), &conflict("b")).is_some(), "the same reason about another child");
    let failed = Outcome::from(&Problem::Plugin(Failure::Failed("no idea".to_owned())));
    assert_eq!(
        turn_from(&conflict("a"), &failed).map(|note| line(&note)).as_deref(),
        Some("Warning PluginFailed: no idea")
    );
    assert!(told_with(&json!({}), &Changes::default(), &failed).is_some(), "the first thing said of a parent");
    let stalled = Outcome::from(&Problem::Plugin(Failure::Invalid("replicas: too many".to_owned())));
    assert_eq!(turn_from(&stalled, &stalled), None);
}

#[test]
fn r20_a_recovery_is_told_once_and_only_from_a_failure() {
    let told = turn_from(&conflict("a"), &applied()).map(|note| line(&note));
    assert_eq!(told.as_deref(), Some("Normal Recovered: Recovered from Conflict: 3 children applied"));
    assert_eq!(turn_from(&applied(), &applied()), None);
    let waiting = Outcome::from(&Problem::Plugin(Failure::Retry { message: "starts".to_owned(), after: 1000 }));
    assert_eq!(turn_from(&waiting, &applied()), None);
    assert_eq!(told_with(&json!({}), &Changes::default(), &applied()), None, "of a parent without children");
    // A plugin's own `Ready=False` is not a failure of the host.
    for reason in ["Conflict", "Suspended"] {
        let own = json!({"conditions": [{"type": "Ready", "status": "False", "reason": reason, "message": "m"}]});
        assert_eq!(told_with(&status_after(&applied(), Some(&own)), &Changes::default(), &applied()), None);
    }
}

#[test]
fn r20_what_is_part_of_the_work_is_told_calmly_or_not_at_all() {
    let say =
        |outcome: &Outcome| turn_from(&applied(), outcome).map(|note| format!("{:?} {}", note.event_type, note.reason));
    let retry = Failure::Retry { message: "the database starts".to_owned(), after: 1000 };
    assert_eq!(say(&Outcome::from(&Problem::Plugin(retry))).as_deref(), Some("Normal Waiting"));
    assert_eq!(say(&Outcome::from(&Problem::Finalizing(None))).as_deref(), Some("Normal Finalizing"));
    assert_eq!(say(&suspended()).as_deref(), Some("Normal Suspended"));
    assert_eq!(say(&Outcome::from(&Problem::Terminating(pods(&["web-0"])))), None);
    assert_eq!(say(&Outcome::from(&Problem::Rolling(pods(&["web-0"])))), None);
    let quarantined = Problem::Quarantined(Duration::from_secs(1));
    assert_eq!(say(&Outcome::from(&quarantined)).as_deref(), Some("Warning Quarantined"));
    assert_eq!(turn_from(&suspended(), &applied()).map(|note| note.reason).as_deref(), Some("Resumed"));
}

#[test]
fn r20_a_write_that_is_tried_again_at_once_is_neither_a_failure_nor_recovered_from() {
    assert_eq!(turn_from(&applied(), &outdated()), None);
    assert_eq!(turn_from(&outdated(), &applied()), None);
    let busy = WriteProblem::Unavailable { message: "busy".to_owned(), retry_after: None };
    let busy = Outcome::from(&Problem::Writes(vec![(child("Pod", "a"), busy)]));
    assert!(turn_from(&outdated(), &busy).is_some());
    assert!(turn_from(&busy, &applied()).is_some());
}

#[test]
fn r20_a_failure_speaks_first_and_what_was_done_beside_it_follows() {
    let done = Changes { created: pods(&["web-0"]), ..Changes::default() };
    let invalid = Outcome::from(&Problem::Call(CallFailure::Trap { message: "unreachable.".to_owned() }));
    let told = |before: &Outcome, after: &Outcome| {
        line(&told_with(&status_after(before, None), &done, after).expect("a note"))
    };
    expect_test::expect![["
        Warning Trapped: The plugin's call failed: trap: unreachable. Created Pod web-0
        Normal Recovered: Recovered from Trapped: 3 children applied. Created Pod web-0
        Normal Created: Created Pod web-0"]]
    .assert_eq(
        &[
            told(&applied(), &invalid),
            told(&invalid, &applied()),
            // A lasting failure is not repeated with every change.
            told(&invalid, &invalid),
        ]
        .join("\n"),
    );
}

#[test]
fn r20_the_end_of_a_finalizer_is_told() {
    let (done, skipped) = (Note::finalized(&FinalizerEnd::CleanedUp), Note::finalized(&FinalizerEnd::Skipped));
    assert_eq!((done.event_type, &*done.reason, done.action), (EventType::Normal, "Finalized", "Finalize"));
    assert_eq!((skipped.event_type, &*skipped.reason), (EventType::Warning, "FinalizerSkipped"));
}

#[test]
fn r20_what_a_plugin_gives_is_made_what_kubernetes_takes() {
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
fn kinds_get_the_plural_that_a_person_expects() {
    let kinds = ["Pod", "Ingress", "NetworkPolicy", "Gateway", "Endpoints", "Switch", "ConfigMap"];
    assert_eq!(
        kinds.map(|kind| plural(kind).into_owned()).join(" "),
        "Pods Ingresses NetworkPolicies Gateways Endpoints Switches ConfigMaps"
    );
}

proptest! {
    #[test]
    fn r20_no_event_is_more_than_kubernetes_takes(reason in ".{0,200}", message in ".{0,1200}", names in 0..200_usize) {
        let event = Event { event_type: EventType::Normal, reason, message: message.clone() };
        let note = Note::of_plugin(&event);
        prop_assert!(is_reason(&note.reason));
        prop_assert!(note.message.len() <= NOTE_MAX);
        prop_assert!(message.starts_with(note.message.trim_end_matches('…')));
        let long: Vec<_> = (0..names).map(|at| child(&format!("Kind{at}"), &"n".repeat(253))).collect();
        let changes = Changes { created: long, ..Changes::default() };
        let outcome = Outcome::from(&Problem::Plugin(Failure::Failed(message)));
        let own = super::note(&snapshot(&[]), &changes, &Before::Other(None), &outcome).expect("a failure is told");
        prop_assert!(own.message.len() <= NOTE_MAX);
    }
}

mod of_the_ledger {
    use jiff::{SignedDuration, Timestamp};

    use super::*;
    use crate::ids::{PluginName, Uid};

    /// A ledger with a clock, one plugin and one parent.
    struct Told {
        ledger: Ledger,
        plugin: PluginName,
        parent: Uid,
        now: Timestamp,
    }

    impl Told {
        fn new() -> Self {
            let now = "2026-01-02T03:04:05Z".parse().expect("a time");
            Self { ledger: Ledger::default(), plugin: parent_ref().plugin, parent: Uid::from("u"), now }
        }

        fn tell(&mut self, message: &str, occasion: Occasion) -> Option<EventWrite> {
            self.tell_as(EventType::Normal, message, occasion)
        }

        fn tell_as(&mut self, event_type: EventType, message: &str, occasion: Occasion) -> Option<EventWrite> {
            let event = Event { event_type, reason: "Told".to_owned(), message: message.to_owned() };
            self.ledger.tell(&self.plugin, &self.parent, &Note::of_plugin(&event), occasion, self.now)
        }

        fn pass(&mut self, time: Duration) {
            self.now += SignedDuration::try_from(time).expect("not so long");
        }
    }

    fn is_new(telling: Option<EventWrite>) -> bool {
        matches!(telling, Some(EventWrite::Create { .. }))
    }

    #[test]
    fn r20_what_a_plugin_says_in_every_answer_is_written_once() {
        let mut told = Told::new();
        assert!(is_new(told.tell("a", Occasion::AtRest)), "news at rest, as when something related changed");
        for _ in 0..100 {
            told.pass(Duration::from_mins(10));
            assert_eq!(told.tell("a", Occasion::AtRest), None);
            assert_eq!(told.tell("a", Occasion::Sweep), None);
        }
        assert!(is_new(told.tell("b", Occasion::AtRest)));
    }

    #[test]
    fn r20_after_the_hosts_start_what_a_plugin_says_at_rest_is_old_news() {
        let mut told = Told::new();
        assert_eq!(told.tell("a", Occasion::Sweep), None);
        assert_eq!(told.tell("a", Occasion::AtRest), None);
        assert!(is_new(told.tell("a", Occasion::Changed)), "it comes with a change: it was said anew");
        assert!(is_new(told.tell("b", Occasion::Changed)));
    }

    #[test]
    fn r20_a_repetition_is_counted_and_the_count_is_written_now_and_then() {
        let mut told = Told::new();
        let Some(EventWrite::Create { stamp }) = told.tell("a", Occasion::Changed) else { panic!("not told") };
        for _ in 0..5 {
            told.pass(Duration::from_mins(1));
            assert_eq!(told.tell("a", Occasion::Changed), None);
        }
        told.pass(Duration::from_mins(1));
        assert_eq!(told.tell("a", Occasion::Changed), Some(EventWrite::Count { stamp, count: 7 }));
        told.pass(Duration::from_mins(5));
        assert_eq!(told.tell("a", Occasion::Changed), None);
        told.pass(Duration::from_mins(46));
        assert!(is_new(told.tell("a", Occasion::Changed)), "the API server has forgotten it");
    }

    #[test]
    fn r20_what_differs_in_parent_type_or_message_is_no_repetition() {
        let mut told = Told::new();
        assert!(is_new(told.tell("a", Occasion::Changed)));
        assert!(is_new(told.tell_as(EventType::Warning, "a", Occasion::Changed)));
        told.parent = Uid::from("another");
        assert!(is_new(told.tell("a", Occasion::Changed)));
    }

    #[test]
    fn r20_stamps_are_unique_also_when_the_clock_stands_or_goes_back() {
        let mut told = Told::new();
        let stamp = |told: &mut Told, message: &str| match told.tell(message, Occasion::Changed) {
            Some(EventWrite::Create { stamp }) => stamp,
            other => panic!("{other:?}"),
        };
        let (a, b) = (stamp(&mut told, "a"), stamp(&mut told, "b"));
        told.now -= SignedDuration::from_hours(1);
        let c = stamp(&mut told, "c");
        assert!(a < b && b < c);
    }

    /// Returns how many of `count` new events are written.
    fn written(told: &mut Told, event_type: EventType, what: &str, count: usize) -> usize {
        (0..count).filter(|at| is_new(told.tell_as(event_type, &format!("{what}-{at}"), Occasion::Changed))).count()
    }

    #[test]
    fn r20_a_plugins_flood_is_bounded_leaves_room_for_warnings_and_silences_nobody_else() {
        let mut told = Told::new();
        assert_eq!(written(&mut told, EventType::Normal, "flood", 1000), 40);
        assert_eq!(written(&mut told, EventType::Warning, "warning", 1000), 10);
        told.plugin = "other".parse().expect("a name");
        assert_eq!(written(&mut told, EventType::Normal, "other", 1), 1);
        told.plugin = parent_ref().plugin;
        told.pass(Duration::from_secs(3));
        assert_eq!(written(&mut told, EventType::Warning, "later", 10), 3, "one a second");
        told.pass(Duration::from_hours(1));
        assert_eq!(written(&mut told, EventType::Normal, "much later", 1000), 40);
    }

    #[test]
    fn r20_what_was_dropped_is_said_at_most_once_a_minute_and_does_not_come_up_at_rest() {
        let mut told = Told::new();
        assert_eq!(told.ledger.take_dropped(&told.plugin, told.now), None);
        written(&mut told, EventType::Normal, "flood", 45);
        assert_eq!(told.ledger.take_dropped(&told.plugin, told.now), Some(5));
        told.ledger.lost(&told.plugin, told.now);
        assert_eq!(told.ledger.take_dropped(&told.plugin, told.now), None);
        told.pass(Duration::from_mins(2));
        assert_eq!(told.ledger.take_dropped(&told.plugin, told.now), Some(1));
        assert_eq!(told.tell("flood-44", Occasion::AtRest), None);
    }

    /// More events than the ledger remembers.
    const MANY: usize = 20_000;

    #[test]
    fn r20_once_something_that_stands_was_forgotten_nothing_at_rest_is_taken_for_news() {
        let mut told = Told::new();
        for at in 0..MANY {
            told.tell(&format!("standing-{at}"), Occasion::Sweep);
        }
        assert_eq!(told.tell("standing-0", Occasion::AtRest), None, "forgotten, and not to be told from news");
        assert!(is_new(told.tell("standing-1", Occasion::Changed)));
    }

    #[test]
    fn r20_news_at_rest_are_told_however_much_happened_before() {
        let mut told = Told::new();
        for at in 0..MANY {
            told.tell(&format!("passing-{at}"), Occasion::Changed);
        }
        told.pass(Duration::from_hours(1));
        assert!(is_new(told.tell("news", Occasion::AtRest)));
    }

    #[test]
    fn r20_what_the_host_tells_makes_nobody_forget_what_a_plugin_says() {
        let mut told = Told::new();
        assert!(is_new(told.tell("a", Occasion::Changed)));
        for at in 0..MANY {
            let created = Changes { created: pods(&[&format!("web-{at}")]), ..Changes::default() };
            let own = note(&snapshot(&[]), &created, &Before::Same, &applied()).expect("a note");
            told.ledger.tell(&told.plugin, &told.parent, &own, Occasion::Changed, told.now);
        }
        assert_eq!(told.tell("a", Occasion::AtRest), None);
    }

    #[test]
    fn r20_of_parents_without_conditions_the_last_failure_is_remembered() {
        let mut told = Told::new();
        let parent = told.parent.clone();
        let mut before = |outcome: &Outcome| told.ledger.before(&parent, outcome, || Before::unknown(outcome));
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
