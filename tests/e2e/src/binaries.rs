//! What is under test: built by `cargo xtask test` before any test runs.

use std::env;
use std::path::{Path, PathBuf};

fn target() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

#[track_caller]
fn built(path: PathBuf, how: &str) -> PathBuf {
    assert!(path.is_file(), "{} is missing: run `{how}`", path.display());
    path
}

/// The `windlass` binary.
#[track_caller]
pub fn windlass() -> PathBuf {
    built(target().join("debug/windlass"), "cargo xtask test")
}

/// A component by its name below `target/guests`: `echo`, `hostile/trap`.
#[track_caller]
pub fn guest(name: &str) -> PathBuf {
    built(target().join("guests").join(name).with_extension("wasm"), "cargo xtask guests")
}
