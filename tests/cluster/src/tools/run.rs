//! Runs a long build quietly: its output is only needed if it fails.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::Progress;
use crate::supervised::last_lines;

const SIGN_OF_LIFE: Duration = Duration::from_secs(20);

/// Runs a command with its output in a file of `dir`, and reports from time to time that it still runs.
pub(super) fn quietly(mut command: Command, what: &str, dir: &Path, progress: Progress) -> Result<()> {
    let path = dir.join("build.log");
    let log = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    let also = log.try_clone().context("cannot write the build's log twice")?;
    command.stdin(Stdio::null()).stdout(log).stderr(also);
    let mut child = command.spawn().with_context(|| format!("cannot start {what}"))?;
    let begun = Instant::now();
    let mut said = begun;
    let status = loop {
        if let Some(status) = child.try_wait().with_context(|| format!("cannot wait for {what}"))? {
            break status;
        }
        if said.elapsed() > SIGN_OF_LIFE {
            said = Instant::now();
            progress(&format!("{what}: {} s so far", begun.elapsed().as_secs()));
        }
        sleep(Duration::from_millis(50));
    };
    if !status.success() {
        bail!("{what} failed ({status}); it may need the network. Its last lines:\n{}", last_lines(&path, 20));
    }
    fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))
}
