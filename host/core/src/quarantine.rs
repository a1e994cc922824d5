//! Logic that traps or times out every time is asked only now and then (rule R19): each such call costs the host as much
//! time as it may cost at all.

use std::time::{Duration, Instant};

use crate::contract::CallFailure;

/// So many failures in a row lead into quarantine.
const FAILURES: u32 = 5;
/// Time to the first probe; each failed one doubles it.
const BACKOFF_MIN: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_mins(5);
/// A probe that has not reported by then never will: its reconcile was given up. Longer than a call waits and runs.
const PROBE_PATIENCE: Duration = Duration::from_mins(1);

/// How the calls of one live digest went lately. A new digest begins with a new one.
#[derive(Debug, Default)]
pub struct Quarantine {
    /// In a row.
    failures: u32,
    /// When the next probe may run; set while in quarantine.
    next_probe: Option<Instant>,
    /// When the probe began that has not reported yet.
    probing: Option<Instant>,
}

/// Whether a call may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Yes, like any other.
    Call,
    /// Yes, and it decides how quarantine goes on. While it runs nobody else is admitted.
    Probe,
    /// Not before this time is over.
    Denied(Duration),
}

/// How a call ended, as far as quarantine goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The guest came back, with whatever answer.
    Returned,
    /// The guest had to be stopped, or fell over.
    Broke,
    /// The guest never ran, so this says nothing of it.
    NotRun,
}

/// What changed for the whole plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Now in quarantine: the Plugin is degraded.
    Entered,
    /// No longer: the Plugin is not degraded by this, and all parents that were denied may be queued again.
    Cleared,
}

impl Outcome {
    /// Of a call: only what burns the host's time, or ends the guest, counts against it. A bad answer is its parent's
    /// problem, and comes back at the speed of any other.
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
                | CallFailure::UnknownImport { .. }
                | CallFailure::Exit { .. },
            ) => Self::Broke,
            Err(CallFailure::RequestTooLarge { .. } | CallFailure::Host { .. }) => Self::NotRun,
        }
    }
}

impl Quarantine {
    /// Whether a call may be made now. Whoever is admitted [records](Self::record) how it ended.
    pub fn admit(&mut self, now: Instant) -> Admission {
        let Some(next_probe) = self.next_probe else { return Admission::Call };
        let patience_ends = self.probing.map(|since| since + PROBE_PATIENCE);
        let wait = patience_ends.unwrap_or(next_probe).saturating_duration_since(now);
        if wait.is_zero() {
            self.probing = Some(now);
            Admission::Probe
        } else {
            Admission::Denied(wait)
        }
    }

    /// Takes note of how an admitted call ended. `chance` (0 to 1) moves the time of the next probe.
    pub fn record(&mut self, admission: Admission, outcome: Outcome, now: Instant, chance: f64) -> Option<Change> {
        let is_probe = admission == Admission::Probe;
        if is_probe {
            self.probing = None;
        }
        match outcome {
            Outcome::NotRun => None,
            Outcome::Returned => {
                let was_in = self.is_active();
                *self = Self::default();
                was_in.then_some(Change::Cleared)
            }
            // A call from before: the probes decide now.
            Outcome::Broke if self.is_active() && !is_probe => None,
            Outcome::Broke => {
                let was_in = self.is_active();
                self.failures = self.failures.saturating_add(1);
                if self.failures < FAILURES {
                    return None;
                }
                self.next_probe = Some(now + backoff(self.failures - FAILURES, chance));
                (!was_in).then_some(Change::Entered)
            }
        }
    }

    /// Whether the digest is in quarantine.
    pub fn is_active(&self) -> bool {
        self.next_probe.is_some()
    }
}

