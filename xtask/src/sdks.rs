//! Runs the tests of the SDKs and of the plugins on them, each with its language's own test runner.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use windlass_testbed::tools::{self, Go};

use crate::run::{root, run, windlass};
use crate::{npm, references, venv};

/// Go modules with tests.
const GO: [&str; 5] =
    ["sdk/go", "plugins/echo/go", "plugins/myapp/go", "plugins/postgres/go", "host/conformance/probe/go"];
/// npm packages with tests. The SDK comes first: the plugins use its packages.
const JS: [&str; 2] = ["sdk/js", "plugins/echo/js"];
/// Folders with tests in Python.
const PYTHON: [&str; 3] = ["sdk/python", "plugins/echo/python", "plugins/myapp/python"];
/// What the tests in Python need: `PyYAML`, and pdoc with its dependencies.
const REQUIREMENTS: &str = include_str!("sdks/requirements.txt");

/// The variable with the binary that the SDKs' test harnesses ask.
pub const WINDLASS: &str = "WINDLASS";

/// Runs all tests.
///
/// # Errors
/// If a test fails, or a tool is missing.
pub fn test() -> Result<()> {
    let (root, windlass) = (root()?, windlass()?);
    for folder in GO {
        println!("     Running go test in {folder}");
        let mut go = Go::find(&tools::stderr)?.command();
        run(go.args(["test", "./..."]).env(WINDLASS, &windlass).current_dir(root.join(folder)))?;
    }
    for folder in JS {
        println!("     Running npm test in {folder}");
        let folder = root.join(folder);
        npm::install(&folder)?;
        run(Command::new("npm").args(["test", "--silent"]).env(WINDLASS, &windlass).current_dir(folder))?;
    }
    println!("     Running typedoc in sdk/js");
    references::check_javascript(&root)?;
    let programs = python(&root)?;
    for folder in PYTHON {
        println!("     Running python -m unittest in {folder}");
        let folder = root.join(folder);
        let tests = if folder.join("tests").is_dir() { "tests" } else { "." };
        let mut python = Command::new(programs.join("python3"));
        python.env(WINDLASS, &windlass);
        // The repository stays as it is.
        python.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONPATH", root.join("sdk/python/src"));
        run(python.args(["-m", "unittest", "discover", "--start-directory", tests]).current_dir(folder))?;
    }
    Ok(())
}

/// The programs of the virtual environment for the SDK for Python: `python3` and `pdoc`.
///
/// # Errors
/// If the environment cannot be made.
pub fn python(root: &Path) -> Result<PathBuf> {
    venv::with(&root.join("target/tools/sdk-python"), REQUIREMENTS)
}
