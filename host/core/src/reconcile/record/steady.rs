//! Remembers that a parent is in steady state: an equal snapshot needs no call, and an equal response about the same
//! objects needs no more than the call (rule R17).
//!
//! Two hashes and two times are kept for each such parent. The hashes cover everything that the decision depended on, so
//! they also match with another component or config only if the decision would be the same.

use std::num::NonZero;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::contract::desired;
use crate::reconcile::outcome::Requeue;
use crate::value::digest::Digest;

/// The inputs that are known to need no write, for one parent.
#[derive(Debug, Default)]
pub struct Steady {
    settled: Option<Settled>,
    /// When the values of the parent's children were last compared with the desired ones; none if not since the host
    /// started.
    compared: Option<Instant>,
}

/// The inputs of a reconcile that needed no write. A reconcile with equal inputs needs none either.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Inputs {
    /// The id of the component's state, and the hash of the snapshot; none if the call was impure. With another state
    /// the plugin must be called again, because other parents may wait for this call.
    pub call: Option<(u64, Digest)>,
    /// The hash of the response and its objects; none if the response has events, because events are emitted each time.
    pub response: Option<Digest>,
    /// The time from which the call counts no more, in milliseconds since 1970; none if it counts for good.
    pub until: Option<NonZero<u64>>,
    /// By what changes of the children were found.
    pub compared: Compared,
}

/// By what changes of children are found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Compared {
    /// By their managedFields alone.
    #[default]
    ManagedFields,
    /// Also by their values, which are compared with the desired ones.
    Values,
}

#[derive(Debug)]
struct Settled {
    call: Option<(u64, Short)>,
    response: Option<Short>,
    /// The time from which the call counts no more.
    until: Option<NonZero<u64>>,
    /// Time until the next reconcile that the plugin requested, if any.
    asked: Option<Duration>,
    compared: Compared,
}

/// The first half of a digest: enough to tell the snapshots of one parent apart.
type Short = [u8; 16];

fn short(digest: Digest) -> Short {
    digest.as_bytes().first_chunk().copied().unwrap_or_default()
}

impl Steady {
    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.settled.is_none() && self.compared.is_none()
    }

    /// When to reconcile again, if this snapshot needed no write with this component state; and its children were
    /// compared at least in this way. Otherwise none.
    pub fn before_call(&self, state: u64, snapshot: Digest, compared: Compared, now: Timestamp) -> Option<Requeue> {
        let counts = |settled: &Settled| settled.until.is_none_or(|until| desired::until(until, now).is_some());
        self.find(compared, now, |settled| settled.call == Some((state, short(snapshot))) && counts(settled))
    }

    /// When to reconcile again, if this response about these objects needed no write; and the children were
    /// compared at least in this way. Otherwise none.
    pub fn before_plan(&self, response: Digest, compared: Compared, now: Timestamp) -> Option<Requeue> {
        self.find(compared, now, |settled| settled.response == Some(short(response)))
    }

    fn find(&self, compared: Compared, now: Timestamp, is_same: impl Fn(&Settled) -> bool) -> Option<Requeue> {
        let was_compared = |settled: &Settled| [settled.compared, Compared::ManagedFields].contains(&compared);
        let found = self.settled.as_ref().filter(|settled| is_same(settled) && was_compared(settled));
        found.map(|Settled { asked, until, .. }| Requeue::Settled(earlier(*asked, *until, now)))
    }

    /// Whether the values of the parent's children must be compared, because they were not within this interval.
    /// Resyncs do not decide this, because a parent that changes often has none.
    pub fn is_comparison_due(&self, interval: Duration, now: Instant) -> bool {
        self.compared.is_none_or(|last| now.saturating_duration_since(last) >= interval)
    }

    /// Records that the values of the parent's children were compared.
    pub fn note_compared(&mut self, now: Instant) {
        self.compared = Some(now);
    }

    /// Records that the parent is in steady state: these inputs needed no write.
    pub fn keep(&mut self, inputs: Inputs, asked: Option<Duration>) {
        let Inputs { call, response, until, compared } = inputs;
        let call = call.map(|(state, snapshot)| (state, short(snapshot)));
        let is_known = call.is_some() || response.is_some();
        self.settled = is_known.then(|| Settled { call, response: response.map(short), until, asked, compared });
    }

    /// Records the inputs of another call that gave the same response about the same objects.
    pub fn keep_after_call(&mut self, inputs: Inputs) {
        if let Some(Settled { asked, compared, until, .. }) = self.settled {
            self.keep(Inputs { until, compared, ..inputs }, asked);
        }
    }

    /// Records that the parent is no longer in steady state.
    pub fn end(&mut self) {
        self.settled = None;
    }
}

/// How often a parent whose plugin named a time is looked at, so that a clock that is set forward, or a machine that slept, is noticed.
const LOOK_AT_CLOCK: Duration = Duration::from_mins(10);

