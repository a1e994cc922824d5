//! `cargo xtask faults`: the lives of the operators, with the host killed at every write.

use windlass_testbed::tools;

use crate::guests;
use crate::run::{cargo, root, run};

/// Flags.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Prints the number of runs and their differences. The whole set takes about an hour; `cargo xtask test` \
    takes a sample.

Examples:
  cargo xtask faults
  cargo xtask faults --only echo,mysqlcluster --seed 7"
)]
pub struct Args {
    /// Only the operators whose name holds one of these, separated by commas
    #[arg(long, value_name = "NAMES")]
    only: Option<String>,
    /// The seed of all draws
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Builds and runs.
///
/// # Errors
/// If something does not build, or a life differs from an undisturbed one.
pub fn main(args: &Args) -> anyhow::Result<()> {
    guests::build(guests::Options::default())?;
    tools::control_plane(&tools::stderr)?;
    crate::run::windlass()?;
    let mut command = cargo();
    // As `cargo xtask test` builds it: otherwise each would build the dependencies with other features.
    command.args(["test", "--workspace", "--test", "faults", "--", "--nocapture", "--test-threads=1"]);
    command.env("WINDLASS_FAULTS", "all").env("WINDLASS_FAULT_SEED", args.seed.to_string());
    if let Some(only) = &args.only {
        command.env("WINDLASS_FAULTS_ONLY", only);
    }
    run(command.current_dir(root()?))
}
