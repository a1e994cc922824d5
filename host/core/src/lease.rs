//! Leader election for the host: how a host reacts to an existing Lease, and for how long a holder may write.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

/// Time after which a Lease that is not renewed expires.
pub const DURATION: Duration = Duration::from_secs(30);
/// How long a holder may write after its last renewal. Shorter than [`DURATION`], so that writes in progress end before
/// another host begins.
pub const WRITES_FOR: Duration = Duration::from_secs(20);
/// Time between renewals.
pub const RENEW: Duration = Duration::from_secs(7);
/// Time until a failed renewal is tried again, and between two checks of a Lease that another host holds.
pub const RETRY: Duration = Duration::from_secs(2);
/// Tolerated difference between the clocks of two hosts.
const CLOCK_SKEW: Duration = Duration::from_mins(1);

/// The identity of a holder: the same after a restart only if the previous process has certainly ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    node: String,
    instance: String,
}

impl Identity {
    /// Creates an identity from the node's name and the instance's name; in a Pod, the instance is the Pod.
    pub fn new(node: &str, instance: &str) -> Self {
        Self { node: node.to_owned(), instance: instance.to_owned() }
    }

    /// Returns true if the holder is on the same node.
    fn is_neighbour(&self, holder: &str) -> bool {
        holder.rsplit_once('_').is_some_and(|(node, _)| node == self.node)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.node, self.instance)
    }
}

/// The state of a Lease.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The holder; `None` if the Lease is released.
    pub holder: Option<String>,
    /// Time of the holder's last renewal, by the holder's clock.
    pub renewed: Option<Timestamp>,
    /// Duration after which the Lease expires.
    pub duration: Duration,
}

/// The renewals by the holder that this host observed since it began to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// This host observed no renewal for this time, by its own clock.
    Silent(Duration),
    /// This host observed a renewal.
    Renewed,
}

/// How a host reacts to an existing Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Take the Lease: it is free, or the process that held it has certainly ended.
    Take,
    /// Wait: the holder may have ended.
    Wait {
        /// Longest time to wait.
        at_most: Duration,
    },
    /// Exit: another host is active.
    Refuse {
        /// Time until the Lease expires if it is not renewed.
        expires_in: Duration,
    },
}

impl Found {
    /// Decides the reaction of the host with this identity.
    pub fn step(&self, own: &Identity, now: Timestamp, seen: Seen) -> Step {
        let Some(holder) = self.holder.as_deref().filter(|holder| !holder.is_empty() && **holder != own.to_string())
        else {
            return Step::Take;
        };
        // If this host's clock is behind the holder's, the Lease seems younger than it is, never older.
        let age = self.renewed.map(|renewed| now.duration_since(renewed)).unwrap_or_default();
        let age = Duration::try_from(age).unwrap_or_default();
        let expires_in = self.duration.saturating_sub(age);
        match seen {
            Seen::Silent(silent) if silent >= self.duration || age >= self.duration + CLOCK_SKEW => Step::Take,
            // The clocks may differ, so only the time without an observed renewal counts.
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
    fn h01_free_lease_and_lease_of_the_same_instance_are_acquired_at_once() {
        for holder in [None, Some(""), Some("node-a_1")] {
            assert_eq!(step(&found(holder, 0), FIRST), Step::Take, "{holder:?}");
        }
    }

    #[test]
    fn h01_host_refuses_to_start_on_a_fresh_lease_of_another_node_and_waits_for_one_of_its_own_node() {
        let seconds = Duration::from_secs;
        assert_eq!(step(&found(Some("node-b_1"), 10), FIRST), Step::Refuse { expires_in: seconds(20) });
        let neighbour = found(Some("node-a_2"), 10);
        assert_eq!(step(&neighbour, FIRST), Step::Wait { at_most: seconds(30) });
        assert_eq!(step(&neighbour, Seen::Silent(seconds(29))), Step::Wait { at_most: seconds(1) });
        assert_eq!(step(&neighbour, Seen::Silent(seconds(30))), Step::Take);
        assert!(matches!(step(&neighbour, Seen::Renewed), Step::Refuse { .. }));
    }

    #[test]
    fn h01_expired_lease_is_acquired_at_once_only_if_clock_skew_cannot_explain_it() {
        for seconds_ago in [31, 60, 89] {
            let waits = step(&found(Some("node-b_1"), seconds_ago), FIRST);
            assert_eq!(waits, Step::Wait { at_most: DURATION }, "{seconds_ago} s: the holder's clock may be behind");
        }
        assert_eq!(step(&found(Some("node-b_1"), 91), FIRST), Step::Take);
        assert_eq!(
            step(&found(Some("node-b_1"), -600), FIRST),
            Step::Refuse { expires_in: DURATION },
            "the holder's clock is ahead"
        );
    }

    #[test]
    fn h01_holder_stops_writing_before_its_lease_expires_and_renews_it_several_times_before() {
        assert!(WRITES_FOR < DURATION && RENEW + 2 * RETRY < WRITES_FOR);
    }
}
