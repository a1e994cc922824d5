//! The binaries under test, which `cargo xtask test` builds before any test runs.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use windlass_testbed::tools::{self, Go};

fn target() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

#[track_caller]
fn built(path: PathBuf, how: &str) -> PathBuf {
    assert!(path.is_file(), "{} is missing: run `{how}`", path.display());
    path
}

/// Prefixes of environment variables that change the behaviour of `windlass`, in capitals.
const FOREIGN: [&str; 5] = ["WINDLASS_", "OTEL_", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"];

/// The folder of compiled components of all commands that tests run, and of the sandbox's tests. A component in JavaScript or
/// Python compiles for half a minute.
pub(crate) fn compiled() -> PathBuf {
    target().join("tmp/components")
}

/// `PATH` with the Go of the testbed, which may be the only one.
///
/// # Panics
/// If there is no Go.
pub fn path_with_go() -> OsString {
    let go = Go::find(&tools::stderr).expect("Go");
    let folders = env::var_os("PATH").unwrap_or_default();
    let own = go.path().parent().map(Path::to_owned).into_iter();
    env::join_paths(own.filter(|folder| folder.is_absolute()).chain(env::split_paths(&folders))).expect("a PATH")
}

/// The command `windlass`, without this process' variables that would change its behaviour.
#[track_caller]
pub fn windlass() -> Command {
    binary("windlass")
}

/// The host as the image runs it, likewise. `windlass-compile` lies beside it.
#[track_caller]
pub fn windlass_host() -> Command {
    binary("windlass-host")
}

#[track_caller]
fn binary(name: &str) -> Command {
    let mut command = Command::new(built(target().join("debug").join(name), "cargo xtask test"));
    for (name, _) in env::vars_os() {
        let upper = name.to_string_lossy().to_uppercase();
        if FOREIGN.iter().any(|prefix| upper.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command.env("WINDLASS_CACHE_DIR", compiled());
    command
}

/// Runs `windlass` without a cluster, and returns its exit code, standard output and standard error.
///
/// # Panics
/// If it does not start, or if a signal ends it.
#[track_caller]
pub fn run_offline(args: &[&str]) -> (i32, String, String) {
    let mut command = windlass();
    command.args(args).env("KUBECONFIG", "/nonexistent");
    let output = command.output().expect("windlass starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().expect("an exit code"), text(&output.stdout), text(&output.stderr))
}

/// A component by its name below `target/guests`: `echo`, `hostile/trap`.
#[track_caller]
pub fn guest(name: &str) -> PathBuf {
    built(target().join("guests").join(name).with_extension("wasm"), "cargo xtask guests")
}
