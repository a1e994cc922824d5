//! `windlass build`: builds the component of a plugin's project.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use windlass_build::{FOLDER, Project, Tools};

use super::component::CacheArgs;

/// Flags of `windlass build`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  windlass build
  windlass build greeting --output-file greeting.wasm

The language is that of the project's manifest: Cargo.toml (Rust), go.mod (Go), package.json (JavaScript, TypeScript) or pyproject.toml (Python).
The command runs the language's own tools, and installs none of them: if one is missing, the message says how to get it.

Exit codes:
  0  the component was built, and the host can load it
  2  wrong usage
  3  the command failed; the message says why")]
pub struct Args {
    /// Folder of the project
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// File of the component; default: `build/NAME.wasm` in the project, with the name in its manifest
    #[arg(long, value_name = "FILE")]
    output_file: Option<PathBuf>,
    #[command(flatten)]
    cache: CacheArgs,
}

/// Builds the component, and loads it once: a component that the host rejects is no result.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let project = Project::find(&args.folder)?;
    err!("building {} ({})", project.name, project.language);
    let bytes = windlass_build::build(&project, &Tools::default())
        .with_context(|| format!("project {} was not built", args.folder.display()))?;
    let component = args.cache.load(&bytes).context("the host cannot load the component")?;
    let output = args.output_file.clone();
    let output = output.unwrap_or_else(|| project.folder.join(FOLDER).join(&project.name).with_extension("wasm"));
    fs::write(&output, &bytes).with_context(|| format!("cannot write {}", output.display()))?;
    let (descriptor, size) = (component.descriptor(), bytes.len().div_ceil(1024));
    out!("{}: {} {}, {size} KiB, {}", output.display(), descriptor.name, descriptor.version, component.digest());
    Ok(ExitCode::SUCCESS)
}
