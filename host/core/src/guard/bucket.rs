//! A token bucket that limits what a plugin emits: it admits bursts, drops floods, and counts what it drops.

use std::time::Duration;

use jiff::Timestamp;

/// Minimum interval between reports of dropped items, in seconds.
const REPORT_INTERVAL: i64 = 60;

/// A rate limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Number of tokens available at once.
    pub burst: f64,
    /// Number of tokens added per second.
    pub per_second: f64,
}

/// A token bucket.
#[derive(Debug)]
pub struct Bucket {
    rate: Rate,
    tokens: f64,
    at: Timestamp,
    dropped: u64,
    /// Time of the last report of dropped items, in seconds since 1970.
    last_report: Option<i64>,
}

impl Bucket {
    /// Creates a full bucket.
    pub fn new(rate: Rate, now: Timestamp) -> Self {
        Self { rate, tokens: rate.burst, at: now, dropped: 0, last_report: None }
    }

    /// Takes tokens if at least `kept` tokens remain afterwards, and returns true; otherwise counts a drop.
    pub fn take(&mut self, tokens: f64, kept: f64, now: Timestamp) -> bool {
        let is_admitted = self.spend(tokens, (kept, f64::INFINITY), now).is_ok();
        self.dropped += u64::from(!is_admitted);
        is_admitted
    }

    /// Takes tokens if they are available beside those that are kept. Of more than `most`, only so many need be available: the balance becomes
    /// negative.
    ///
    /// # Errors
    /// The time until they are available.
    pub fn spend(&mut self, tokens: f64, (kept, most): (f64, f64), now: Timestamp) -> Result<(), Duration> {
        self.fill(now);
        let needed = kept + tokens.min(most);
        if self.tokens < needed {
            let missing = (needed - self.tokens) / self.rate.per_second;
            return Err(Duration::try_from_secs_f64(missing).unwrap_or(Duration::MAX));
        }
        self.tokens -= tokens;
        Ok(())
    }

    /// Number of available tokens.
    pub fn level(&mut self, now: Timestamp) -> f64 {
        self.fill(now);
        self.tokens
    }

    /// Adds items that were dropped for another reason.
    pub fn add_dropped(&mut self, count: u64) {
        self.dropped += count;
    }

    /// Returns the number of dropped items since the last report; `None` if there are none, or if that report was less
    /// than a minute ago.
    pub fn take_dropped(&mut self, now: Timestamp) -> Option<u64> {
        let seconds = now.as_second();
        if self.dropped == 0 || self.last_report.is_some_and(|last| seconds - last < REPORT_INTERVAL) {
            return None;
        }
        self.last_report = Some(seconds);
        Some(std::mem::take(&mut self.dropped))
    }

    /// Adds the tokens for the time that has passed. A clock that was set back adds none.
    fn fill(&mut self, now: Timestamp) {
        let passed = now.duration_since(self.at).as_secs_f64().max(0.0);
        self.tokens = (self.tokens + passed * self.rate.per_second).min(self.rate.burst);
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).expect("a time")
    }

    #[test]
    fn burst_is_admitted_and_drops_are_counted_and_reported_once_a_minute() {
        let mut bucket = Bucket::new(Rate { burst: 10.0, per_second: 2.0 }, at(0));
        assert!(bucket.take(4.0, 6.0, at(0)) && !bucket.take(1.0, 6.0, at(0)), "six tokens are reserved");
        assert!(bucket.take(6.0, 0.0, at(0)) && !bucket.take(1.0, 0.0, at(0)));
        assert_eq!(bucket.take_dropped(at(0)), Some(2));
        bucket.add_dropped(3);
        assert_eq!(bucket.take_dropped(at(59)), None, "the last report is less than a minute old");
        assert_eq!(bucket.take_dropped(at(60)), Some(3));
        assert_eq!(bucket.take_dropped(at(200)), None, "nothing was dropped");
    }

    #[test]
    fn tokens_refill_at_the_rate_up_to_the_burst() {
        let mut bucket = Bucket::new(Rate { burst: 10.0, per_second: 2.0 }, at(0));
        assert!(bucket.take(10.0, 0.0, at(0)) && bucket.level(at(4)) < 10.0);
        assert!(!bucket.take(9.0, 0.0, at(4)) && bucket.take(8.0, 0.0, at(4)));
        assert!(!bucket.take(1.0, 0.0, at(0)), "a clock that is set back adds no tokens");
        assert_eq!(bucket.take_dropped(at(1000)), Some(2));
        assert!(bucket.level(at(1000)) >= 10.0 && !bucket.take(11.0, 0.0, at(1000)));
    }
}
