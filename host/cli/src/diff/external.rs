//! Compares objects with the program in `KUBECTL_EXTERNAL_DIFF`, as `kubectl diff` does: it is called once, with two
//! folders.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};
use tempfile::TempDir;

use super::text::Texts;

/// The variable that names the program and its arguments.
const VARIABLE: &str = "KUBECTL_EXTERNAL_DIFF";

/// The program, and the folders with the objects that it compares.
pub struct External {
    command: Vec<String>,
    live: TempDir,
    desired: TempDir,
}

impl External {
    /// The program that the environment names, if any.
    ///
    /// # Errors
    /// If no temporary folder can be created.
    pub fn from_environment() -> anyhow::Result<Option<Self>> {
        let command: Vec<String> =
            std::env::var(VARIABLE).unwrap_or_default().split_whitespace().map(str::to_owned).collect();
        if command.is_empty() {
            return Ok(None);
        }
        let folder = |prefix| tempfile::Builder::new().prefix(prefix).tempdir().context("no temporary folder");
        Ok(Some(Self { command, live: folder("LIVE-")?, desired: folder("DESIRED-")? }))
    }

    /// Adds an object. A side that does not exist is a missing file.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn add(&self, texts: &Texts) -> anyhow::Result<()> {
        for (folder, text) in [(&self.live, &texts.before), (&self.desired, &texts.after)] {
            let file = folder.path().join(&texts.name);
            if let Some(text) = text {
                std::fs::write(&file, text).with_context(|| file.display().to_string())?;
            }
        }
        Ok(())
    }

    /// Runs the program. Returns whether it found differences.
    ///
    /// # Errors
    /// If it cannot be run, or fails: its exit code is neither 0 nor 1.
    pub fn run(self) -> anyhow::Result<bool> {
        run(&self.command, self.live.path(), self.desired.path())
    }
}

fn run(command: &[String], live: &Path, desired: &Path) -> anyhow::Result<bool> {
    let Some((program, args)) = command.split_first() else { bail!("{VARIABLE} is empty") };
    let status = Command::new(program).args(args).arg(live).arg(desired).status();
    let status =
        status.with_context(|| format!("{VARIABLE}: the program {program} cannot be run; correct or unset it"))?;
    match status.code() {
        Some(0) => Ok(false),
        Some(1) => Ok(true),
        _ => bail!("{VARIABLE}: {} failed: {status}", command.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_code_of_the_program_says_whether_there_are_differences() {
        let folder = tempfile::tempdir().expect("a folder");
        let run = |script: &str| {
            let command: Vec<_> = ["sh", "-c", script, "sh"].map(str::to_owned).into();
            run(&command, folder.path(), folder.path())
        };
        assert!(!run(r#"test -d "$1" && test -d "$2""#).expect("runs"), "it gets two folders");
        assert!(run("exit 1").expect("runs"));
        assert!(run("exit 2").expect_err("failed").to_string().contains("exit 2"));
    }

    #[test]
    fn program_that_does_not_exist_is_an_error_that_names_the_variable() {
        let missing = run(&["/nonexistent/diff".to_owned()], Path::new("/"), Path::new("/")).expect_err("missing");
        assert!(missing.to_string().contains(VARIABLE), "{missing}");
    }
}
