//! The time since the machine's boot. It also passes while the machine is suspended, and no change of the date moves it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The clock that also runs while the machine is suspended: `CLOCK_BOOTTIME` on Linux, `CLOCK_MONOTONIC` on macOS.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// The time since the machine's boot.
pub fn since_boot() -> Duration {
    let time = clock_gettime(CLOCK);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default())
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn time_since_boot_is_that_of_the_kernel_and_does_not_go_back() {
        let before = since_boot();
        let uptime = std::fs::read_to_string("/proc/uptime").expect("Linux");
        let uptime: f64 = uptime.split(' ').next().and_then(|seconds| seconds.parse().ok()).expect("a number");
        let after = since_boot();
        // The kernel's file has two digits after the point.
        assert!((before.as_secs_f64() - 0.02..=after.as_secs_f64() + 0.02).contains(&uptime), "{before:?} {uptime}");
        assert!(before <= after);
    }
}
