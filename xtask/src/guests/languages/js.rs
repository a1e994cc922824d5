//! JavaScript, by componentize-js: the engine with the guest's source already read, as a snapshot.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use windlass_testbed::tools;

use super::{Places, WORLD};
use crate::run::run;

pub(super) fn build(places: &Places) -> Result<Vec<u8>> {
    let component = places.work.join("component.wasm");
    let mut componentize = Command::new(componentize_js(places)?);
    componentize.arg(places.source.join("reconciler.js")).arg("--out").arg(&component);
    componentize.arg("--wit").arg(&places.wit).args(["--world-name", WORLD]);
    // The host serves no HTTP.
    run(componentize.args(["--disable", "http", "fetch-event"]))?;
    fs::read(component).context("componentize-js made no component")
}

/// The program, installed from npm exactly as the guest's lock file says.
fn componentize_js(places: &Places) -> Result<PathBuf> {
    const LOCK: &str = "package-lock.json";
    let home = places.tools.join("componentize-js");
    let (program, stamp) = (home.join("node_modules/.bin/componentize-js"), home.join("installed.json"));
    let wanted = fs::read(places.source.join(LOCK))?;
    if fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(program);
    }
    tools::stderr(&format!("installing componentize-js from npm into {}", home.display()));
    fs::create_dir_all(&home)?;
    for name in ["package.json", LOCK] {
        fs::copy(places.source.join(name), home.join(name))?;
    }
    install(&home)?;
    fs::write(&stamp, wanted)?;
    Ok(program)
}

fn install(home: &Path) -> Result<()> {
    let mut npm = Command::new("npm");
    // None of them has to run anything to be installed.
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(home);
    run(&mut npm).context("this needs Node.js 20 or newer with npm, and its registry")
}
