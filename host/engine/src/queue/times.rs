//! Computes when a key runs again: after failures, and at a random time. The current time and random numbers are
//! arguments.

use std::time::{Duration, Instant};

use windlass_core::guard::backoff::{self, backoff_between};

/// Longest backoff while the API server fails and few keys wait for it.
const UNAVAILABLE_MAX: Duration = Duration::from_secs(15);
/// Part of the longest backoff for each waiting key, if their sum exceeds [`UNAVAILABLE_MAX`]: all waiting keys
/// together send at most 50 requests a second.
const UNAVAILABLE_APART: Duration = Duration::from_millis(20);
/// Longest timer. A longer wait has no practical effect, and could overflow a time.
pub(super) const DELAY_MAX: Duration = Duration::from_hours(24 * 365);
/// Deferred keys are batched to share wake-ups: a span is divided into at least this many batches.
const CROWDS: u32 = 64;
/// Longest time between two batches.
const CROWDS_APART_MAX: Duration = Duration::from_millis(250);

/// The backoff of one of `waiting` keys whose last run failed because of the API server. `random` (0 to 1) selects the
/// jitter.
pub(super) fn backoff_of_unavailable(failures: u32, waiting: usize, random: f64) -> Duration {
    let apart = UNAVAILABLE_APART.saturating_mul(u32::try_from(waiting).unwrap_or(u32::MAX));
    backoff_between(backoff::FIRST, apart.clamp(UNAVAILABLE_MAX, backoff::LONGEST), failures, random)
}

/// The time of the batch that `random` (0 to 1) selects from a span, not before the span begins. Batches are counted
/// from `origin`.
pub(super) fn moment(origin: Instant, begin: Instant, span: Duration, random: f64) -> Instant {
    let after_begin = span.mul_f64(random);
    let apart = (span / CROWDS).min(CROWDS_APART_MAX).as_nanos().max(1);
    let after_crowd = (begin.saturating_duration_since(origin) + after_begin).as_nanos() % apart;
    begin + after_begin.saturating_sub(Duration::from_nanos(u64::try_from(after_crowd).unwrap_or_default()))
}
