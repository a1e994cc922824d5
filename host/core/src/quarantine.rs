//! Reduces the calls of a component that traps, times out or exceeds a limit of memory, table elements or instances to
//! single probes (rule R19): each such call may cost the host the maximum time of a call. The first call that returns
//! ends the quarantine of the component, and of the namespace of the parent for which it was called.
//!
//! Failures are counted per parent, since a tenant controls the content of its parents. A failing parent waits alone,
//! the failing parents of one namespace wait for each other, and the whole component enters quarantine only when five
//! calls in a row fail, for three parents or more. If the plugin was called for parents in more than one namespace, the
//! failures must be in more than one as well. A parent whose calls do not fail waits for seconds at most.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backoff::backoff;
use crate::contract::CallFailure;
use crate::ids::ObjectKey;

/// Number of failures in a row that lead to quarantine.
const FAILURES: u32 = 5;
/// Minimum number of failing parents that lead to quarantine of a namespace or of the component.
const PARENTS: usize = 3;
/// Longest wait of a parent that is new, whose last call succeeded, or whose spec changed since its last call failed.
const SHORT_WAIT_MAX: Duration = Duration::from_secs(5);
/// Time after which a probe without a result is given up: its reconcile was abandoned. Longer than a call waits and
/// runs.
const PROBE_PATIENCE: Duration = Duration::from_mins(1);
/// Maximum number of entries in each of `failing` and `succeeded`. A parent beyond that counts as new.
const PARENTS_MAX: usize = 1 << 16;

/// The recent calls of one active component. A new digest starts with a new quarantine.
#[derive(Debug, Default)]
pub struct Quarantine {
    /// Parents whose last call failed.
    failing: HashMap<ObjectKey, Failing>,
    /// Parents whose last call succeeded.
    succeeded: HashSet<ObjectKey>,
    /// Failures in a row of the parents of one namespace, by namespace.
    namespaces: HashMap<Arc<str>, Scope>,
    /// All parents together.
    all: Scope,
    called_namespaces: CalledNamespaces,
}

#[derive(Debug)]
struct Failing {
    /// Number of failures in a row.
    failures: u32,
    /// Time of the last failure, and the parent's generation then.
    last: Instant,
    generation: Option<i64>,
    /// Earliest time of the next call.
    next: Option<Instant>,
}

impl Failing {
    fn wait(&self, generation: Option<i64>, now: Instant) -> Duration {
        let Some(next) = self.next else { return Duration::ZERO };
        // The user may have fixed the parent; but changing it every second must not allow a call every second.
        let is_changed = generation != self.generation;
        let until = if is_changed { next.min(self.last + SHORT_WAIT_MAX) } else { next };
        until.saturating_duration_since(now)
    }
}

/// Whether parents were called in none, one or several namespaces.
#[derive(Debug, Default)]
struct CalledNamespaces {
    /// The first one.
    one: Option<Arc<str>>,
    several: bool,
}

/// The result of a parent's last call, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastCall {
    /// The last call succeeded.
    Succeeded,
    /// There was no call.
    Never,
    /// The last call failed.
    Failed,
}

/// The failures in a row of a group of parents: of one namespace, or of all.
#[derive(Debug, Default)]
struct Scope {
    /// Number of failures in a row.
    failures: u32,
    /// Some of the parents that failed: at most [`PARENTS`], and one more of a second namespace.
    parents: HashSet<ObjectKey>,
    /// Set while in quarantine.
    probes: Option<Probes>,
}

/// The schedule of probes. Parents with a successful last call are probed first, and do not wait for new parents, of
/// which a tenant can create any number.
#[derive(Debug)]
struct Probes {
    failed: u32,
    /// Earliest times of the next probe.
    failing: Instant,
    new: Instant,
    succeeded: Instant,
    /// Start of the running probe without a result: of parents that succeeded, and of all others.
    running_succeeded: Option<Instant>,
    running: Option<Instant>,
}

impl Probes {
    fn new(failed: u32, now: Instant, random: f64) -> Self {
        let wait = backoff(failed, random);
        Self {
            failed,
            failing: now + wait,
            new: now + wait.min(SHORT_WAIT_MAX),
            succeeded: now + backoff(0, random),
            running_succeeded: None,
            running: None,
        }
    }

    fn wait(&self, last_call: LastCall, now: Instant) -> Duration {
        let (due, running, patience) = match last_call {
            LastCall::Succeeded => (self.succeeded, self.running_succeeded, SHORT_WAIT_MAX),
            LastCall::Never => (self.new, self.running, SHORT_WAIT_MAX),
            LastCall::Failed => (self.failing, self.running, PROBE_PATIENCE),
        };
        running.map_or(due, |since| since + patience).saturating_duration_since(now)
    }

    fn running_of(&mut self, last_call: LastCall) -> &mut Option<Instant> {
        match last_call {
            LastCall::Succeeded => &mut self.running_succeeded,
            LastCall::Never | LastCall::Failed => &mut self.running,
        }
    }
}

