//! Rust: a library crate, compiled by cargo.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use serde_json::Value;

use crate::project::Project;
use crate::tools::{Tools, run};
use crate::{module, read};

const TARGET: &str = "wasm32-unknown-unknown";

pub(crate) fn build(project: &Project, tools: &Tools) -> anyhow::Result<Vec<u8>> {
    let cargo = tools.find("cargo", &[], "install Rust with rustup: https://rustup.rs")?;
    let mut command = Command::new(&cargo);
    // A `cdylib` alone gets link-time optimization, also if the manifest names further types for tests.
    command.args(["rustc", "--release", "--lib", "--crate-type", "cdylib", "--target", TARGET]);
    command.args(["--message-format", "json-render-diagnostics", "--manifest-path"]);
    let messages = run(command.arg(project.folder.join("Cargo.toml"))).with_context(|| advice(tools))?;
    let messages = String::from_utf8_lossy(&messages);
    let file = messages.lines().filter_map(|line| wasm_file(&serde_json::from_str(line).ok()?)).next_back();
    let file = file.context("cargo built no module; Cargo.toml needs `crate-type = [\"cdylib\"]` in [lib]")?;
    module::of_rust(&read(&file)?)
}

/// The module in one of cargo's `compiler-artifact` messages, if there is one.
fn wasm_file(message: &Value) -> Option<PathBuf> {
    let files = message.get("filenames")?.as_array()?;
    let mut files = files.iter().filter_map(Value::as_str).map(PathBuf::from);
    files.find(|file| file.extension().is_some_and(|extension| extension == "wasm"))
}

/// Why cargo failed, as far as that can be found out.
fn advice(tools: &Tools) -> String {
    let rustc = std::env::var_os("RUSTC").map_or_else(|| tools.find("rustc", &[], ""), |rustc| Ok(rustc.into()));
    let libraries =
        rustc.and_then(|rustc| run(Command::new(rustc).args(["--print", "target-libdir", "--target", TARGET])));
    let is_installed = |libraries: Vec<u8>| Path::new(String::from_utf8_lossy(&libraries).trim()).is_dir();
    if libraries.is_ok_and(is_installed) {
        "the crate does not build".to_owned()
    } else {
        format!("the compiler's target {TARGET} may be missing: run `rustup target add {TARGET}`")
    }
}
