//! The rate at which a component may log: all plugins share the host's log.

use parking_lot::Mutex;
use windlass_core::guard::bucket::{Bucket, Rate};

use crate::clock;

/// Largest rate of a component's log lines, in bytes: enough for a rollout over a thousand parents, and a bound for a
/// component that logs in each call.
const LOG: Rate = Rate { burst: 1024.0 * 1024.0, per_second: 64.0 * 1024.0 };
/// Added to each line's bytes: the fields that the host's log adds.
const LOG_OVERHEAD: usize = 128;

/// The log lines that a component may write.
#[derive(Debug)]
pub struct LogRate(Mutex<Bucket>);

impl Default for LogRate {
    fn default() -> Self {
        Self(Mutex::new(Bucket::new(LOG, clock::date())))
    }
}

impl LogRate {
    /// Whether a line, span attribute or span event of `length` bytes may be logged or exported. One that may not is counted.
    pub fn admits(&self, length: usize) -> bool {
        let bytes = u32::try_from(length.saturating_add(LOG_OVERHEAD)).map_or(f64::INFINITY, f64::from);
        self.0.lock().take(bytes, 0.0, clock::date())
    }

    /// Number of log lines that were dropped since the last report, by the limit of a call (`by_call` of them in this
    /// call) or by the rate. None if there are none, or if the last report is less than a minute old.
    pub fn dropped(&self, by_call: u64) -> Option<u64> {
        let mut log = self.0.lock();
        log.add_dropped(by_call);
        log.take_dropped(clock::date())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_lines_are_rate_limited_and_counted_for_each_component() {
        let flooding = LogRate::default();
        let lines = 100_000;
        let kept = (0..lines).filter(|_| flooding.admits(1000)).count();
        assert!((900..lines / 10).contains(&kept), "a burst of a MiB: {kept} lines");
        assert_eq!(flooding.dropped(5), Some((lines - kept + 5) as u64));
        assert_eq!(flooding.dropped(5), None, "the count was reported just now");
        assert!(LogRate::default().admits(1000));
    }
}
