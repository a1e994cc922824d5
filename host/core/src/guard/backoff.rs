//! The exponential backoff that all retries of the host use (rule R13). Randomness is an argument.

use std::time::Duration;

/// Wait after the first failure, before jitter.
pub const FIRST: Duration = Duration::from_secs(1);
/// Longest wait, before jitter.
pub const LONGEST: Duration = Duration::from_mins(5);

/// Part of a wait that the jitter adds or subtracts at most.
const JITTER: f64 = 0.2;

/// The wait after this number of earlier failures, from [`FIRST`] to [`LONGEST`]. `random` is a uniform random number
/// from 0 to 1; at 0.5 there is no jitter.
pub fn backoff(failures: u32, random: f64) -> Duration {
    backoff_between(FIRST, LONGEST, failures, random)
}

/// [`backoff`] with other bounds: `first` doubles with each failure until it reaches `longest`. Jitter of ±20 % spreads
/// the retries of keys that failed at the same time.
pub fn backoff_between(first: Duration, longest: Duration, failures: u32, random: f64) -> Duration {
    let plain = first.saturating_mul(2_u32.saturating_pow(failures)).min(longest);
    plain.mul_f64(1.0 - JITTER + 2.0 * JITTER * random.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r13_a_backoff_doubles_from_a_second_to_five_minutes_with_a_fifth_of_jitter() {
        for (random, millis) in [(0.0, 800), (0.5, 1000), (1.0, 1200)] {
            assert_eq!(backoff(0, random), Duration::from_millis(millis));
        }
        let plain: Vec<_> = (0..10).map(|failures| backoff(failures, 0.5).as_secs()).collect();
        assert_eq!(plain, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert_eq!(backoff(u32::MAX, 1.0), Duration::from_mins(6));
        let (first, longest) = (Duration::from_secs(5), Duration::from_secs(15));
        assert_eq!([0, 1, 2].map(|failures| backoff_between(first, longest, failures, 0.5).as_secs()), [5, 10, 15]);
    }
}