impl Scope {
    /// Records a failed call, and returns true if it led to quarantine. With `may_enter` false, it never does.
    fn broke(&mut self, parent: &ObjectKey, call: Admission, may_enter: bool, now: Instant, random: f64) -> bool {
        if let Some(probes) = &mut self.probes {
            // A call from before the quarantine is no new information: only probes count now.
            if call == Admission::Probe {
                *probes = Probes::new(probes.failed.saturating_add(1), now, random);
            }
            return false;
        }
        self.failures = self.failures.saturating_add(1);
        // Keep one place for a parent of a second namespace, so that `is_in_several_namespaces_with` sees it.
        let is_new_namespace = self.parents.iter().all(|known| known.namespace != parent.namespace);
        if self.parents.len() < PARENTS || is_new_namespace && self.parents.len() <= PARENTS {
            self.parents.insert(parent.clone());
        }
        let enters = self.failures >= FAILURES && self.parents.len() >= PARENTS && may_enter;
        if enters {
            self.probes = Some(Probes::new(0, now, random));
        }
        enters
    }

    /// Returns true if the failures in a row, together with one of this parent, are in several namespaces.
    fn is_in_several_namespaces_with(&self, parent: &ObjectKey) -> bool {
        self.parents.iter().any(|known| known.namespace != parent.namespace)
    }
}

/// Whether a call may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// The call may be made, like any other.
    Call,
    /// The call may be made, and its result decides about the quarantine. Until then no other parent of that quarantine
    /// is admitted.
    Probe,
    /// The call may not be made before this time has passed.
    Denied(Duration),
}

/// How a call ended, as far as it matters for quarantine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// The guest returned, with any response.
    Returned,
    /// The guest was stopped, or trapped.
    Broke,
    /// The guest did not run, so the call is no information about it.
    NotRun,
}

/// Quarantine of the whole component begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuarantineChange {
    /// The component is in quarantine now, so the Plugin is not Ready.
    Entered,
    /// The component has left quarantine, and all parents that were denied may be queued again.
    Cleared,
}

impl CallOutcome {
    /// Classifies a call. Only calls that use up the host's time, or end the guest, count as failures. An invalid
    /// response is a problem of its parent, and returns as fast as any other.
    pub fn of<T>(call: &Result<T, CallFailure>) -> Self {
        match call {
            Ok(_) | Err(CallFailure::ResponseTooLarge { .. } | CallFailure::Malformed { .. }) => Self::Returned,
            Err(
                CallFailure::Deadline { .. }
                | CallFailure::Memory { .. }
                | CallFailure::TableElements { .. }
                | CallFailure::Instances { .. }
                | CallFailure::StackOverflow
                | CallFailure::Trap { .. }
                | CallFailure::UnsupportedImport { .. }
                | CallFailure::Exit { .. },
            ) => Self::Broke,
            Err(CallFailure::RequestTooLarge { .. } | CallFailure::Host { .. }) => Self::NotRun,
        }
    }
}

impl Quarantine {
    /// Decides whether a call may be made now for a parent of this generation. The caller [records](Self::record) the
    /// result of an admitted call.
    pub fn admit(&mut self, parent: &ObjectKey, generation: Option<i64>, now: Instant) -> Admission {
        let own = self.failing.get(parent).map(|failing| failing.wait(generation, now));
        let last_call = self.last_call_of(parent);
        let probes =
            || [&self.all].into_iter().chain(self.namespace_of(parent)).filter_map(|scope| scope.probes.as_ref());
        let wait = probes().map(|probes| probes.wait(last_call, now)).chain(own).max().unwrap_or_default();
        if !wait.is_zero() {
            return Admission::Denied(wait);
        }
        if probes().next().is_none() {
            return Admission::Call;
        }
        self.for_each_probes(parent, |probes| *probes.running_of(last_call) = Some(now));
        Admission::Probe
    }

    /// Records how an admitted call ended. `random` (0 to 1) adds jitter to the next probe.
    pub fn record(
        &mut self,
        (parent, generation): (&ObjectKey, Option<i64>),
        admission: Admission,
        outcome: CallOutcome,
        now: Instant,
        random: f64,
    ) -> Option<QuarantineChange> {
        match outcome {
            CallOutcome::NotRun => {
                let last_call = self.last_call_of(parent);
                if admission == Admission::Probe {
                    self.for_each_probes(parent, |probes| *probes.running_of(last_call) = None);
                }
                None
            }
            CallOutcome::Returned => {
                self.note_namespace(parent);
                self.succeeded(parent);
                let was_in = self.is_active();
                self.all = Scope::default();
                was_in.then_some(QuarantineChange::Cleared)
            }
            CallOutcome::Broke => {
                self.note_namespace(parent);
                self.failed((parent, generation), now, random);
                if let Some(namespace) = &parent.namespace {
                    let scope = self.namespaces.entry(namespace.clone()).or_default();
                    scope.broke(parent, admission, true, now, random);
                }
                // If all parents are in one namespace, its failures count for the whole component.
                let may_enter = !self.called_namespaces.several || self.all.is_in_several_namespaces_with(parent);
                self.all.broke(parent, admission, may_enter, now, random).then_some(QuarantineChange::Entered)
            }
        }
    }

