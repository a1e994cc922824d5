//! The host's clocks. Virtual: the monotonic one starts at zero with each call, and waiting for it returns at once.

use std::time::{Duration, SystemTime};

/// The wall clock. Reading it makes a call impure: the host cannot reuse its answer, and an answer that contains the
/// time is another one on every call. Outside wasm this is the machine's clock.
#[cfg(target_family = "wasm")]
pub fn now() -> SystemTime {
    let now = wasip2::clocks::wall_clock::now();
    SystemTime::UNIX_EPOCH + Duration::new(now.seconds, now.nanoseconds)
}

/// The wall clock. Reading it makes a call impure: the host cannot reuse its answer, and an answer that contains the
/// time is another one on every call. Outside wasm this is the machine's clock.
#[cfg(not(target_family = "wasm"))]
pub fn now() -> SystemTime {
    SystemTime::now()
}

/// Time since the call began, as the virtual monotonic clock has it. Outside wasm always zero.
pub fn elapsed() -> Duration {
    #[cfg(target_family = "wasm")]
    return Duration::from_nanos(wasip2::clocks::monotonic_clock::now());
    #[cfg(not(target_family = "wasm"))]
    Duration::ZERO
}
