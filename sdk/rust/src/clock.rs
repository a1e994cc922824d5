//! The host's clocks. Virtual: the monotonic one starts at zero with each call, and waiting for it returns at once.

use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;

use crate::{Reconciler, Request};

/// The wall clock. Reading it makes a call impure: the host cannot reuse its answer, and an answer that contains the
/// time is another one on every call. Outside wasm it stands still ([`testing`](crate::testing) sets it).
pub fn now() -> SystemTime {
    #[cfg(target_family = "wasm")]
    {
        let now = wasip2::clocks::wall_clock::now();
        SystemTime::UNIX_EPOCH + Duration::new(now.seconds, now.nanoseconds)
    }
    #[cfg(not(target_family = "wasm"))]
    crate::testing::sink::now()
}

/// The wall clock as Kubernetes writes times: RFC 3339 in UTC, to the second.
pub fn timestamp() -> String {
    humantime::format_rfc3339_seconds(now()).to_string()
}

/// The status with a time that moves only when something else in it does. It takes the time from the status that is
/// there, and reads the clock only when that one is another: at rest a call stays pure, and nothing is written.
pub fn steady<R>(
    request: &Request<R>,
    mut status: R::Status,
    time: fn(&mut R::Status) -> &mut Option<String>,
) -> R::Status
where
    R: Reconciler<Status: DeserializeOwned + PartialEq>,
{
    let kept = request.status::<R::Status>().and_then(|mut last| {
        let at = time(&mut last).take();
        (last == status).then_some(at)?
    });
    *time(&mut status) = kept.or_else(|| Some(timestamp()));
    status
}

/// Time since the call began, as the virtual monotonic clock has it. Outside wasm always zero.
pub fn elapsed() -> Duration {
    #[cfg(target_family = "wasm")]
    return Duration::from_nanos(wasip2::clocks::monotonic_clock::now());
    #[cfg(not(target_family = "wasm"))]
    Duration::ZERO
}
