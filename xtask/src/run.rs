//! Runs other programs, and finds the repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// The repository's root.
pub fn root() -> anyhow::Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(here.parent().context("xtask has no parent folder")?.to_owned())
}

/// The cargo that started xtask, with the environment of a shell.
///
/// `cargo run` sets variables about xtask for its program, and build scripts such as ring's run again when these
/// change: that would cost half a minute whenever `cargo xtask` and plain `cargo` alternate.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// Runs a program to its end.
///
/// # Errors
/// If it does not start or ends with a failure.
pub fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("{command:?} does not start"))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}

/// Runs a program to its end, and returns its output.
///
/// # Errors
/// If it does not start, ends with a failure, or prints something other than UTF-8.
pub fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .with_context(|| format!("{command:?} does not start"))?;
    if !output.status.success() {
        bail!("{command:?} ended with {}", output.status);
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Builds the binaries `windlass`, `windlass-host` and `windlass-compile`, and returns the path of the first. They are built with the
/// features of the whole workspace, as `cargo test` builds them: otherwise each of the two would build wasmtime and kube again.
///
/// # Errors
/// If it does not build.
pub fn windlass() -> anyhow::Result<PathBuf> {
    let root = root()?;
    let binaries = ["--bin", "windlass", "--bin", "windlass-host", "--bin", "windlass-compile"];
    run(cargo().args(["build", "--quiet", "--workspace"]).args(binaries).current_dir(&root))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("debug/windlass"))
}

/// The command that builds a binary of the image. It is built alone, because cargo would give the host the compiler's features otherwise, and
/// with the C library in it: the host's memory has only the parts that it uses then, and the image needs no libraries.
pub fn image_binary(name: &str, profile: &str) -> Command {
    let mut build = cargo();
    build.args(["rustc", "--profile", profile, "--locked", "--package", name, "--bin", name]);
    build.args(["--", "-C", "target-feature=+crt-static"]);
    build
}
