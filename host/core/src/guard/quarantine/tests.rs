use proptest::prelude::*;

use super::*;

const MIDDLE: f64 = 0.5;

fn key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(Some(namespace), name)
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn call(
    quarantine: &mut Quarantine,
    parent: &ObjectKey,
    outcome: CallOutcome,
    now: Instant,
) -> Option<QuarantineChange> {
    let admission = quarantine.admit(parent, Some(1), now);
    assert!(!matches!(admission, Admission::Denied(_)), "{parent}: {admission:?}");
    quarantine.record((parent, Some(1)), admission, outcome, now, MIDDLE)
}

/// A component that failed for five parents in two namespaces.
fn entered(now: Instant) -> Quarantine {
    let mut quarantine = Quarantine::default();
    for at in 0..4 {
        assert_eq!(call(&mut quarantine, &key("a", &format!("p{at}")), CallOutcome::Broke, now), None);
    }
    assert_eq!(call(&mut quarantine, &key("b", "p4"), CallOutcome::Broke, now), Some(QuarantineChange::Entered));
    quarantine
}

#[test]
fn r19_five_consecutive_failures_of_several_parents_start_the_quarantine() {
    let now = Instant::now();
    let mut quarantine = entered(now);
    assert!(quarantine.is_active());
    let (failed, healthy) = (key("a", "p0"), key("c", "new"));
    assert_eq!(quarantine.admit(&failed, Some(1), now), Admission::Denied(secs(1)));
    assert_eq!(
        quarantine.admit(&healthy, Some(1), now + Duration::from_millis(400)),
        Admission::Denied(Duration::from_millis(600))
    );
    assert_eq!(quarantine.admit(&healthy, Some(1), now + secs(1)), Admission::Probe);
    assert_eq!(
        quarantine.admit(&failed, Some(1), now + secs(11)),
        Admission::Denied(secs(50)),
        "only one parent probes at a time"
    );
    assert_eq!(
        quarantine.admit(&key("d", "another"), Some(1), now + secs(3)),
        Admission::Denied(secs(3)),
        "a parent without failures waits only seconds for a pending probe"
    );
    assert_eq!(
        quarantine.admit(&failed, Some(1), now + secs(61)),
        Admission::Probe,
        "a probe without a result is given up after a minute"
    );
}

#[test]
fn r19_parent_whose_last_call_succeeded_probes_before_new_parents() {
    let mut now = Instant::now();
    let mut quarantine = Quarantine::default();
    let good = key("good", "web");
    assert_eq!(call(&mut quarantine, &good, CallOutcome::Returned, now), None);
    let mut change = None;
    for at in 0..5 {
        change = change.or(call(&mut quarantine, &key(["a", "b"][at % 2], &format!("p{at}")), CallOutcome::Broke, now));
    }
    assert_eq!(change, Some(QuarantineChange::Entered));
    // New parents that trap keep appearing, and one of them never reports a result.
    for at in 0..20 {
        now += secs(5);
        call(&mut quarantine, &key("c", &format!("new-{at}")), CallOutcome::Broke, now);
    }
    assert_eq!(quarantine.admit(&key("d", "hangs"), Some(1), now + secs(5)), Admission::Probe);
    assert_eq!(quarantine.admit(&good, Some(2), now), Admission::Denied(secs(1)));
    assert_eq!(quarantine.admit(&good, Some(2), now + secs(6)), Admission::Probe, "it does not wait for new parents");
    let changed = quarantine.record((&good, Some(2)), Admission::Probe, CallOutcome::Returned, now + secs(6), MIDDLE);
    assert_eq!(changed, Some(QuarantineChange::Cleared));
}

#[test]
fn r19_failing_parent_whose_spec_changed_waits_only_seconds() {
    let mut now = Instant::now();
    let mut quarantine = Quarantine::default();
    let bad = key("a", "bad");
    for _ in 0..12 {
        call(&mut quarantine, &bad, CallOutcome::Broke, now);
        let Admission::Denied(wait) = quarantine.admit(&bad, Some(1), now) else { continue };
        now += wait;
    }
    call(&mut quarantine, &bad, CallOutcome::Broke, now);
    assert_eq!(quarantine.admit(&bad, Some(1), now), Admission::Denied(secs(256)));
    assert_eq!(quarantine.admit(&bad, Some(2), now), Admission::Denied(secs(5)));
    assert_eq!(quarantine.admit(&bad, Some(2), now + secs(5)), Admission::Call);
}

