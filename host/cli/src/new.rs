//! `windlass new`: makes the project of a new plugin.

use std::path::PathBuf;
use std::process::ExitCode;

use windlass_build::Template;

/// Flags of `windlass new`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  windlass new greeting --lang rust
  windlass new web-app --lang go --group apps.example.com

The project has a plugin that works, its tests, a sample of its kind, and a copy of the SDK. Its README.md has the next commands.

Exit codes:
  0  the project was written
  2  wrong usage
  3  the command failed; the message says why")]
pub struct Args {
    #[command(flatten)]
    template: Template,
    /// Folder of the project, which is empty or does not exist; default: the name
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Writes the project, and prints the next step.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let Args { template, dir } = args;
    let folder = dir.clone().unwrap_or_else(|| PathBuf::from(&template.name));
    for file in template.write(&folder)? {
        out!("{}", folder.join(file).display());
    }
    let (kind, plural) = (template.kind(), template.plural());
    err!(
        "note: the plural of {kind} is a guess: {plural}. It is a part of the CRD's name, which cannot change once the CRD is \
         installed; the definition of the kind can set another one now"
    );
    let (name, language, next) = (&template.name, template.language, folder.join("README.md"));
    err!("created plugin {name} for the kind {kind} ({language}); next: {}", next.display());
    Ok(ExitCode::SUCCESS)
}
