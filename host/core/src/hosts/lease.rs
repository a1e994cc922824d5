//! Leader election for the host: its times, how a host reacts to an existing Lease, and for how long a holder may write.

use std::time::Duration;

use jiff::Timestamp;

/// The times of the leader election, with the meaning and the defaults of client-go's `LeaderElectionConfig`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Time without a renewal after which another host may take the Lease.
    pub lease_duration: Duration,
    /// How long the holder may write after its last renewal. Shorter than the lease duration, so that requests in
    /// flight end before another host begins.
    pub renew_deadline: Duration,
    /// Time between renewals, and between two reads of a Lease that another host holds.
    pub retry_period: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { lease_duration: seconds(15), renew_deadline: seconds(10), retry_period: seconds(2) }
    }
}

/// Times that contradict each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// The Lease has no field for fractions of a second.
    #[error("the lease duration must be a whole number of seconds, at least 1")]
    LeaseDuration,
    /// Another host could take the Lease while this one still writes.
    #[error("the renew deadline must be at least 1 s shorter than the lease duration")]
    RenewDeadline,
    /// A single failed renewal would end the host's writes.
    #[error("the retry period must be at least 100 ms, and shorter than the renew deadline divided by 1.2")]
    RetryPeriod,
}

impl Timing {
    /// Random share of the retry period that a waiting host adds to it, so that several hosts do not read at once.
    pub const JITTER: f64 = 0.2;

    /// Checks the times as client-go's `NewLeaderElector` does.
    ///
    /// # Errors
    /// Which time contradicts the others.
    pub fn check(self) -> Result<Self, TimingError> {
        if self.lease_duration.is_zero() || self.lease_duration.subsec_nanos() > 0 {
            Err(TimingError::LeaseDuration)
        } else if self.margin() < Duration::from_secs(1) {
            Err(TimingError::RenewDeadline)
        } else if self.retry_period < Duration::from_millis(100)
            || self.retry_period.mul_f64(1.0 + Self::JITTER) >= self.renew_deadline
        {
            Err(TimingError::RetryPeriod)
        } else {
            Ok(self)
        }
    }

    /// Time between the end of the holder's writes and the expiry of its Lease.
    pub fn margin(self) -> Duration {
        self.lease_duration.saturating_sub(self.renew_deadline)
    }

    /// Timeout of one request for the Lease: several fit before the renew deadline.
    pub fn request_timeout(self) -> Duration {
        self.renew_deadline / 3
    }
}

/// The identity of a holder: the same after a restart only if the previous process has certainly ended.
#[derive(Debug, Clone, PartialEq, Eq, derive_more::Display)]
#[display("{node}_{instance}")]
pub struct Identity {
    node: String,
    instance: String,
}

impl Identity {
    /// Creates an identity from the node's name and the instance's name; in a Pod, the node is the Pod.
    pub fn new(node: &str, instance: &str) -> Self {
        Self { node: node.to_owned(), instance: instance.to_owned() }
    }

    /// Returns true if the holder is on the same node.
    fn is_neighbour(&self, holder: &str) -> bool {
        holder.rsplit_once('_').is_some_and(|(node, _)| node == self.node)
    }
}

/// The state of a Lease.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeaseState {
    /// The holder; `None` if the Lease is released.
    pub holder: Option<String>,
    /// Time of the holder's last renewal, by the holder's clock.
    pub renewed: Option<Timestamp>,
    /// Duration after which the Lease expires.
    pub duration: Duration,
}

/// What a host without the Lease observed since it began to wait. It judges by its own clock only: the holder's clock
/// may be wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observations {
    /// The last version of the Lease, and when this host first saw it.
    last: Option<(Option<String>, Duration)>,
    /// Whether this host saw the Lease change.
    changed: bool,
}

impl Observations {
    /// Whether this host ever saw the Lease.
    pub fn has_seen_one(&self) -> bool {
        self.changed || self.last.as_ref().is_some_and(|(version, _)| version.is_some())
    }

