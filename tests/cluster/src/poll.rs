//! Waiting for a condition, bounded: what tests do instead of sleeping.

use std::fmt::Display;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Longest pause between two attempts. Most ask by kubectl, which keeps a core busy for a good part of this.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// Asks `condition` again and again until it answers with a value.
///
/// # Errors
/// When `timeout` is over, with `what` was waited for and the last error that the condition gave. An error ends one
/// attempt, not the waiting: what is not there yet often answers with one.
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
