//! Programs from the Python package index, in virtual environments of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use windlass_testbed::tools;

use crate::run::run;

/// The folder of the packages of a virtual environment with this folder of programs.
///
/// # Errors
/// If its Python does not run.
pub fn packages(programs: &Path) -> anyhow::Result<PathBuf> {
    let mut python = Command::new(programs.join("python3"));
    let output = python.args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).output()?;
    ensure!(output.status.success(), "{}: {}", programs.display(), String::from_utf8_lossy(&output.stderr));
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

/// A virtual environment in `home` with exactly the packages in the requirements (the text of such a file). Returns its
/// folder of programs.
///
/// # Errors
/// If there is no Python 3 with its venv module, or the package index cannot be reached.
pub fn with(home: &Path, requirements: &str) -> anyhow::Result<PathBuf> {
    let (programs, stamp) = (home.join("bin"), home.join("requirements.txt"));
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == requirements) {
        return Ok(programs);
    }
    tools::stderr(&format!("installing from PyPI into {}", home.display()));
    let needs = "install Python 3 with its venv module; the Python package index must be reachable";
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(home)).context(needs)?;
    let mut pip = Command::new(programs.join("python3"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "-r"]);
    let wanted = home.join("wanted.txt");
    fs::write(&wanted, requirements)?;
    run(pip.arg(wanted)).context(needs)?;
    fs::write(&stamp, requirements)?;
    Ok(programs)
}
