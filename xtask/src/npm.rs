//! Packages from npm, exactly those of a lock file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use windlass_testbed::tools;

use crate::run::run;

/// Installs packages into a folder of their own, from the texts of their `package.json` and `package-lock.json`. Returns the
/// folder of their programs.
///
/// # Errors
/// If there is no npm, or its registry cannot be reached.
pub fn with(home: &Path, package: &str, lock: &str) -> Result<PathBuf> {
    fs::create_dir_all(home)?;
    fs::write(home.join("package.json"), package)?;
    fs::write(home.join("package-lock.json"), lock)?;
    install(home)?;
    Ok(home.join("node_modules/.bin"))
}

/// Installs the packages of a folder exactly as its lock file says, unless they are.
///
/// # Errors
/// As [`with`], or if the folder has no lock file.
pub fn install(folder: &Path) -> Result<()> {
    let (lock, stamp) = (folder.join("package-lock.json"), folder.join("node_modules/.windlass-lock.json"));
    let lock = fs::read(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
    if fs::read(&stamp).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    tools::stderr(&format!("installing from npm into {}", folder.display()));
    let mut npm = Command::new("npm");
    // None of them has to run anything to be installed.
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(folder);
    run(&mut npm).context("this needs Node.js 20 or newer with npm, and its registry")?;
    Ok(fs::write(stamp, lock)?)
}