/// Exponential, with ±20 % of chance so that plugins that broke together are not probed together.
fn backoff(failed_probes: u32, chance: f64) -> Duration {
    let plain = BACKOFF_MIN.saturating_mul(2_u32.saturating_pow(failed_probes)).min(BACKOFF_MAX);
    plain.mul_f64(0.8 + 0.4 * chance.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIDDLE: f64 = 0.5;

    fn broken(quarantine: &mut Quarantine, now: Instant) -> Option<Change> {
        let admission = quarantine.admit(now);
        quarantine.record(admission, Outcome::Broke, now, MIDDLE)
    }

    fn entered(now: Instant) -> Quarantine {
        let mut quarantine = Quarantine::default();
        assert_eq!([(); 4].map(|()| broken(&mut quarantine, now)), [None; 4]);
        assert_eq!(broken(&mut quarantine, now), Some(Change::Entered));
        quarantine
    }

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn r19_five_failures_in_a_row_lead_into_quarantine() {
        let now = Instant::now();
        let mut quarantine = entered(now);
        assert_eq!(quarantine.admit(now), Admission::Denied(secs(1)));
        assert_eq!(quarantine.admit(now + Duration::from_millis(400)), Admission::Denied(Duration::from_millis(600)));
    }

    #[test]
    fn r19_an_answer_in_between_starts_the_count_anew() {
        let now = Instant::now();
        let mut quarantine = Quarantine::default();
        for _ in 0..3 {
            for _ in 0..4 {
                assert_eq!(broken(&mut quarantine, now), None);
            }
            assert_eq!(quarantine.record(Admission::Call, Outcome::Returned, now, MIDDLE), None);
        }
        assert_eq!(quarantine.admit(now), Admission::Call);
    }

    #[test]
    fn r19_a_call_that_never_ran_neither_counts_nor_clears() {
        let now = Instant::now();
        let mut quarantine = Quarantine::default();
        for _ in 0..4 {
            broken(&mut quarantine, now);
            quarantine.record(Admission::Call, Outcome::NotRun, now, MIDDLE);
        }
        assert_eq!(broken(&mut quarantine, now), Some(Change::Entered));
        let later = now + secs(1);
        assert_eq!(quarantine.admit(later), Admission::Probe);
        assert_eq!(quarantine.record(Admission::Probe, Outcome::NotRun, later, MIDDLE), None);
        assert_eq!(quarantine.admit(later), Admission::Probe, "somebody else's turn");
    }

    #[test]
    fn r19_one_probe_a_backoff_that_doubles_to_five_minutes() {
        let mut now = Instant::now();
        let mut quarantine = entered(now);
        let mut waits = Vec::new();
        for _ in 0..11 {
            let Admission::Denied(wait) = quarantine.admit(now) else { panic!("admitted") };
            waits.push(wait.as_secs());
            now += wait;
            assert_eq!(quarantine.admit(now), Admission::Probe);
            assert_eq!(quarantine.record(Admission::Probe, Outcome::Broke, now, MIDDLE), None);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    }

    #[test]
    fn r19_chance_moves_the_probe_by_a_fifth() {
        for (chance, millis) in [(0.0, 800), (1.0, 1200)] {
            assert_eq!(backoff(0, chance), Duration::from_millis(millis));
        }
        assert_eq!(backoff(u32::MAX, 1.0), secs(360));
    }

    #[test]
    fn r19_while_a_probe_runs_nobody_else_is_admitted_but_a_lost_one_locks_nothing() {
        let now = Instant::now();
        let mut quarantine = entered(now);
        let probed = now + secs(1);
        assert_eq!(quarantine.admit(probed), Admission::Probe);
        assert_eq!(quarantine.admit(probed + secs(10)), Admission::Denied(secs(50)));
        assert_eq!(quarantine.admit(probed + secs(60)), Admission::Probe);
    }

    #[test]
    fn r19_a_success_clears_it_whoever_had_it() {
        let now = Instant::now();
        for admission in [Admission::Probe, Admission::Call] {
            let mut quarantine = entered(now);
            assert_eq!(quarantine.record(admission, Outcome::Returned, now, MIDDLE), Some(Change::Cleared));
            assert_eq!(quarantine.admit(now), Admission::Call);
            assert_eq!([(); 4].map(|()| broken(&mut quarantine, now)), [None; 4], "from the beginning");
        }
    }

    #[test]
    fn r19_calls_from_before_the_quarantine_do_not_prolong_it() {
        let now = Instant::now();
        let mut quarantine = entered(now);
        for _ in 0..8 {
            assert_eq!(quarantine.record(Admission::Call, Outcome::Broke, now, MIDDLE), None);
        }
        assert_eq!(quarantine.admit(now), Admission::Denied(secs(1)));
    }

    #[test]
    fn r19_only_what_burns_time_or_ends_the_guest_counts() {
        let text = || "x".to_owned();
        let of = |failure| Outcome::of::<()>(&Err(failure));
        assert_eq!(Outcome::of(&Ok(())), Outcome::Returned);
        for failure in [
            CallFailure::Deadline { limit: secs(1) },
            CallFailure::Memory { limit: 1 },
            CallFailure::TableElements { limit: 1 },
            CallFailure::Instances { limit: 1 },
            CallFailure::StackOverflow,
            CallFailure::Trap { message: text() },
            CallFailure::UnknownImport { name: text() },
            CallFailure::Exit { said: None },
        ] {
            assert_eq!(of(failure), Outcome::Broke);
        }
        assert_eq!(of(CallFailure::ResponseTooLarge { limit: 1 }), Outcome::Returned);
        assert_eq!(of(CallFailure::Malformed { message: text() }), Outcome::Returned);
        assert_eq!(of(CallFailure::RequestTooLarge { size: 2, limit: 1 }), Outcome::NotRun);
        assert_eq!(of(CallFailure::Host { message: text() }), Outcome::NotRun);
    }

    proptest! {
        #[test]
        fn r19_broken_logic_is_called_once_a_backoff_however_many_ask(
            pauses in proptest::collection::vec(0_u64..3000, 1..400), chance in 0.0..1.0_f64
        ) {
            let mut quarantine = Quarantine::default();
            let start = Instant::now();
            let mut now = start;
            let mut calls: u32 = 0;
            for pause in pauses {
                now += Duration::from_millis(pause);
                let admission = quarantine.admit(now);
                if !matches!(admission, Admission::Denied(_)) {
                    calls += 1;
                    quarantine.record(admission, Outcome::Broke, now, chance);
                }
            }
            let mut probes = 0;
            let mut earliest = backoff(0, 0.0);
            while earliest <= now - start {
                probes += 1;
                earliest += backoff(probes, 0.0);
            }
            prop_assert!(calls <= FAILURES + probes, "{} calls, {} probes", calls, probes);
            if calls >= FAILURES {
                prop_assert_eq!(quarantine.admit(now + backoff(u32::MAX, 1.0)), Admission::Probe);
            }
        }
    }
}
