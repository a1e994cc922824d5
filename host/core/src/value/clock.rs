//! The time and chance that decisions depend on. Whoever runs them supplies both, so that a simulation can replace them.

use std::time::Instant;

use jiff::Timestamp;

/// Where the time and chance come from.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    now: fn() -> Instant,
    date: fn() -> Timestamp,
    random: fn() -> f64,
}

impl Clock {
    /// A clock of these functions; `random` returns a number from 0 to 1.
    pub const fn new(now: fn() -> Instant, date: fn() -> Timestamp, random: fn() -> f64) -> Self {
        Self { now, date, random }
    }

    /// Now, for measuring how long something takes.
    pub fn now(&self) -> Instant {
        (self.now)()
    }

    /// The date and time, which may be set forward and back.
    pub fn date(&self) -> Timestamp {
        (self.date)()
    }

    /// A random number from 0 to 1.
    pub fn random(&self) -> f64 {
        (self.random)()
    }
}
