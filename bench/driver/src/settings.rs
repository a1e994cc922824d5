//! The amounts of work, and the measured programs.

use std::path::PathBuf;
use std::time::Duration;

/// The programs that `cargo xtask bench` has built.
#[derive(Debug, Clone, clap::Args)]
pub struct Paths {
    /// The release build of `windlass`
    #[arg(long)]
    pub windlass: PathBuf,
    /// The release build of `windlass-host`; without it, `windlass run` is measured, as that of an older commit
    #[arg(long)]
    pub host: Option<PathBuf>,
    /// The measured component
    #[arg(long)]
    pub load: PathBuf,
    /// The shipped plugins
    #[arg(long)]
    pub shipped: Vec<PathBuf>,
    /// Folder of the hostile guests
    #[arg(long)]
    pub hostile: PathBuf,
    /// Folder of the components of `cargo xtask guests`: for `--only languages`
    #[arg(long)]
    pub guests: Option<PathBuf>,
    /// The example `call-latency` of windlass-sandbox
    #[arg(long)]
    pub call_latency: Option<PathBuf>,
    /// The peer on Go's controller-runtime
    #[arg(long)]
    pub controller_runtime: Option<PathBuf>,
    /// Python of the virtual environment with kopf
    #[arg(long)]
    pub kopf_python: Option<PathBuf>,
    /// The peer on kopf
    #[arg(long)]
    pub kopf_operator: Option<PathBuf>,
    /// Windlass' folder of compiled components: filled, as at a restart
    #[arg(long)]
    pub cache: PathBuf,
}

/// Parents that each contestant reconciles at once.
pub const WORKERS: usize = 16;
/// Children of a parent in works A and B.
pub const CHILDREN: usize = 3;
/// Bytes of padding in a child.
pub const PAYLOAD: usize = 256;

/// The time that a process gets to finish its work before it is measured or the next one starts.
pub const REST: Duration = Duration::from_secs(3);

/// The time without work after which a process is idle. A host releases the code of a component after one to two minutes without a call,
/// and returns unused memory once a minute.
pub const UNTIL_IDLE: Duration = Duration::from_mins(3);

/// The amounts of work of a run.
#[derive(Debug, Clone)]
pub struct Amounts {
    /// Rounds of works A and B; in each, every contestant works once, on a cluster of its own.
    pub rounds: usize,
    /// Rounds in which kopf takes part; it takes far longer.
    pub kopf_rounds: usize,
    /// Parents of works A and B.
    pub parents: usize,
    /// The number of kopf's parents.
    pub kopf_parents: usize,
    /// Changes of work B.
    pub changes: usize,
    /// The time for which idle processes are measured.
    pub idle: Duration,
    /// The number of converged parents that are reconciled again.
    pub settled: usize,
    /// Minutes of churn.
    pub churn_minutes: usize,
    /// The number of parents that one to three hosts share.
    pub shared: usize,
    /// The numbers of parents at which memory is measured.
    pub sizes: [usize; 3],
    /// The number of plugins at a start.
    pub plugins: usize,
    /// The number of parents of one of these.
    pub parents_of_one: usize,
    /// Changes in each half of a pair: next to a plugin that computes, and next to an outside process that does.
    pub neighbour_changes: usize,
    /// The number of such pairs.
    pub neighbour_pairs: usize,
    /// Calls of a plugin.
    pub calls: usize,
    /// Calls of a plugin in each language, with three children and with many.
    pub language_calls: [usize; 2],
}

impl Amounts {
    /// Takes about 15 minutes on two cores.
    pub fn quick() -> Self {
        Self {
            rounds: 2,
            kopf_rounds: 1,
            parents: 1000,
            kopf_parents: 300,
            changes: 200,
            idle: Duration::from_secs(15),
            settled: 2000,
            churn_minutes: 15,
            shared: 2000,
            sizes: [500, 1000, 4000],
            plugins: 10,
            parents_of_one: 2000,
            neighbour_changes: 200,
            neighbour_pairs: 2,
            calls: 10_000,
            language_calls: [200, 20],
        }
    }

    /// Takes at most 45 minutes on two cores.
    pub fn full() -> Self {
        Self {
            rounds: 5,
            kopf_rounds: 2,
            parents: 2000,
            kopf_parents: 500,
            changes: 400,
            idle: Duration::from_secs(30),
            settled: 10_000,
            churn_minutes: 60,
            shared: 5000,
            sizes: [1000, 5000, 20_000],
            plugins: 100,
            parents_of_one: 10_000,
            neighbour_changes: 400,
            neighbour_pairs: 3,
            calls: 50_000,
            language_calls: [500, 50],
        }
    }
}
