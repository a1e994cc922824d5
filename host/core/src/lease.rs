//! One host at a time: what a host that finds the Lease does, and for how long one that holds it may write.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

/// How long a Lease that is not renewed keeps other hosts away.
pub const DURATION: Duration = Duration::from_secs(30);
/// How long its holder writes after the last renewal: shorter, so that what is under way ends before another host begins.
pub const WRITES_FOR: Duration = Duration::from_secs(20);
/// Time between renewals.
pub const RENEW: Duration = Duration::from_secs(7);
/// Time until a renewal that failed is tried again, and between two looks at a Lease that is waited for.
pub const RETRY: Duration = Duration::from_secs(2);
/// How far the clocks of two hosts may be apart.
const CLOCK_SKEW: Duration = Duration::from_mins(1);

/// Who holds a Lease: the same after a restart only if the process before has surely ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    node: String,
    instance: String,
}

impl Identity {
    /// Of an instance on a node, in a Pod that is the Pod.
    pub fn new(node: &str, instance: &str) -> Self {
        Self { node: node.to_owned(), instance: instance.to_owned() }
    }

    /// Whether a holder is on the same node.
    fn is_neighbour(&self, holder: &str) -> bool {
        holder.rsplit_once('_').is_some_and(|(node, _)| node == self.node)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.node, self.instance)
    }
}

/// What a Lease says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Who holds it; nobody if it is released.
    pub holder: Option<String>,
    /// When that one renewed it last, by its own clock.
    pub renewed: Option<Timestamp>,
    /// How long that lasts.
    pub duration: Duration,
}

/// What this host saw of the holder since it began to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// No renewal for this long, by this host's own clock.
    Silent(Duration),
    /// A renewal.
    Renewed,
}

/// What a host does about a Lease that it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Takes it: it is free, or the process that held it has surely ended.
    Take,
    /// Waits: its holder may have ended.
    Wait {
        /// How long at most.
        at_most: Duration,
    },
    /// Ends: another host is at work.
    Refuse {
        /// When the Lease expires if it is not renewed.
        expires_in: Duration,
    },
}

impl Found {
    /// What a host of this identity does.
    pub fn step(&self, own: &Identity, now: Timestamp, seen: Seen) -> Step {
        let Some(holder) = self.holder.as_deref().filter(|holder| !holder.is_empty() && **holder != own.to_string())
        else {
            return Step::Take;
        };
        // A clock that is behind makes it younger than it is, never older.
        let age = self.renewed.map(|renewed| now.duration_since(renewed)).unwrap_or_default();
        let age = Duration::try_from(age).unwrap_or_default();
        let expires_in = self.duration.saturating_sub(age);
        match seen {
            Seen::Silent(silent) if silent >= self.duration || age >= self.duration + CLOCK_SKEW => Step::Take,
            // The clocks may differ: what counts is how long nothing is seen from here.
            Seen::Silent(silent) if expires_in.is_zero() || own.is_neighbour(holder) => {
                Step::Wait { at_most: self.duration.saturating_sub(silent) }
            }
            Seen::Silent(_) | Seen::Renewed => Step::Refuse { expires_in },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(holder: Option<&str>, seconds_ago: i64) -> Found {
        let renewed = Timestamp::from_second(1_000_000 - seconds_ago).expect("a time");
        Found { holder: holder.map(str::to_owned), renewed: Some(renewed), duration: DURATION }
    }

    fn step(found: &Found, seen: Seen) -> Step {
        let now = Timestamp::from_second(1_000_000).expect("a time");
        found.step(&Identity::new("node-a", "1"), now, seen)
    }

    const FIRST: Seen = Seen::Silent(Duration::ZERO);

    #[test]
    fn h01_free_lease_and_that_of_the_same_instance_are_taken_at_once() {
        for holder in [None, Some(""), Some("node-a_1")] {
            assert_eq!(step(&found(holder, 0), FIRST), Step::Take, "{holder:?}");
        }
    }

    #[test]
    fn h01_fresh_lease_of_another_node_is_refused_and_one_of_this_node_is_waited_for_until_it_is_renewed() {
        let seconds = Duration::from_secs;
        assert_eq!(step(&found(Some("node-b_1"), 10), FIRST), Step::Refuse { expires_in: seconds(20) });
        let neighbour = found(Some("node-a_2"), 10);
        assert_eq!(step(&neighbour, FIRST), Step::Wait { at_most: seconds(30) });
        assert_eq!(step(&neighbour, Seen::Silent(seconds(29))), Step::Wait { at_most: seconds(1) });
        assert_eq!(step(&neighbour, Seen::Silent(seconds(30))), Step::Take);
        assert!(matches!(step(&neighbour, Seen::Renewed), Step::Refuse { .. }));
    }

    #[test]
    fn h01_lease_that_looks_expired_is_taken_only_if_no_clock_could_make_it_so() {
        for seconds_ago in [31, 60, 89] {
            let waits = step(&found(Some("node-b_1"), seconds_ago), FIRST);
            assert_eq!(waits, Step::Wait { at_most: DURATION }, "{seconds_ago} s: the holder's clock may be behind");
        }
        assert_eq!(step(&found(Some("node-b_1"), 91), FIRST), Step::Take);
        assert_eq!(step(&found(Some("node-b_1"), -600), FIRST), Step::Refuse { expires_in: DURATION }, "a clock ahead");
    }

    #[test]
    fn h01_holder_stops_writing_before_its_lease_expires_and_renews_it_several_times_before() {
        assert!(WRITES_FOR < DURATION && RENEW + 2 * RETRY < WRITES_FOR);
    }
}
