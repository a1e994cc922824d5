//! A component of a registry that could not be loaded. While the Plugin requests the same component, it is not fetched
//! or compiled again: for good if the component is the cause, or for some time if the machine may be.

use std::time::{Duration, Instant};

use windlass_core::reconcile::outcome::Requeue;
use windlass_core::value::digest::Digest;
use windlass_delivery::Wanted;

use super::problem::{Problem, RESYNC};

/// Time until a temporary failure is retried; doubled at each further failure, up to [`RESYNC`].
const FIRST_WAIT: Duration = Duration::from_secs(5);

/// Why a component was not loaded.
pub(super) struct Refusal {
    wanted: Wanted,
    /// The problem to report at the time of the failure.
    pub problem: Problem,
    /// When the refusal began, and how long it applies; none if it applies for good.
    wait: Option<(Instant, Duration)>,
}

impl Refusal {
    /// A refusal of this request; `before` is the previous refusal.
    pub(super) fn new(wanted: &Wanted, problem: Problem, before: Option<Self>, now: Instant) -> Self {
        let again = before.filter(|before| before.is_of(wanted, problem.candidate));
        let wait = match problem.requeue {
            Requeue::Backoff(at_least) | Requeue::Unavailable(at_least) => {
                let next = again.and_then(|again| again.wait).map_or(FIRST_WAIT, |(_, wait)| 2 * wait);
                Some((now, next.max(at_least).min(RESYNC)))
            }
            Requeue::Settled(_) | Requeue::Pause(_) | Requeue::After(_) | Requeue::WhenChanged | Requeue::Gone => None,
        };
        let requeue = wait.map_or(problem.requeue, |(_, wait)| Requeue::Pause(wait));
        Self { wanted: wanted.clone(), problem: Problem { requeue, ..problem }, wait }
    }

    /// The problem to report now, if the refusal still applies to this component.
    pub(super) fn holds(&self, wanted: &Wanted, digest: Digest, now: Instant) -> Option<Problem> {
        if !self.is_of(wanted, Some(digest)) {
            return None;
        }
        let Some((since, wait)) = self.wait else { return Some(self.problem.clone()) };
        let rest = wait.checked_sub(now.saturating_duration_since(since)).filter(|rest| !rest.is_zero())?;
        Some(Problem { requeue: Requeue::Pause(rest), ..self.problem.clone() })
    }

    fn is_of(&self, wanted: &Wanted, digest: Option<Digest>) -> bool {
        self.wanted == *wanted && self.problem.candidate == digest
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::object::reason::PluginReason;

    use super::*;
    use crate::plugins::problem::Step;
    use windlass_api::OciSource;

    fn wanted(reference: &str) -> Wanted {
        let source = OciSource { reference: reference.to_owned(), ..OciSource::default() };
        Wanted { source, pinned: None, verify: None, pushed_at: None }
    }

    fn component() -> Digest {
        Digest::of(b"component")
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn passing(at_least: u64) -> Problem {
        let problem =
            Problem::new(Step::Compiled, PluginReason::CompileInterrupted, "the disk is full").of(component());
        Problem { requeue: Requeue::Backoff(seconds(at_least)), ..problem }
    }

    #[test]
    fn invalid_component_is_rejected_until_the_plugin_requests_something_else() {
        let (now, wanted) = (Instant::now(), wanted("registry/echo:1"));
        let problem =
            Problem::lasting(Step::Compiled, PluginReason::NotAComponent, "it is not a component").of(component());
        let refusal = Refusal::new(&wanted, problem, None, now);
        let later = now + seconds(1_000_000);
        let rejected = refusal.holds(&wanted, component(), later).expect("refused");
        assert_eq!((rejected.reason, rejected.requeue), (PluginReason::NotAComponent, Requeue::Settled(None)));
        assert!(refusal.holds(&wanted, Digest::of(b"another"), now).is_none());
        let pushed = Wanted { pushed_at: Some("now".to_owned()), ..wanted };
        assert!(refusal.holds(&pushed, component(), now).is_none(), "a user pushed it again");
    }

    #[test]
    fn temporary_failure_is_retried_with_growing_waits_of_at_most_ten_minutes() {
        let (mut now, wanted) = (Instant::now(), wanted("registry/echo:1"));
        let mut refusal = None;
        for wait in [5, 10, 20, 40, 80, 160, 320, 600, 600] {
            let next = Refusal::new(&wanted, passing(0), refusal.take(), now);
            assert_eq!(next.problem.requeue, Requeue::Pause(seconds(wait)));
            // Other events of the Plugin in between do not change that.
            let rejected = next.holds(&wanted, component(), now + seconds(2)).expect("refused");
            assert_eq!(rejected.requeue, Requeue::Pause(seconds(wait - 2)));
            now += seconds(wait);
            assert!(next.holds(&wanted, component(), now).is_none(), "after {wait} s");
            refusal = Some(next);
        }
        let other = self::wanted("registry/echo:2");
        let next = Refusal::new(&other, passing(0), refusal, now);
        assert_eq!(next.problem.requeue, Requeue::Pause(seconds(5)), "another request starts with the first wait");
    }

    #[test]
    fn failure_that_took_long_is_retried_after_its_own_minimum_wait() {
        let (now, wanted) = (Instant::now(), wanted("registry/echo:1"));
        for (at_least, wait) in [(1, 5), (480, 480), (6000, 600)] {
            let refusal = Refusal::new(&wanted, passing(at_least), None, now);
            assert_eq!(refusal.problem.requeue, Requeue::Pause(seconds(wait)));
        }
    }
}
