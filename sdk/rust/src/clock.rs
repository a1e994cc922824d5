//! The host's clocks. The monotonic clock is virtual: it starts at zero in each call, and a wait returns at once.

use std::time::{Duration, SystemTime};

/// The wall clock. A call that reads it is impure: the host cannot reuse its response, and a response that contains the time
/// differs in every call. Outside wasm the clock stands still; [`testing`](crate::testing) sets it.
pub fn now() -> SystemTime {
    #[cfg(target_family = "wasm")]
    {
        let now = wasip2::clocks::wall_clock::now();
        SystemTime::UNIX_EPOCH + Duration::new(now.seconds, now.nanoseconds)
    }
    #[cfg(not(target_family = "wasm"))]
    crate::testing::host::now()
}

/// The wall clock as Kubernetes writes times: RFC 3339 in UTC, to the second.
pub fn timestamp() -> String {
    humantime::format_rfc3339_seconds(now()).to_string()
}

/// Returns a field of a status that has the time of its last change.
pub type TimeField<S> = fn(&mut S) -> &mut Option<String>;

/// Sets the time of the last change in a status: the time that the status before has, if all other fields are equal, or else now
/// (RFC 3339). In steady state the clock is not read, so the call stays pure, and the status does not change.
///
/// `before` is [`Request::status`](crate::Request::status). The time that `status` has is replaced.
pub fn steady<S: PartialEq>(before: Option<S>, mut status: S, time: TimeField<S>) -> S {
    *time(&mut status) = None;
    let kept = before.and_then(|mut before| {
        let at = time(&mut before).take();
        (before == status).then_some(at)?
    });
    *time(&mut status) = kept.or_else(|| Some(timestamp()));
    status
}

/// Time since the call began by the virtual monotonic clock. Outside wasm it is always zero.
pub fn elapsed() -> Duration {
    #[cfg(target_family = "wasm")]
    return Duration::from_nanos(wasip2::clocks::monotonic_clock::now());
    #[cfg(not(target_family = "wasm"))]
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::steady;

    #[derive(Debug, Clone, PartialEq)]
    struct Status {
        pods: u32,
        time: Option<String>,
    }

    fn status(pods: u32, time: Option<&str>) -> Status {
        Status { pods, time: time.map(str::to_owned) }
    }

    fn time(before: Option<Status>, pods: u32) -> Option<String> {
        steady(before, status(pods, Some("ignored")), |status| &mut status.time).time
    }

    #[test]
    fn timestamp_changes_only_when_another_field_changes() {
        let now = Some("2026-01-01T00:00:00Z".to_owned());
        let before = status(1, Some("2020-01-01T00:00:00Z"));
        assert_eq!(time(Some(before.clone()), 1), before.time);
        assert_eq!(time(Some(before), 2), now);
        assert_eq!(time(Some(status(1, None)), 1), now);
        assert_eq!(time(None, 1), now);
    }
}
