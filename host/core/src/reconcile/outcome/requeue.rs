//! When a parent is reconciled next.

use std::time::Duration;

/// When a parent is reconciled next, unless an event triggers it earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeue {
    /// After the plugin's resync interval, or after the time that the plugin asked for. Resets the key's backoff.
    Settled(Option<Duration>),
    /// After this time plus up to 10 % of jitter. The key's count of failures stays as it is.
    Pause(Duration),
    /// After this time.
    After(Duration),
    /// After the key's backoff, but not before this time has passed.
    Backoff(Duration),
    /// After a backoff of a few seconds, but not before this time has passed. The API server failed, which is unrelated
    /// to the key, so the key must not wait for minutes once the API server has recovered.
    Unavailable(Duration),
    /// Only when the parent changes.
    WhenChanged,
    /// Never: the parent no longer exists, and its state is dropped.
    Gone,
}

impl Requeue {
    /// The same, or when the plugin asked for it, if that is earlier. After a failure, the backoff counts.
    #[must_use]
    pub fn or_as_asked(self, asked: Option<Duration>) -> Self {
        match (self, asked) {
            (Self::Settled(own), Some(asked)) => Self::Settled(Some(own.map_or(asked, |own| own.min(asked)))),
            (Self::After(own), Some(asked)) => Self::After(own.min(asked)),
            _ => self,
        }
    }
}

/// After the key's backoff.
pub const BACKOFF: Requeue = Requeue::Backoff(Duration::ZERO);

/// After the backoff for failures of the API server.
pub const UNAVAILABLE: Requeue = Requeue::Unavailable(Duration::ZERO);

/// How long a parent waits for its own writes to appear in the caches before its conditions report the delay (rule R3).
/// A watch usually lags by milliseconds; a longer lag means that the watch is being restarted.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How often a parent that waits for its own writes checks the caches, if no event triggers it earlier.
pub const LOOK_AGAIN: Duration = Duration::from_secs(5);
