//! JavaScript, by componentize-js: the engine with the guest's source already read, as a snapshot.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use windlass_build::Tools;
use windlass_testbed::tools;

use super::{Places, WORLD, symlink};
use crate::run::run;

const PACKAGE: &str = include_str!("js/package.json");
/// Of all that is installed, the version and the hash.
pub(super) const LOCK: &str = include_str!("js/package-lock.json");

/// componentize-js and esbuild, and a link by which Node.js finds the SDK.
pub(super) fn tools(places: &Places) -> Result<Tools> {
    let packages = places.source.join("node_modules/@windlass");
    fs::create_dir_all(&packages)?;
    symlink(&places.sdk, packages.join("plugin"))?;
    Ok(Tools { folders: vec![programs(places)?], ..Tools::default() })
}

pub(super) fn build(places: &Places) -> Result<Vec<u8>> {
    make_modules_of_json(&places.source)?;
    let component = places.work.join("component.wasm");
    let mut componentize = Command::new(programs(places)?.join("componentize-js"));
    componentize.arg(places.source.join("reconciler.js")).arg("--out").arg(&component);
    componentize.arg("--wit").arg(&places.wit).args(["--world-name", WORLD]);
    // The host serves no HTTP.
    run(componentize.args(["--disable", "http", "fetch-event"]))?;
    fs::read(component).context("componentize-js made no component")
}

/// The engine reads every module that is imported as a script, also those which say that they are JSON.
fn make_modules_of_json(source: &Path) -> Result<()> {
    for file in super::files(source)? {
        if file.extension().is_some_and(|extension| extension == "json") {
            let script = format!("export default {};", fs::read_to_string(&file)?);
            fs::write(&file, script)?;
        }
    }
    Ok(())
}

/// The folder of the programs, installed from npm exactly as the lock file says.
fn programs(places: &Places) -> Result<PathBuf> {
    let home = places.tools.join("componentize-js");
    let (programs, stamp) = (home.join("node_modules/.bin"), home.join("installed.json"));
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == LOCK) {
        return Ok(programs);
    }
    tools::stderr(&format!("installing componentize-js and esbuild from npm into {}", home.display()));
    fs::create_dir_all(&home)?;
    fs::write(home.join("package.json"), PACKAGE)?;
    fs::write(home.join("package-lock.json"), LOCK)?;
    install(&home)?;
    fs::write(&stamp, LOCK)?;
    Ok(programs)
}

fn install(home: &Path) -> Result<()> {
    let mut npm = Command::new("npm");
    // None of them has to run anything to be installed.
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(home);
    run(&mut npm).context("this needs Node.js 20 or newer with npm, and its registry")
}