    /// Records that the Lease has this version at this time; returns the time for which it did not change.
    ///
    /// Any change counts as a renewal, also one by another client: that can only prolong the wait.
    pub fn note(&mut self, version: Option<&str>, now: Duration) -> Duration {
        match &self.last {
            Some((last, since)) if last.as_deref() == version => now.saturating_sub(*since),
            last => {
                self.changed |= last.is_some();
                self.last = Some((version.map(str::to_owned), now));
                Duration::ZERO
            }
        }
    }
}

/// How a host reacts to an existing Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Take the Lease: it is free, expired, or held by an earlier process of this host that has certainly ended.
    Take,
    /// Wait for the Lease to expire or to be released.
    Wait {
        /// Time until the Lease expires if it is not renewed.
        expires_in: Duration,
    },
    /// Exit: another host is active, and this one does not stand by.
    Refuse {
        /// Time until the Lease expires if it is not renewed, by the clocks of both hosts.
        expires_in: Duration,
    },
}

/// What a host does while another one holds the Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhileHeld {
    /// It stands by, and takes the Lease when it can.
    StandBy,
    /// It exits, unless the holder may have ended.
    Exit,
}

impl LeaseState {
    /// The state of a Lease that was deleted, not released: its holder is unknown, and may write for this long.
    pub fn deleted(duration: Duration) -> Self {
        Self { holder: Some("an unknown host: the Lease was deleted".to_owned()), renewed: None, duration }
    }

