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
    // In the project's folder: rustup and cargo look for the toolchain and the configuration there.
    let mut command = Command::new(&cargo);
    command.current_dir(&project.folder);
    // A `cdylib` alone gets link-time optimization, also if the manifest names further types for tests.
    command.args(["rustc", "--release", "--lib", "--crate-type", "cdylib", "--target", TARGET]);
    command.args(["--message-format", "json-render-diagnostics"]);
    let messages = run(&mut command).with_context(|| advice(project, tools))?;
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
fn advice(project: &Project, tools: &Tools) -> String {
    let rustc = std::env::var_os("RUSTC").map_or_else(|| tools.find("rustc", &[], ""), |rustc| Ok(rustc.into()));
    let libraries = rustc.and_then(|rustc| {
        let mut command = Command::new(rustc);
        run(command.current_dir(&project.folder).args(["--print", "target-libdir", "--target", TARGET]))
    });
    let is_installed = |libraries: Vec<u8>| Path::new(String::from_utf8_lossy(&libraries).trim()).is_dir();
    if libraries.is_ok_and(is_installed) {
        "the crate does not build".to_owned()
    } else {
        format!("the compiler's target {TARGET} may be missing: run `rustup target add {TARGET}`")
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::project::Language;

    #[test]
    fn cargo_runs_in_the_projects_folder() {
        let folders = tempfile::tempdir().expect("a folder");
        let (programs, project) = (folders.path().join("programs"), folders.path().join("project"));
        fs::create_dir(&programs).expect("created");
        fs::create_dir(&project).expect("created");
        // `cargo rustc …` is `sh rustc …` here: it runs a script of its own folder.
        symlink("/bin/sh", programs.join("cargo")).expect("linked");
        fs::write(project.join("rustc"), "echo > ran\nexit 1\n").expect("written");
        let tools = Tools { folders: vec![programs], ..Tools::default() };
        let found = Project { folder: project.clone(), language: Language::Rust, name: "greeting".to_owned() };
        build(&found, &tools).expect_err("cargo fails");
        assert!(project.join("ran").exists());
    }
}
