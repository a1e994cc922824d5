//! Runs the tests of the SDKs, of the plugins on them, and of the Python operators that the plugins are compared with, each
//! with its language's own test runner.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use windlass_testbed::tools::{self, Go};

use crate::run::{root, run};
use crate::venv;

/// Go modules with tests.
const GO: [&str; 3] = ["sdk/go", "plugins/echo/go", "plugins/myapp/go"];
/// npm packages with tests. The SDK comes first: the plugins use its packages.
const JS: [&str; 2] = ["sdk/js", "plugins/echo/js"];
/// Folders with tests in Python.
const PYTHON: [&str; 4] = ["sdk/python", "plugins/echo/python", "plugins/myapp/python", "bench/peers/operators"];
/// What the tests in Python need.
const REQUIREMENTS: &str = "PyYAML==6.0.4\n";

/// Runs all tests.
///
/// # Errors
/// If a test fails, or a tool is missing.
pub fn test() -> Result<()> {
    let root = root()?;
    for folder in GO {
        println!("     Running go test in {folder}");
        let mut go = Go::find(&tools::stderr)?.command();
        run(go.args(["test", "./..."]).current_dir(root.join(folder)))?;
    }
    for folder in JS {
        println!("     Running npm test in {folder}");
        let folder = root.join(folder);
        install(&folder)?;
        run(Command::new("npm").args(["test", "--silent"]).current_dir(folder))?;
    }
    let programs = venv::with(&root.join("target/tools/sdk-python"), REQUIREMENTS)?;
    for folder in PYTHON {
        println!("     Running python -m unittest in {folder}");
        let folder = root.join(folder);
        let tests = if folder.join("tests").is_dir() { "tests" } else { "." };
        let mut python = Command::new(programs.join("python3"));
        // The repository stays as it is.
        python.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONPATH", root.join("sdk/python/src"));
        run(python.args(["-m", "unittest", "discover", "--start-directory", tests]).current_dir(folder))?;
    }
    Ok(())
}

/// Installs the packages of a folder exactly as its lock file says, unless they are.
fn install(folder: &Path) -> Result<()> {
    let (lock, stamp) = (folder.join("package-lock.json"), folder.join("node_modules/.windlass-lock.json"));
    let lock = fs::read(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
    if fs::read(&stamp).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    let mut npm = Command::new("npm");
    // None of them has to run anything to be installed.
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(folder);
    run(&mut npm).context("this needs Node.js 20 or newer with npm, and its registry")?;
    Ok(fs::write(stamp, lock)?)
}