#[test]
fn r19_parent_that_keeps_failing_does_not_delay_others() {
    let mut now = Instant::now();
    let mut quarantine = Quarantine::default();
    let bad = key("a", "bad");
    let mut waits = Vec::new();
    for _ in 0..16 {
        assert_eq!(call(&mut quarantine, &bad, CallOutcome::Broke, now), None);
        assert_eq!(quarantine.admit(&key("a", "good"), Some(1), now), Admission::Call, "its neighbour is not delayed");
        if let Admission::Denied(wait) = quarantine.admit(&bad, Some(1), now) {
            waits.push(wait.as_secs());
            now += wait;
        }
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
    assert_eq!(call(&mut quarantine, &bad, CallOutcome::Returned, now), None);
    assert_eq!(quarantine.admit(&bad, Some(1), now), Admission::Call, "a success resets the backoff");
}

#[test]
fn r19_failing_parents_of_one_namespace_do_not_delay_other_namespaces() {
    let now = Instant::now();
    let mut quarantine = Quarantine::default();
    let good = key("good", "web");
    call(&mut quarantine, &good, CallOutcome::Returned, now);
    let mut called = 0;
    for at in 0..60 {
        let bad = key("bad", &format!("p{at}"));
        let admission = quarantine.admit(&bad, Some(1), now);
        if !matches!(admission, Admission::Denied(_)) {
            called += 1;
            assert_eq!(quarantine.record((&bad, Some(1)), admission, CallOutcome::Broke, now, MIDDLE), None);
        }
        assert_eq!(quarantine.admit(&good, Some(1), now), Admission::Call);
    }
    assert_eq!(called, 5, "failing parents of one namespace wait for each other");
    assert!(!quarantine.is_active());
    // A working parent among them waits for seconds, and its success admits the others too.
    let neighbour = key("bad", "neighbour");
    assert_eq!(quarantine.admit(&neighbour, Some(1), now), Admission::Denied(secs(1)));
    call(&mut quarantine, &neighbour, CallOutcome::Returned, now + secs(1));
    assert_eq!(quarantine.admit(&key("bad", "p59"), Some(1), now + secs(1)), Admission::Call);
}

#[test]
fn r19_success_resets_the_failure_count() {
    let now = Instant::now();
    let mut quarantine = Quarantine::default();
    for round in 0..3 {
        for at in 0..4 {
            let parent = key(["a", "b"][at % 2], &format!("p{round}-{at}"));
            // The namespaces of these parents have counts of their own.
            let parent = key(&format!("{}-{round}", parent.namespace.as_deref().unwrap_or_default()), &parent.name);
            assert_eq!(call(&mut quarantine, &parent, CallOutcome::Broke, now), None);
        }
        assert_eq!(call(&mut quarantine, &key("c", "good"), CallOutcome::Returned, now), None);
    }
    assert!(!quarantine.is_active());
}

#[test]
fn r19_call_that_never_ran_neither_prolongs_nor_ends_the_quarantine() {
    let now = Instant::now();
    let mut quarantine = entered(now);
    let (later, parent) = (now + secs(1), key("c", "new"));
    assert_eq!(quarantine.admit(&parent, Some(1), later), Admission::Probe);
    assert_eq!(quarantine.record((&parent, Some(1)), Admission::Probe, CallOutcome::NotRun, later, MIDDLE), None);
    assert_eq!(quarantine.admit(&parent, Some(1), later), Admission::Probe, "the next parent may probe");
}

#[test]
fn r19_probe_backoff_doubles_to_five_minutes_for_failing_parents_and_to_seconds_for_others() {
    let mut now = Instant::now();
    let mut quarantine = entered(now);
    let mut waits = Vec::new();
    for at in 0..5 {
        let parent = key("c", &format!("new-{at}"));
        let Admission::Denied(wait) = quarantine.admit(&parent, Some(1), now) else { panic!("admitted") };
        waits.push(wait.as_secs());
        now += wait;
        assert_eq!(call(&mut quarantine, &parent, CallOutcome::Broke, now), None);
    }
    assert_eq!(waits, [1, 2, 4, 5, 5]);
    assert_eq!(quarantine.admit(&key("a", "p0"), Some(1), now), Admission::Denied(secs(32)));
}

#[test]
fn r19_success_of_any_parent_ends_the_quarantine() {
    let now = Instant::now();
    for admission in [Admission::Probe, Admission::Call] {
        let mut quarantine = entered(now);
        let parent = key("c", "good");
        assert_eq!(
            quarantine.record((&parent, Some(1)), admission, CallOutcome::Returned, now, MIDDLE),
            Some(QuarantineChange::Cleared)
        );
        assert_eq!(quarantine.admit(&parent, Some(1), now), Admission::Call);
    }
}

#[test]
fn r19_calls_that_began_before_the_quarantine_do_not_prolong_it() {
    let now = Instant::now();
    let mut quarantine = entered(now);
    for at in 0..8 {
        let parent = key("c", &format!("p{at}"));
        assert_eq!(quarantine.record((&parent, Some(1)), Admission::Call, CallOutcome::Broke, now, MIDDLE), None);
    }
    assert_eq!(quarantine.admit(&key("d", "new"), Some(1), now), Admission::Denied(secs(1)));
}

#[test]
fn r19_deleted_parents_are_forgotten() {
    let now = Instant::now();
    let mut quarantine = Quarantine::default();
    for at in 0..5 {
        call(&mut quarantine, &key("a", &format!("p{at}")), CallOutcome::Broke, now);
    }
    for at in 0..5 {
        quarantine.forget(&key("a", &format!("p{at}")));
    }
    assert!(quarantine.failing.is_empty() && quarantine.namespaces.is_empty());
}

#[test]
fn r19_only_timeouts_traps_and_exceeded_guest_limits_count_as_failures() {
    let text = || "x".to_owned();
    let of = |failure| CallOutcome::of::<()>(&Err(failure));
    assert_eq!(CallOutcome::of(&Ok(())), CallOutcome::Returned);
    for failure in [
        CallFailure::Deadline(secs(1)),
        CallFailure::Memory(1),
        CallFailure::TableElements(1),
        CallFailure::Instances(1),
        CallFailure::StackOverflow,
        CallFailure::Trap(text()),
        CallFailure::UnsupportedImport(text()),
        CallFailure::Exit(None),
    ] {
        assert_eq!(of(failure), CallOutcome::Broke);
    }
    assert_eq!(of(CallFailure::ResponseTooLarge(1)), CallOutcome::Returned);
    assert_eq!(of(CallFailure::Malformed(text())), CallOutcome::Returned);
    assert_eq!(of(CallFailure::RequestTooLarge { size: 2, limit: 1 }), CallOutcome::NotRun);
    assert_eq!(of(CallFailure::Host(text())), CallOutcome::NotRun);
}

proptest! {
    /// A component that fails for every parent is called five times, and then at most once per four fifths of a
    /// backoff.
    #[test]
    fn r19_broken_component_is_called_rarely_however_many_parents_are_reconciled(
        tries in proptest::collection::vec((0_u64..500, 0_usize..3, 0_usize..200), 1..400), random in 0.0..1.0_f64
    ) {
        let mut quarantine = Quarantine::default();
        let start = Instant::now();
        let (mut now, mut entered, mut calls) = (start, None, 0_u32);
        for (pause, namespace, name) in tries {
            now += Duration::from_millis(pause);
            let parent = key(["a", "b", "c"][namespace], &name.to_string());
            let admission = quarantine.admit(&parent, Some(1), now);
            if !matches!(admission, Admission::Denied(_)) {
                let change = quarantine.record((&parent, Some(1)), admission, CallOutcome::Broke, now, random);
                calls += u32::from(entered.is_some());
                entered = entered.or(change.map(|_| now));
            }
        }
        if let Some(entered) = entered {
            let (mut most, mut earliest) = (0, backoff(0, 0.0));
            while earliest <= now - entered {
                most += 1;
                earliest += backoff(most, 0.0).min(SHORT_WAIT_MAX);
            }
            prop_assert!(calls <= most, "{} calls, {} probes", calls, most);
        }
    }

    /// Whatever the parents of one namespace do, parents of other namespaces are called at once while their calls
    /// succeed.
    #[test]
    fn r19_namespace_never_delays_parents_of_another_namespace(
        tries in proptest::collection::vec((0_u64..3000, 0_usize..60, any::<bool>()), 1..300), random in 0.0..1.0_f64
    ) {
        let mut quarantine = Quarantine::default();
        let mut now = Instant::now();
        let good = key("good", "web");
        quarantine.record((&good, Some(1)), Admission::Call, CallOutcome::Returned, now, random);
        for (pause, name, breaks) in tries {
            now += Duration::from_millis(pause);
            let bad = key("bad", &name.to_string());
            let admission = quarantine.admit(&bad, Some(1), now);
            if !matches!(admission, Admission::Denied(_)) {
                let outcome = if breaks { CallOutcome::Broke } else { CallOutcome::Returned };
                quarantine.record((&bad, Some(1)), admission, outcome, now, random);
            }
            prop_assert_eq!(quarantine.admit(&good, Some(1), now), Admission::Call);
        }
    }

    /// A parent whose last call did not fail waits for seconds, whatever happened to all others.
    #[test]
    fn r19_parent_that_never_failed_waits_only_seconds(
        tries in proptest::collection::vec((0_u64..3000, 0_usize..3, 0_usize..20), 1..300), random in 0.0..1.0_f64
    ) {
        let mut quarantine = Quarantine::default();
        let mut now = Instant::now();
        for (pause, namespace, name) in tries {
            now += Duration::from_millis(pause);
            let parent = key(["a", "b", "c"][namespace], &name.to_string());
            let admission = quarantine.admit(&parent, Some(1), now);
            if !matches!(admission, Admission::Denied(_)) {
                quarantine.record((&parent, Some(1)), admission, CallOutcome::Broke, now, random);
            }
            for place in ["a", "d"] {
                let new = key(place, "never-called");
                let later = now + SHORT_WAIT_MAX;
                prop_assert!(!matches!(quarantine.admit(&new, Some(1), later), Admission::Denied(_)));
                quarantine.record((&new, Some(1)), Admission::Probe, CallOutcome::NotRun, later, random);
            }
        }
    }
}
