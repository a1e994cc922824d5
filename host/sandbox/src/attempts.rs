//! Tracks compilations that did not finish, so that a component whose compilation kills the host is compiled at growing
//! intervals only. A file in the cache folder marks an attempt in progress and counts the attempts that killed a
//! process.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use windlass_core::contract::LoadFailure;
use windlass_core::value::digest::Digest;

/// Suffix of the files.
const SUFFIX: &str = ".attempt";
/// Delay after the first attempt that killed a host; each further attempt multiplies it by six.
const FIRST_WAIT: Duration = Duration::from_secs(10);
/// Maximum delay.
const MOST_WAIT: Duration = Duration::from_hours(1);

/// The attempts of a cache folder.
pub(crate) struct Attempts(pub(crate) PathBuf);

/// An attempt in progress. Dropping it records that the attempt finished.
#[derive(Debug)]
pub(crate) struct Attempt(PathBuf);

impl Drop for Attempt {
    fn drop(&mut self) {
        // If the file cannot be removed, the attempt counts as one that killed a host, and the next attempt is delayed.
        let _ = fs::remove_file(&self.0);
    }
}

/// The content of a file: the number of attempts that did not finish, including an attempt in progress, and the time of
/// the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AttemptRecord {
    count: u32,
    last: SystemTime,
}

impl Attempts {
    /// Begins an attempt, unless too little time has passed since an attempt that killed a host.
    ///
    /// # Errors
    /// If the next attempt is not permitted yet ([`LoadFailure::Interrupted`]), or if the file cannot be written.
    pub(crate) fn begin(&self, digest: Digest, now: SystemTime) -> Result<Attempt, LoadFailure> {
        let path = self.0.join(format!("{}{SUFFIX}", digest.hex()));
        let before = fs::read_to_string(&path).ok().and_then(|text| AttemptRecord::read(&text));
        if let Some(before) = before {
            let next = before.next(now);
            if let Ok(wait) = next.duration_since(now)
                && !wait.is_zero()
            {
                return Err(LoadFailure::Interrupted { attempts: before.count, next: seconds(next), wait });
            }
        }
        let count = before.map_or(1, |before| before.count.saturating_add(1));
        let text = AttemptRecord { count, last: now }.text();
        let written = fs::write(&path, text).and_then(|()| fs::File::open(&path)?.sync_all());
        written.map_err(|error| LoadFailure::Cache(format!("cannot write {}: {error}", path.display())))?;
        Ok(Attempt(path))
    }

    /// Removes the files of unused components.
    pub(crate) fn retain(&self, is_used: impl Fn(&str) -> bool) {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            if name.to_str().and_then(|name| name.strip_suffix(SUFFIX)).is_some_and(|digest| !is_used(digest)) {
                // A failed removal is tried again at the next call.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

impl AttemptRecord {
    fn read(text: &str) -> Option<Self> {
        let (count, last) = text.trim().split_once(' ')?;
        let last = UNIX_EPOCH.checked_add(Duration::from_secs(last.parse().ok()?))?;
        Some(Self { count: count.parse().ok()?, last })
    }

    /// The text that [`read`](Self::read) reads.
    fn text(self) -> String {
        format!("{} {}", self.count, seconds(self.last))
    }

    /// Earliest time of the next attempt. A clock that was set back does not extend the delay.
    fn next(self, now: SystemTime) -> SystemTime {
        let factor = 6_u32.saturating_pow(self.count.saturating_sub(1).min(8));
        let wait = FIRST_WAIT.saturating_mul(factor).min(MOST_WAIT);
        self.last.min(now).checked_add(wait).unwrap_or(now)
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_000_000 + second)
    }

    #[test]
    fn s03_component_whose_compilation_ended_the_host_is_retried_with_growing_waits() {
        let folder = tempfile::tempdir().expect("a folder");
        let attempts = Attempts(folder.path().to_owned());
        let (killer, other) = (Digest::of(b"killer"), Digest::of(b"other"));
        let mut now = 0;
        for (count, wait) in [(1, 10), (2, 60), (3, 360), (4, 2160), (5, 3600), (6, 3600)] {
            // The host is killed, so nothing removes the file.
            std::mem::forget(attempts.begin(killer, at(now)).expect("tried"));
            let refused = attempts.begin(killer, at(now + 1)).expect_err("not yet");
            let LoadFailure::Interrupted { attempts: counted, next, wait: remaining } = refused else {
                panic!("{refused}")
            };
            assert_eq!((counted, next), (count, 1_000_000 + now + wait));
            assert_eq!(remaining, Duration::from_secs(wait - 1));
            assert!(attempts.begin(other, at(now + 1)).is_ok(), "another component is compiled at once");
            now += wait;
        }
        let clock_put_back = attempts.begin(killer, at(0)).expect_err("not yet");
        let LoadFailure::Interrupted { wait, .. } = clock_put_back else { panic!("{clock_put_back}") };
        assert_eq!(wait, MOST_WAIT);
    }

    #[test]
    fn s03_completed_attempt_leaves_no_file_and_attempts_of_unused_components_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let attempts = Attempts(folder.path().to_owned());
        let [a, b] = [Digest::of(b"a"), Digest::of(b"b")];
        drop(attempts.begin(a, at(0)).expect("tried"));
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
        for digest in [a, b] {
            std::mem::forget(attempts.begin(digest, at(0)).expect("tried"));
        }
        attempts.retain(|digest| digest == a.hex());
        assert!(attempts.begin(a, at(1)).is_err() && attempts.begin(b, at(1)).is_ok());
        fs::write(folder.path().join(format!("{}{SUFFIX}", a.hex())), "nonsense").expect("written");
        assert!(attempts.begin(a, at(1)).is_ok());
    }
}
