//! Tests the sandbox from outside, with real components and a real compiling child.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod admission;
mod calls;
#[cfg(target_os = "linux")]
mod confined;
mod contract;
mod frozen;
mod golden;
mod guest;
mod languages;
mod library;
mod loading;
mod wasi;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tempfile::TempDir;
use windlass_core::contract::{CallFailure, CallReport, Limits, Observed, Phase, PluginResult, Request};
use windlass_core::value::ids::Gvk;
use windlass_sandbox::{Ambient, CompilerCommand, Component, Options, Sandbox, run_here};

const MIB: u64 = 1024 * 1024;

/// An example that cargo builds beside the tests.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let exe = test.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(exe.exists(), "run `cargo build --examples -p windlass-sandbox` first: no {}", exe.display());
    exe
}

fn compile_child() -> CompilerCommand {
    CompilerCommand::new(example("compile-child"), [])
}

fn command(exe: &str, args: &[&str]) -> CompilerCommand {
    CompilerCommand::new(exe, args.iter().map(OsString::from))
}

fn options(cache: &TempDir) -> Options {
    Options { compiler: compile_child(), ..Options::new(cache.path().join("cache")) }
}

/// One sandbox for all tests that do not inspect its cache.
static SANDBOX: LazyLock<(Sandbox, TempDir)> = LazyLock::new(|| {
    let cache = TempDir::new().unwrap();
    (Sandbox::new(options(&cache)).unwrap(), cache)
});

fn load(bytes: &[u8]) -> Arc<Component> {
    SANDBOX.0.load(bytes).unwrap()
}

/// A parent with these bytes; what is not in them is as in most tests.
fn parent_of(object: &[u8]) -> Observed {
    let kind = Gvk::from_api_version("demo.windlass.dev/v1", "Echo");
    Observed { kind, namespace: Some("default".into()), name: "a".into(), deleting: false, object: object.into() }
}

fn request(parent: &[u8]) -> Request {
    Request::about(Phase::Sync, parent_of(parent))
}

/// Generous for slow machines; calls that must end by themselves end long before.
fn limits() -> Limits {
    Limits { deadline: Duration::from_secs(20), ..Limits::default() }
}

fn reconcile(component: &Component, limits: &Limits) -> (Result<PluginResult, CallFailure>, CallReport) {
    run_here(component.reconcile(&request(b"{}"), limits, Ambient::now([7; 32])))
}
