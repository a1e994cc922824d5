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
    (0..count).filter(|at| is_new(reporter.report_as(event_type, &format!("{what}-{at}"), Occasion::Changed))).count()
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
