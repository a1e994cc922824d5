//! Why a key runs, and what follows from that.

use super::outcome::Requeue;

/// Why a key runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Trigger {
    /// The resync interval, or the time that the plugin asked for, has passed: not urgent.
    Resync,
    /// A time has passed for which the last run put off its work: not urgent.
    Pause,
    /// The backoff after a failure has passed: not urgent.
    Retry,
    /// All keys of the group run: after a first list, or at the beginning of a rollout. Not urgent, but resets the
    /// count of failures.
    Sweep,
    /// An object that the key depends on changed. Urgent, but waits for the end of a backoff.
    Event,
    /// The key is new, or its object has a new generation. Urgent, ends a backoff, and resets the count of failures.
    Changed,
}

impl Trigger {
    /// Why a key runs again after the time that a run asked for.
    pub fn of(requeue: Requeue) -> Self {
        match requeue {
            Requeue::Backoff(_) | Requeue::Unavailable(_) => Self::Retry,
            Requeue::Pause(_) | Requeue::After(_) => Self::Pause,
            Requeue::Settled(_) | Requeue::WhenChanged | Requeue::Gone => Self::Resync,
        }
    }

    /// The name as a span attribute.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether only a time has passed.
    pub fn is_time(self) -> bool {
        matches!(self, Self::Resync | Self::Pause | Self::Retry)
    }

    /// Whether the key runs before keys that are not urgent.
    pub fn is_urgent(self) -> bool {
        self >= Self::Event
    }

    /// Whether the count of failures is reset.
    pub fn forgets_failures(self) -> bool {
        matches!(self, Self::Sweep | Self::Changed)
    }
}
