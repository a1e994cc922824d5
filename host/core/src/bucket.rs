//! What a plugin may say of its own accord: a burst is let through, a flood is not, and what is dropped is counted.

use std::time::Duration;

use jiff::Timestamp;

/// What is dropped is said at most so often, in seconds.
const SAY_DROPPED_EVERY: i64 = 60;

/// How much may be said.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// At once.
    pub burst: f64,
    /// Each second from then on.
    pub per_second: f64,
}

/// A token bucket.
#[derive(Debug)]
pub struct Bucket {
    rate: Rate,
    tokens: f64,
    at: Timestamp,
    dropped: u64,
    /// When drops were said last, in seconds since 1970.
    said: Option<i64>,
}

impl Bucket {
    /// A full one.
    pub fn new(rate: Rate, now: Timestamp) -> Self {
        Self { rate, tokens: rate.burst, at: now, dropped: 0, said: None }
    }

    /// Takes so many tokens if at least as many as are to be kept remain; counts what is dropped.
    pub fn take(&mut self, tokens: f64, kept: f64, now: Timestamp) -> bool {
        self.fill(now);
        if self.tokens < kept + tokens {
            self.dropped += 1;
            return false;
        }
        self.tokens -= tokens;
        true
    }

    /// Takes so many tokens if there is one; what is missing is owed.
    ///
    /// # Errors
    /// How long it takes until there is one.
    pub fn spend(&mut self, tokens: f64, now: Timestamp) -> Result<(), Duration> {
        self.fill(now);
        if self.tokens < 1.0 {
            let missing = (1.0 - self.tokens) / self.rate.per_second;
            return Err(Duration::try_from_secs_f64(missing).unwrap_or(Duration::MAX));
        }
        self.tokens -= tokens;
        Ok(())
    }

    /// How many tokens there are.
    pub fn level(&mut self, now: Timestamp) -> f64 {
        self.fill(now);
        self.tokens
    }

    /// So much more was dropped, for another reason.
    pub fn count_dropped(&mut self, count: u64) {
        self.dropped += count;
    }

    /// How much was dropped since this was answered last; nothing if that was less than a minute ago.
    pub fn take_dropped(&mut self, now: Timestamp) -> Option<u64> {
        let seconds = now.as_second();
        if self.dropped == 0 || self.said.is_some_and(|said| seconds - said < SAY_DROPPED_EVERY) {
            return None;
        }
        self.said = Some(seconds);
        Some(std::mem::take(&mut self.dropped))
    }

    /// Whether it is full and has nothing to say: as good as a new one.
    pub fn is_idle(&mut self, now: Timestamp) -> bool {
        self.fill(now);
        self.dropped == 0 && self.tokens >= self.rate.burst
    }

    /// What time has brought. A clock that was set back brings nothing.
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
    fn a_burst_is_let_through_and_a_flood_is_counted_and_said_once_a_minute() {
        let mut bucket = Bucket::new(Rate { burst: 10.0, per_second: 2.0 }, at(0));
        assert!(bucket.take(4.0, 6.0, at(0)) && !bucket.take(1.0, 6.0, at(0)), "six are kept");
        assert!(bucket.take(6.0, 0.0, at(0)) && !bucket.take(1.0, 0.0, at(0)));
        assert_eq!(bucket.take_dropped(at(0)), Some(2));
        bucket.count_dropped(3);
        assert_eq!(bucket.take_dropped(at(59)), None, "it was said just now");
        assert_eq!(bucket.take_dropped(at(60)), Some(3));
        assert_eq!(bucket.take_dropped(at(200)), None, "there is nothing to say");
    }

    #[test]
    fn time_brings_what_the_rate_says_up_to_the_burst() {
        let mut bucket = Bucket::new(Rate { burst: 10.0, per_second: 2.0 }, at(0));
        assert!(bucket.take(10.0, 0.0, at(0)) && !bucket.is_idle(at(4)));
        assert!(!bucket.take(9.0, 0.0, at(4)) && bucket.take(8.0, 0.0, at(4)));
        assert!(!bucket.take(1.0, 0.0, at(0)), "the clock was set back");
        assert_eq!(bucket.take_dropped(at(1000)), Some(2));
        assert!(bucket.is_idle(at(1000)) && !bucket.take(11.0, 0.0, at(1000)));
    }
}
