//! Python, by componentize-py: its runtime with the guest's modules already imported, as a snapshot.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use super::{Places, WORLD};
use crate::{run::run, venv};

/// What is installed, and its version.
pub(super) const REQUIREMENTS: &str = include_str!("python/requirements.txt");

pub(super) fn build(places: &Places) -> Result<Vec<u8>> {
    let programs = venv::with(&places.tools.join("componentize-py"), REQUIREMENTS)?;
    let component = places.work.join("component.wasm");
    let mut componentize = Command::new(programs.join("componentize-py"));
    componentize.arg("--quiet").arg("--wit-path").arg(&places.wit).args(["--world", WORLD]);
    componentize.args(["componentize", "reconciler", "--python-path"]).arg(&places.source);
    run(componentize.arg("--output").arg(&component))?;
    fs::read(component).context("componentize-py made no component")
}
