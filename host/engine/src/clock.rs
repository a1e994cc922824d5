//! Time, as the engine reads it. Only this module asks the system, so that a simulation can replace all of it.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use windlass_core::value::clock::Clock;

/// The clock that also runs while the machine is suspended: `CLOCK_BOOTTIME` on Linux, `CLOCK_MONOTONIC` on macOS.
#[cfg(target_os = "linux")]
const SINCE_BOOT: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const SINCE_BOOT: ClockId = ClockId::Monotonic;

/// Read once: the system call opens three files each time.
static CORES: LazyLock<usize> = LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));

/// Now, for measuring how long something takes. It is the clock of the runtime's timers.
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The time and chance of decisions.
pub const CLOCK: Clock = Clock::new(now, date, fastrand::f64);

/// The time that has passed since an instant.
pub fn since(instant: Instant) -> Duration {
    now().saturating_duration_since(instant)
}

/// The date and time, which may be set forward and back.
pub fn date() -> Timestamp {
    #[cfg(feature = "simulation")]
    if let Some(simulated) = simulation::date() {
        return simulated;
    }
    Timestamp::now()
}

/// The time since the machine's boot. It also passes while the machine is suspended, and no change of the date moves it.
pub fn since_boot() -> Duration {
    #[cfg(feature = "simulation")]
    if let Some(simulated) = simulation::since_boot() {
        return simulated;
    }
    let time = clock_gettime(SINCE_BOOT);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default())
}

/// Lets the time of a plugin's call pass. Nothing passes but in a simulation, where the call itself took none.
#[cfg_attr(not(feature = "simulation"), expect(clippy::unused_async, reason = "only a simulation waits"))]
pub async fn pass_call() {
    #[cfg(feature = "simulation")]
    if let Some(time) = simulation::call() {
        tokio::time::sleep(time).await;
    }
}

/// The number of the machine's cores; in a simulation, the same on every machine.
pub fn cores() -> usize {
    #[cfg(feature = "simulation")]
    if simulation::date().is_some() {
        return 1;
    }
    *CORES
}

/// Dates and times since the boot that follow the timers of a simulation's runtime.
#[cfg(feature = "simulation")]
pub mod simulation {
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    use jiff::{SignedDuration, Timestamp};

    thread_local! {
        static BEGIN: Cell<Option<(Instant, Timestamp)>> = const { Cell::new(None) };
        static SET_BY: Cell<SignedDuration> = const { Cell::new(SignedDuration::ZERO) };
        static CALL_TIME: Cell<Option<Duration>> = const { Cell::new(None) };
        static CALLS: Cell<usize> = const { Cell::new(0) };
    }

    /// The machine of a simulation had run for this long when the simulation began.
    const UP: Duration = Duration::from_hours(1);

    /// Makes now this date, and one hour after the boot, for all hosts on this thread.
    pub fn begin(date: Timestamp) {
        BEGIN.set(Some((super::now(), date)));
        SET_BY.set(SignedDuration::ZERO);
    }

    /// Sets the date forward, or back if the duration is negative. No timer notices.
    pub fn set_date_by(duration: SignedDuration) {
        SET_BY.set(SET_BY.get() + duration);
    }

    /// From now on each call of a plugin takes this time; none if it takes no time.
    pub fn slow_calls(time: Option<Duration>) {
        CALL_TIME.set(time);
    }

    /// The number of calls of plugins since this was asked last.
    pub fn take_calls() -> usize {
        CALLS.take()
    }

    /// Counts a call, and returns the time that it takes.
    pub(super) fn call() -> Option<Duration> {
        CALLS.set(CALLS.get() + 1);
        CALL_TIME.get()
    }

    pub(super) fn date() -> Option<Timestamp> {
        let (began, date) = BEGIN.get()?;
        Some(date + super::since(began) + SET_BY.get())
    }

    pub(super) fn since_boot() -> Option<Duration> {
        let (began, _) = BEGIN.get()?;
        Some(UP + super::since(began))
    }
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
