//! The flags of the leader election, with client-go's names and defaults.

use std::time::Duration;

use clap::ArgAction;
use windlass_core::hosts::lease::{Timing, TimingError, WhileHeld};
use windlass_core::hosts::shards::{SHARDS_MAX, Shard};

use crate::cluster::lease::Election;

/// Flags of the leader election.
#[derive(Debug, Clone, clap::Args)]
pub struct ElectionArgs {
    /// Stand by while another host holds the Lease `windlass` in the namespace, and take over when it is released or
    /// expires. With =false the host takes the Lease as well, but exits if another host holds it
    #[arg(
        long, env = "WINDLASS_LEADER_ELECT", action = ArgAction::Set, default_value_t = true,
        num_args = 0..=1, require_equals = true, default_missing_value = "true"
    )]
    leader_elect: bool,
    /// Time without a renewal after which another host takes over; whole seconds
    #[arg(
        long, value_name = "DURATION", env = "WINDLASS_LEADER_ELECT_LEASE_DURATION", default_value = "15s",
        value_parser = parse_duration
    )]
    leader_elect_lease_duration: Duration,
    /// How long the leader may write after its last renewal. Shorter than the lease duration
    #[arg(
        long, value_name = "DURATION", env = "WINDLASS_LEADER_ELECT_RENEW_DEADLINE", default_value = "10s",
        value_parser = parse_duration
    )]
    leader_elect_renew_deadline: Duration,
    /// Time between two renewals, and between two attempts to take the Lease
    #[arg(
        long, value_name = "DURATION", env = "WINDLASS_LEADER_ELECT_RETRY_PERIOD", default_value = "2s",
        value_parser = parse_duration
    )]
    leader_elect_retry_period: Duration,
    /// Number of hosts that share the parents, for clusters that outgrow one leader. Further replicas stand by. The
    /// leader alone reconciles Plugins, and decides about deletions of many parents. Needs --leader-elect; all replicas
    /// must have the same number
    #[arg(
        long, value_name = "N", env = "WINDLASS_SHARDS", default_value_t = 1,
        value_parser = clap::value_parser!(Shard).range(1..=i64::from(SHARDS_MAX))
    )]
    shards: Shard,
}

impl ElectionArgs {
    /// How the host takes part in the election.
    ///
    /// # Errors
    /// If the times contradict each other, or if a host that does not stand by for others would share parents with them; the text names the
    /// flag.
    pub fn election(&self) -> Result<Election, String> {
        let timing = Timing {
            lease_duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry_period: self.leader_elect_retry_period,
        };
        let timing = timing.check().map_err(|error| {
            let flag = match error {
                TimingError::LeaseDuration => "--leader-elect-lease-duration",
                TimingError::RenewDeadline => "--leader-elect-renew-deadline",
                TimingError::RetryPeriod => "--leader-elect-retry-period",
            };
            format!("invalid value for {flag}: {error}")
        })?;
        if self.shards > 1 && !self.leader_elect {
            return Err("invalid value for --shards: hosts share the parents only with --leader-elect".to_owned());
        }
        let while_held = if self.leader_elect { WhileHeld::StandBy } else { WhileHeld::Exit };
        Ok(Election { while_held, timing, shards: self.shards })
    }
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let is_duration =
        text.starts_with(|c: char| c.is_ascii_digit()) && text.ends_with(|c: char| c.is_ascii_alphabetic());
    let duration = is_duration.then(|| text.parse::<kube::core::Duration>().ok()).flatten();
    duration.map(Duration::from).ok_or_else(|| "write it as in 15s or 1m30s".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        election: ElectionArgs,
    }

    fn election(args: &[&str]) -> Result<Election, String> {
        let cli = Cli::try_parse_from([&["windlass"], args].concat()).map_err(|error| error.to_string())?;
        cli.election.election()
    }

    #[test]
    fn h01_election_is_on_by_default_with_the_times_of_client_go() {
        let default = election(&[]).expect("valid");
        assert_eq!((default.while_held, default.timing), (WhileHeld::StandBy, Timing::default()));
        for (args, while_held) in [
            (["--leader-elect"], WhileHeld::StandBy),
            (["--leader-elect=true"], WhileHeld::StandBy),
            (["--leader-elect=false"], WhileHeld::Exit),
        ] {
            assert_eq!(election(&args).expect("valid").while_held, while_held, "{args:?}");
        }
        let quick = election(&[
            "--leader-elect-lease-duration=3s",
            "--leader-elect-renew-deadline=2s",
            "--leader-elect-retry-period=500ms",
        ]);
        assert_eq!(quick.expect("valid").timing.retry_period, Duration::from_millis(500));
    }

    #[test]
    fn h03_number_of_shards_is_limited_and_needs_the_election() {
        let shards = |args: &[&str]| election(args).map(|election| election.shards);
        assert_eq!(shards(&[]), Ok(1));
        assert_eq!(shards(&["--shards=3"]), Ok(3));
        assert_eq!(shards(&["--shards=1", "--leader-elect=false"]), Ok(1));
        for args in [&["--shards=0"][..], &["--shards=17"], &["--shards=3", "--leader-elect=false"]] {
            assert!(shards(args).expect_err("wrong").contains("--shards"), "{args:?}");
        }
    }

    #[test]
    fn h01_wrong_time_of_the_election_is_rejected_with_its_flag() {
        for (arg, flag) in [
            ("--leader-elect-lease-duration=1500ms", "--leader-elect-lease-duration"),
            ("--leader-elect-lease-duration=5s", "--leader-elect-renew-deadline"),
            ("--leader-elect-renew-deadline=20s", "--leader-elect-renew-deadline"),
            ("--leader-elect-retry-period=9s", "--leader-elect-retry-period"),
            ("--leader-elect-retry-period=-1s", "--leader-elect-retry-period"),
            ("--leader-elect-retry-period=2", "--leader-elect-retry-period"),
        ] {
            let error = election(&[arg]).expect_err("wrong");
            assert!(error.contains(flag), "{error}");
        }
    }
}
