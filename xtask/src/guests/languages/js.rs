//! JavaScript, by componentize-js: the engine with the guest's source already read, as a snapshot.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use windlass_build::Tools;

use super::{Places, WORLD, symlink};
use crate::{npm, run::run};

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

/// The folder of the programs.
fn programs(places: &Places) -> Result<PathBuf> {
    npm::with(&places.tools.join("componentize-js"), PACKAGE, LOCK)
}