    fn last_call_of(&self, parent: &ObjectKey) -> LastCall {
        if self.failing.contains_key(parent) {
            LastCall::Failed
        } else if self.succeeded.contains(parent) {
            LastCall::Succeeded
        } else {
            LastCall::Never
        }
    }

    fn namespace_of(&self, parent: &ObjectKey) -> Option<&Scope> {
        self.namespaces.get(parent.namespace.as_ref()?)
    }

    fn for_each_probes(&mut self, parent: &ObjectKey, mut act: impl FnMut(&mut Probes)) {
        let place = parent.namespace.as_ref().and_then(|namespace| self.namespaces.get_mut(namespace));
        for probes in [&mut self.all].into_iter().chain(place).filter_map(|scope| scope.probes.as_mut()) {
            act(probes);
        }
    }

    fn succeeded(&mut self, parent: &ObjectKey) {
        self.failing.remove(parent);
        if let Some(namespace) = &parent.namespace {
            self.namespaces.remove(namespace);
        }
        // Most parents are known already, so this avoids a clone.
        if !self.succeeded.contains(parent) && self.succeeded.len() < PARENTS_MAX {
            self.succeeded.insert(parent.clone());
        }
    }

    fn failed(&mut self, (parent, generation): (&ObjectKey, Option<i64>), now: Instant, random: f64) {
        self.succeeded.remove(parent);
        if self.failing.len() >= PARENTS_MAX && !self.failing.contains_key(parent) {
            return;
        }
        let first = Failing { failures: 0, last: now, generation, next: None };
        let own = self.failing.entry(parent.clone()).or_insert(first);
        let failures = own.failures.saturating_add(1);
        let next = failures.checked_sub(FAILURES).map(|failed| now + backoff(failed, random));
        *own = Failing { failures, last: now, generation, next };
    }

    /// Records that a parent of this namespace was called.
    fn note_namespace(&mut self, parent: &ObjectKey) {
        let CalledNamespaces { one, several } = &mut self.called_namespaces;
        match (one.as_ref(), &parent.namespace) {
            (Some(one), Some(namespace)) => *several |= one != namespace,
            (None, Some(namespace)) => *one = Some(namespace.clone()),
            (_, None) => {}
        }
    }

    /// Drops the state of a parent that no longer exists. A parent that is being deleted may still be called to
    /// finalize.
    pub fn forget(&mut self, parent: &ObjectKey) {
        self.succeeded.remove(parent);
        if self.failing.remove(parent).is_none() || self.failing.keys().any(|other| other.namespace == parent.namespace)
        {
            return;
        }
        if let Some(namespace) = &parent.namespace {
            self.namespaces.remove(namespace);
        }
    }

    /// Returns true if the whole component is in quarantine.
    pub fn is_active(&self) -> bool {
        self.all.probes.is_some()
    }
}

#[cfg(test)]
mod tests {
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
            change =
                change.or(call(&mut quarantine, &key(["a", "b"][at % 2], &format!("p{at}")), CallOutcome::Broke, now));
        }
        assert_eq!(change, Some(QuarantineChange::Entered));
        // New parents that trap keep appearing, and one of them never reports a result.
        for at in 0..20 {
            now += secs(5);
            call(&mut quarantine, &key("c", &format!("new-{at}")), CallOutcome::Broke, now);
        }
        assert_eq!(quarantine.admit(&key("d", "hangs"), Some(1), now + secs(5)), Admission::Probe);
        assert_eq!(quarantine.admit(&good, Some(2), now), Admission::Denied(secs(1)));
        assert_eq!(
            quarantine.admit(&good, Some(2), now + secs(6)),
            Admission::Probe,
            "it does not wait for new parents"
        );
        let changed =
            quarantine.record((&good, Some(2)), Admission::Probe, CallOutcome::Returned, now + secs(6), MIDDLE);
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
            assert_eq!(
                quarantine.admit(&key("a", "good"), Some(1), now),
                Admission::Call,
                "its neighbour is not delayed"
            );
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
            CallFailure::Deadline { limit: secs(1) },
            CallFailure::Memory { limit: 1 },
            CallFailure::TableElements { limit: 1 },
            CallFailure::Instances { limit: 1 },
            CallFailure::StackOverflow,
            CallFailure::Trap { message: text() },
            CallFailure::UnsupportedImport { name: text() },
            CallFailure::Exit { message: None },
        ] {
            assert_eq!(of(failure), CallOutcome::Broke);
        }
        assert_eq!(of(CallFailure::ResponseTooLarge { limit: 1 }), CallOutcome::Returned);
        assert_eq!(of(CallFailure::Malformed { message: text() }), CallOutcome::Returned);
        assert_eq!(of(CallFailure::RequestTooLarge { size: 2, limit: 1 }), CallOutcome::NotRun);
        assert_eq!(of(CallFailure::Host { message: text() }), CallOutcome::NotRun);
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
}
