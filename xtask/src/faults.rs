//! `cargo xtask faults`: takes a parent of each operator through its life (create, scale, change, new component, delete)
//! while the host is killed at each write, or a fault is injected.

use windlass_testbed::tools;

use crate::guests;
use crate::run::{cargo, root, run};

/// Flags.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Prints the number of runs, each difference from a run without faults, and a table of faults and operators with the time to converge. \
    Takes some 40 minutes on two cores; `cargo xtask test` runs a sample.

Examples:
  cargo xtask faults
  cargo xtask faults --only echo,mysqlcluster restart
  cargo xtask faults --only silent matrix"
)]
pub struct Args {
    /// Only this part: `restart` kills the host at every write, `matrix` injects every fault for every operator
    #[arg(value_enum)]
    part: Option<Part>,
    /// Only the operators (restart) or the faults (matrix) whose name contains one of these, separated by commas
    #[arg(long, value_name = "NAMES")]
    only: Option<String>,
    /// Seed of all random draws
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The two groups of fault tests.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Part {
    /// The host is killed before and after each write of a parent's life
    Restart,
    /// Each fault lasts for a while in each step of a parent's life
    Matrix,
}

/// Builds everything and runs the tests.
///
/// # Errors
/// If something does not build, or a run ends differently from one without faults.
pub fn main(args: &Args) -> anyhow::Result<()> {
    guests::build(&guests::Options::default())?;
    tools::control_plane(&tools::stderr)?;
    crate::run::windlass()?;
    let mut command = cargo();
    // `--workspace`, as in `cargo xtask test`: with another selection, cargo unifies features differently and rebuilds.
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