/// The wait until the host looks again at a parent whose plugin asked for a wait, and for a time: the earlier of both, and at least a second.
pub fn earlier(asked: Option<Duration>, at: Option<NonZero<u64>>, now: Timestamp) -> Option<Duration> {
    let until = at.map(|at| desired::until(at, now).unwrap_or(Duration::from_secs(1)).min(LOOK_AT_CLOCK));
    asked.into_iter().chain(until).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_RESYNC: Requeue = Requeue::Settled(None);
    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn call(name: &[u8]) -> Inputs {
        Inputs { call: Some((1, Digest::of(name))), response: None, until: None, compared: Compared::ManagedFields }
    }

    #[test]
    fn r17_call_is_skipped_only_for_the_snapshot_that_needed_no_write() {
        let mut web = Steady::default();
        let (old, new) = (Digest::of(b"old"), Digest::of(b"new"));
        assert_eq!(web.before_call(1, old, Compared::ManagedFields, NOW), None);
        let soon = Requeue::Settled(Some(Duration::from_secs(5)));
        web.keep(call(b"old"), Some(Duration::from_secs(5)));
        assert_eq!(
            (
                web.before_call(1, old, Compared::ManagedFields, NOW),
                web.before_call(1, new, Compared::ManagedFields, NOW)
            ),
            (Some(soon), None)
        );
        web.keep(call(b"new"), None);
        assert_eq!(
            (
                web.before_call(1, old, Compared::ManagedFields, NOW),
                web.before_call(1, new, Compared::ManagedFields, NOW)
            ),
            (None, Some(AT_RESYNC))
        );
        assert_eq!(
            web.before_call(2, new, Compared::ManagedFields, NOW),
            None,
            "a new component state needs a call, because other parents may wait for it"
        );
        web.end();
        assert_eq!(web.before_call(1, new, Compared::ManagedFields, NOW), None);
    }

    #[test]
    fn s06_values_are_compared_at_the_start_and_once_per_interval_whatever_events_arrive() {
        let (mut web, interval, began) = (Steady::default(), Duration::from_mins(10), Instant::now());
        assert!(web.is_comparison_due(interval, began), "the first reconcile compares");
        web.note_compared(began);
        web.end();
        assert!(
            !web.is_comparison_due(interval, began + Duration::from_secs(599)),
            "an event does not make a comparison due"
        );
        assert!(
            web.is_comparison_due(interval, began + interval),
            "due without a resync, because a parent with many events has none"
        );
        web.note_compared(began + interval);
        assert!(!web.is_comparison_due(interval, began + interval + Duration::from_secs(599)));
    }

    #[test]
    fn s06_comparison_is_skipped_only_for_inputs_that_were_compared_before() {
        let (mut web, call, response) = (Steady::default(), Digest::of(b"call"), Digest::of(b"response"));
        let inputs =
            Inputs { call: Some((1, call)), response: Some(response), until: None, compared: Compared::ManagedFields };
        web.keep(inputs, None);
        assert_eq!(
            (web.before_call(1, call, Compared::ManagedFields, NOW), web.before_call(1, call, Compared::Values, NOW)),
            (Some(AT_RESYNC), None)
        );
        assert_eq!(
            (web.before_plan(response, Compared::ManagedFields, NOW), web.before_plan(response, Compared::Values, NOW)),
            (Some(AT_RESYNC), None)
        );
        web.keep(Inputs { compared: Compared::Values, ..inputs }, None);
        assert_eq!(web.before_call(1, call, Compared::Values, NOW), Some(AT_RESYNC));
        let again = Digest::of(b"again");
        web.keep_after_call(Inputs { call: Some((1, again)), ..inputs });
        assert_eq!(
            web.before_call(1, again, Compared::Values, NOW),
            Some(AT_RESYNC),
            "these objects were compared before"
        );
    }

    #[test]
    fn r17_response_that_needed_no_write_needs_none_again_whatever_the_call_was() {
        let (mut web, response) = (Steady::default(), Digest::of(b"response"));
        web.keep(Inputs { response: Some(response), ..Inputs::default() }, None);
        assert_eq!(web.before_plan(response, Compared::ManagedFields, NOW), Some(AT_RESYNC), "also for an impure call");
        assert_eq!(
            (
                web.before_plan(Digest::of(b"other"), Compared::ManagedFields, NOW),
                web.before_call(1, response, Compared::ManagedFields, NOW)
            ),
            (None, None)
        );
    }

    #[test]
    fn r17_response_with_events_to_an_impure_call_is_not_remembered() {
        let mut web = Steady::default();
        web.keep(call(b"call"), None);
        web.keep(Inputs { compared: Compared::Values, ..Inputs::default() }, None);
        assert!(web.is_empty());
    }

    #[test]
    fn r17_call_of_a_plugin_with_a_clock_counts_until_the_time_that_it_named() {
        let (mut web, snapshot) = (Steady::default(), Digest::of(b"snapshot"));
        let at = |seconds: i64| Timestamp::from_second(seconds).expect("a time");
        let seconds = |wait: u64| Some(Requeue::Settled(Some(Duration::from_secs(wait))));
        let inputs = Inputs { call: Some((1, snapshot)), until: NonZero::new(3_600_000), ..Inputs::default() };
        web.keep(inputs, None);
        let next = |web: &Steady, now| web.before_call(1, snapshot, Compared::ManagedFields, at(now));
        assert_eq!(next(&web, 0), seconds(600), "the clock may be set forward");
        assert_eq!(next(&web, 3500), seconds(100), "an event in between puts the time off by nothing");
        assert_eq!((next(&web, 3600), next(&web, 9000)), (None, None));
        assert_eq!(next(&web, 60), seconds(600), "the clock was set back");
        web.keep(inputs, Some(Duration::from_secs(5)));
        assert_eq!(next(&web, 0), seconds(5), "the earlier of both");
        assert_eq!(earlier(None, NonZero::new(1), at(9)), Some(Duration::from_secs(1)), "a time that has passed");
        assert_eq!(earlier(None, None, at(9)), None);
    }
}
