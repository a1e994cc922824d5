//! Finds the programs of a language, and runs them.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

/// Where programs are searched.
#[derive(Debug, Clone, Default)]
pub struct Tools {
    /// Folders that are searched before those of the project, and before `PATH`.
    pub folders: Vec<PathBuf>,
    /// Folders of Python packages, instead of those that the project's Python has.
    pub python_packages: Vec<PathBuf>,
}

impl Tools {
    /// Finds a program, in `folders` of the project first.
    ///
    /// # Errors
    /// If there is none: `advice` says how to get it.
    pub(crate) fn find(&self, program: &str, folders: &[PathBuf], advice: &str) -> anyhow::Result<PathBuf> {
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = self.folders.iter().chain(folders).cloned().chain(env::split_paths(&path));
        let found = folders.map(|folder| folder.join(program)).find(|file| is_program(file));
        found.with_context(|| format!("{program} is missing; {advice}"))
    }
}

#[cfg(unix)]
fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(file: &Path) -> bool {
    file.is_file()
}

/// Runs a program, which prints to standard error, and returns its standard output.
///
/// # Errors
/// If it cannot be started, or fails.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let program = command.get_program().display().to_string();
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start {program}"))?;
    ensure!(output.status.success(), "{program} failed ({}); its messages are above", output.status);
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn programs_are_found_in_the_order_of_the_folders_and_missing_ones_with_advice() {
        let folder = tempfile::tempdir().expect("a folder");
        let (first, second) = (folder.path().join("a"), folder.path().join("b"));
        for folder in [&first, &second] {
            fs::create_dir(folder).expect("created");
            fs::copy("/bin/sh", folder.join("a-program")).expect("copied");
        }
        fs::write(first.join("no-program"), "").expect("written");
        let tools = Tools { folders: vec![first.clone()], ..Tools::default() };
        let find = |program| {
            tools.find(program, std::slice::from_ref(&second), "install it").map_err(|error| error.to_string())
        };
        assert_eq!(find("a-program"), Ok(first.join("a-program")));
        assert_eq!(find("no-program"), Err("no-program is missing; install it".to_owned()));
    }
}
