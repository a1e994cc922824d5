//! `cargo xtask simulate`: runs hosts against a model of the API server (tests/simulator).

use crate::guests;
use crate::run::{cargo, root, run};

/// Flags.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask simulate search --minutes 60
  cargo xtask simulate run --seed 7 --trace
  cargo xtask simulate shrink --seed 7 --output shrunk.json
  cargo xtask simulate --help")]
#[command(disable_help_flag = true)]
pub struct Args {
    /// Arguments of the simulator
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// Builds the guests and the simulator, and runs it. A search, which may take hours, runs an optimized build.
///
/// # Errors
/// If something does not build, or a history ends badly.
pub fn main(args: &Args) -> anyhow::Result<()> {
    guests::build(&guests::Options::default())?;
    let is_search = args.args.first().is_some_and(|command| command == "search");
    let (folder, selection) = if is_search {
        ("search", &["--profile", "search", "--package", "windlass-simulator"][..])
    } else {
        // As in `cargo xtask test`: with another selection, cargo unifies features differently and rebuilds.
        ("debug", &["--workspace", "--bin", "windlass-simulator"][..])
    };
    run(cargo().args(["build", "--quiet"]).args(selection).current_dir(root()?))?;
    run(std::process::Command::new(root()?.join("target").join(folder).join("windlass-simulator")).args(&args.args))
}