    /// Decides the reaction of the host with this identity, which saw no change of the Lease for the time `silent`.
    pub fn step(
        &self,
        own: &Identity,
        now: Timestamp,
        observed: &Observations,
        silent: Duration,
        while_held: WhileHeld,
    ) -> Step {
        let Some(holder) = self.holder.as_deref().filter(|holder| !holder.is_empty() && **holder != own.to_string())
        else {
            return Step::Take;
        };
        let expires_in = self.duration.saturating_sub(silent);
        if expires_in.is_zero() {
            return Step::Take;
        }
        // The clocks are compared only to exit without a wait, never to take the Lease.
        let age = self.renewed.map(|renewed| now.duration_since(renewed)).unwrap_or_default();
        let seems_held_for = self.duration.saturating_sub(Duration::try_from(age).unwrap_or_default());
        let is_active = observed.changed || (!seems_held_for.is_zero() && !own.is_neighbour(holder));
        match while_held {
            WhileHeld::Exit if is_active => Step::Refuse { expires_in: seems_held_for },
            WhileHeld::Exit | WhileHeld::StandBy => Step::Wait { expires_in },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn state(holder: Option<&str>, seconds_ago: i64) -> LeaseState {
        let renewed = Timestamp::from_second(1_000_000 - seconds_ago).expect("a time");
        LeaseState { holder: holder.map(str::to_owned), renewed: Some(renewed), duration: 15 * SECOND }
    }

    fn step(state: &LeaseState, observed: &Observations, silent: Duration, while_held: WhileHeld) -> Step {
        let now = Timestamp::from_second(1_000_000).expect("a time");
        state.step(&Identity::new("node-a", "1"), now, observed, silent, while_held)
    }

    fn changed() -> Observations {
        let mut observed = Observations::default();
        observed.note(Some("1"), SECOND);
        observed.note(Some("2"), SECOND);
        observed
    }

    #[test]
    fn h01_free_lease_and_lease_of_the_same_instance_are_acquired_at_once() {
        for holder in [None, Some(""), Some("node-a_1")] {
            for while_held in [WhileHeld::StandBy, WhileHeld::Exit] {
                let step = step(&state(holder, 0), &Observations::default(), Duration::ZERO, while_held);
                assert_eq!(step, Step::Take, "{holder:?}");
            }
        }
    }

    #[test]
    fn h01_standby_takes_the_lease_only_after_it_saw_no_change_for_the_lease_duration_whatever_the_clocks_say() {
        for seconds_ago in [-100_000, 0, 15, 100_000] {
            let lease = state(Some("node-b_1"), seconds_ago);
            for (silent, expected) in [
                (Duration::ZERO, Step::Wait { expires_in: 15 * SECOND }),
                (14 * SECOND, Step::Wait { expires_in: SECOND }),
                (15 * SECOND, Step::Take),
            ] {
                assert_eq!(step(&lease, &changed(), silent, WhileHeld::StandBy), expected, "{seconds_ago} s ago");
            }
        }
    }

    #[test]
    fn h01_lease_that_was_deleted_is_not_free_before_its_duration_has_passed() {
        let mut observed = Observations::default();
        assert_eq!(observed.note(None, SECOND), Duration::ZERO);
        assert!(!observed.has_seen_one(), "there was none");
        observed.note(Some("1"), 2 * SECOND);
        let silent = observed.note(None, 3 * SECOND);
        assert!(observed.has_seen_one());
        let deleted = LeaseState::deleted(15 * SECOND);
        let expected = Step::Wait { expires_in: 15 * SECOND };
        assert_eq!(step(&deleted, &observed, silent, WhileHeld::StandBy), expected);
        assert_eq!(step(&deleted, &observed, 15 * SECOND, WhileHeld::StandBy), Step::Take);
    }

    #[test]
    fn h01_each_change_of_the_lease_begins_the_wait_anew() {
        let mut observed = Observations::default();
        assert_eq!(observed.note(Some("1"), SECOND), Duration::ZERO);
        assert_eq!(observed.note(Some("1"), 8 * SECOND), 7 * SECOND);
        assert_eq!(observed.note(Some("2"), 9 * SECOND), Duration::ZERO);
        assert_eq!(observed.note(Some("2"), 10 * SECOND), SECOND);
        assert_eq!(observed.note(None, 11 * SECOND), Duration::ZERO);
    }

    #[test]
    fn h01_host_without_election_exits_beside_an_active_host_and_waits_for_one_that_may_have_ended() {
        let exit = |state: &LeaseState, observed: &Observations, silent| step(state, observed, silent, WhileHeld::Exit);
        let unwatched = Observations::default();
        let fresh = state(Some("node-b_1"), 10);
        assert_eq!(exit(&fresh, &unwatched, Duration::ZERO), Step::Refuse { expires_in: 5 * SECOND });
        let neighbour = state(Some("node-a_2"), 10);
        assert_eq!(exit(&neighbour, &unwatched, Duration::ZERO), Step::Wait { expires_in: 15 * SECOND });
        assert!(matches!(exit(&neighbour, &changed(), Duration::ZERO), Step::Refuse { .. }));
        let expired = state(Some("node-b_1"), 100_000);
        assert_eq!(exit(&expired, &unwatched, SECOND), Step::Wait { expires_in: 14 * SECOND });
        assert_eq!(exit(&expired, &unwatched, 15 * SECOND), Step::Take);
        assert!(matches!(exit(&expired, &changed(), Duration::ZERO), Step::Refuse { .. }));
    }

    #[test]
    fn h01_times_that_let_two_hosts_write_are_rejected() {
        let timing = |lease_duration: u64, renew_deadline: u64, retry_period: u64| {
            let millis = Duration::from_millis;
            Timing {
                lease_duration: millis(lease_duration),
                renew_deadline: millis(renew_deadline),
                retry_period: millis(retry_period),
            }
            .check()
        };
        assert_eq!(Timing::default().check(), Ok(Timing::default()));
        assert!(timing(2000, 1000, 300).is_ok());
        assert_eq!(timing(2000, 1500, 300), Err(TimingError::RenewDeadline), "too short for writes in flight");
        assert_eq!(timing(0, 0, 0), Err(TimingError::LeaseDuration));
        assert_eq!(timing(2500, 1000, 300), Err(TimingError::LeaseDuration));
        assert_eq!(timing(10_000, 10_000, 2000), Err(TimingError::RenewDeadline));
        assert_eq!(timing(15_000, 10_000, 9000), Err(TimingError::RetryPeriod));
        assert_eq!(timing(15_000, 10_000, 0), Err(TimingError::RetryPeriod));
    }
}
