//! `windlass new`: makes the project of a new plugin.

use std::path::PathBuf;
use std::process::ExitCode;

use windlass_build::{Language, Template};

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
    /// Name of the plugin: a-z, 0-9 and -. The kind of its parents follows from it: `WebApp` for web-app
    name: String,
    /// Language of the project
    #[arg(long, value_enum)]
    lang: Lang,
    /// Group of the kind: a domain that you own
    #[arg(long, default_value = "example.com")]
    group: String,
    /// Folder of the project, which is empty or does not exist; default: the name
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Language of a project.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Lang {
    /// Rust
    Rust,
    /// Go
    Go,
    /// JavaScript with checked types; TypeScript works as well
    Js,
    /// Python
    Python,
}

/// Writes the project, and prints the next step.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let language = match args.lang {
        Lang::Rust => Language::Rust,
        Lang::Go => Language::Go,
        Lang::Js => Language::JavaScript,
        Lang::Python => Language::Python,
    };
    let template = Template { language, name: args.name.clone(), group: args.group.clone() };
    let folder = args.dir.clone().unwrap_or_else(|| PathBuf::from(&args.name));
    for file in template.write(&folder)? {
        out!("{}", folder.join(file).display());
    }
    err!(
        "note: the plural of {} is a guess: {}. It is a part of the CRD's name, which cannot change once the CRD is installed; the \
         definition of the kind can set another one now",
        template.kind(),
        template.plural()
    );
    err!(
        "created plugin {} for the kind {} ({language}); next: {}",
        args.name,
        template.kind(),
        folder.join("README.md").display()
    );
    Ok(ExitCode::SUCCESS)
}
