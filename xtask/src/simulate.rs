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

/// Builds the guests and the simulator, and runs it.
///
/// # Errors
/// If something does not build, or a history ends badly.
pub fn main(args: &Args) -> anyhow::Result<()> {
    guests::build(&guests::Options::default())?;
    // `--workspace`, as in `cargo xtask test`: with another selection, cargo unifies features differently and rebuilds.
    run(cargo().args(["build", "--quiet", "--workspace", "--bin", "windlass-simulator"]).current_dir(root()?))?;
    run(std::process::Command::new(root()?.join("target/debug/windlass-simulator")).args(&args.args))
}
