//! buildah, which builds images without a container engine.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::Progress;

/// buildah with a storage of its own.
#[derive(Clone, Debug)]
pub struct Buildah {
    storage: PathBuf,
}

impl Buildah {
    /// With its images and containers in this folder.
    pub fn in_folder(storage: impl Into<PathBuf>) -> Self {
        Self { storage: storage.into() }
    }

    /// The folder of its images and containers.
    pub fn storage(&self) -> &Path {
        &self.storage
    }

    /// A command. The caller appends its arguments.
    pub fn command(&self) -> Command {
        let mut buildah = Command::new("buildah");
        // This driver works everywhere, also inside a container.
        buildah.args(["--storage-driver", "vfs", "--root"]).arg(&self.storage);
        buildah.arg("--runroot").arg(self.storage.with_extension("run"));
        buildah
    }

    /// Runs a command and returns its standard output without the end of the line.
    ///
    /// # Errors
    /// If it fails; the error has its standard error.
    pub fn output(&self, args: &[&str]) -> Result<String> {
        let output = self.command().args(args).output().context("cannot start buildah")?;
        let what = || format!("buildah {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), what());
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Writes an image with its name into an archive, which `ctr images import` and `docker load` read.
    ///
    /// # Errors
    /// If there is no such image, or the file cannot be written.
    pub fn archive(&self, image: &str, name: &str, file: &Path) -> Result<()> {
        // buildah appends to an archive that exists.
        let _ = std::fs::remove_file(file);
        self.output(&["push", "--quiet", image, &format!("docker-archive:{}:{name}", file.display())])?;
        Ok(())
    }
}

/// Installs the Debian packages of these programs that are missing: pairs of a program and its package.
///
/// # Errors
/// If one is missing and this is not Debian, or apt-get fails, for instance because this user is not root.
pub fn install(programs: &[(&str, &str)], progress: Progress) -> Result<()> {
    let is_missing = |(program, _): &&(&str, &str)| {
        let found = Command::new(program).arg("--version").output();
        !found.is_ok_and(|found| found.status.success())
    };
    let missing: Vec<_> = programs.iter().filter(is_missing).map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !Path::new("/etc/debian_version").exists() {
        bail!("{missing:?} are missing; install them with the package manager of this machine");
    }
    progress(&format!("installing Debian's {missing:?}"));
    let install = || {
        let mut apt = Command::new("apt-get");
        apt.args(["install", "--quiet", "--yes", "--no-install-recommends"]).args(&missing);
        apt.env("DEBIAN_FRONTEND", "noninteractive").stdout(std::process::Stdio::null()).status()
    };
    // A fresh machine has no lists of packages.
    let update = || Command::new("apt-get").args(["update", "--quiet"]).stdout(std::process::Stdio::null()).status();
    let installed = install().context("cannot start apt-get")?.success()
        || (update().context("cannot start apt-get")?.success()
            && install().context("cannot start apt-get")?.success());
    ensure!(installed, "apt-get could not install {missing:?}: install them as root");
    Ok(())
}
