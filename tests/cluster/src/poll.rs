//! Waits for a condition, with a timeout: tests use this instead of sleeping.

use std::fmt::Display;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Longest pause between two polls. Most conditions run kubectl, which keeps a core busy for a large part of this time.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// Polls `condition` until it returns a value.
///
/// # Errors
/// If `timeout` ends, with `what` and the last error of the condition. An error ends one poll, not the wait: objects
/// that do not exist yet often cause errors.
pub fn until<T>(what: impl Display, timeout: Duration, mut condition: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(5);
    loop {
        let last = match condition() {
            Ok(Some(value)) => return Ok(value),
            Ok(None) => None,
            Err(error) => Some(error),
        };
        if start.elapsed() >= timeout {
            match last {
                Some(error) => {
                    return Err(error.context(format!("waited {timeout:?} in vain for {what}")));
                }
                None => bail!("waited {timeout:?} in vain for {what}"),
            }
        }
        sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}
