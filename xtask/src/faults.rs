//! `cargo xtask faults`: the lives of the operators, killed at every write and under every fault.

use windlass_testbed::tools;

use crate::guests;
use crate::run::{cargo, root, run};

/// Flags.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Prints the number of runs and their differences, and a table of faults and operators with the time to converge. \
    It takes some 80 minutes on two cores; `cargo xtask test` runs a sample.

Examples:
  cargo xtask faults
  cargo xtask faults --only echo,mysqlcluster restart
  cargo xtask faults --only silent matrix"
)]
pub struct Args {
    /// Only this part: the host killed at every write, or every fault beside every operator
    #[arg(value_enum)]
    part: Option<Part>,
    /// Only the operators (restart) or the faults (matrix) whose name holds one of these, separated by commas
    #[arg(long, value_name = "NAMES")]
    only: Option<String>,
    /// The seed of all draws
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The parts of the set.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Part {
    /// The host is killed before and after each write of each life
    Restart,
    /// Each fault lasts for a while in each step of each life
    Matrix,
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
    command.args(["test", "--workspace", "--test", "faults", "--"]);
    command.args(["--nocapture", "--test-threads=1"]);
    match args.part {
        None => {}
        Some(Part::Restart) => {
            command.arg("restart::");
        }
        Some(Part::Matrix) => {
            command.arg("matrix::");
        }
    }
    command.env("WINDLASS_FAULTS", "all").env("WINDLASS_FAULT_SEED", args.seed.to_string());
    if let Some(only) = &args.only {
        command.env("WINDLASS_FAULTS_ONLY", only);
    }
    run(command.current_dir(root()?))
}
