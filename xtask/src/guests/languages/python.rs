//! Python, by componentize-py: its runtime with the guest's modules already imported, as a snapshot.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use windlass_build::Tools;

use super::{Places, WORLD};
use crate::{run::run, venv};

/// What is installed, and its version.
pub(super) const REQUIREMENTS: &str = include_str!("python/requirements.txt");

/// componentize-py, the SDK, and the packages that guests use.
pub(super) fn tools(places: &Places) -> Result<Tools> {
    let programs = programs(places)?;
    let site = venv::packages(&programs)?;
    Ok(Tools { folders: vec![programs], python_packages: vec![places.sdk.join("src"), site] })
}

fn programs(places: &Places) -> Result<PathBuf> {
    venv::with(&places.tools.join("componentize-py"), REQUIREMENTS)
}

pub(super) fn build(places: &Places) -> Result<Vec<u8>> {
    let component = places.work.join("component.wasm");
    let mut componentize = Command::new(programs(places)?.join("componentize-py"));
    componentize.arg("--quiet").arg("--wit-path").arg(&places.wit).args(["--world", WORLD]);
    componentize.args(["componentize", "reconciler", "--python-path"]).arg(&places.source);
    run(componentize.arg("--output").arg(&component))?;
    fs::read(component).context("componentize-py made no component")
}
