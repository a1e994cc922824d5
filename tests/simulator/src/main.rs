//! `windlass-simulator`: runs histories by their seeds, and shrinks those that end badly.

mod chance;
mod search;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use rustix::time::ClockId;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use windlass_simulator::history::History;
use windlass_simulator::reached::Reached;
use windlass_simulator::setup::Compiled;
use windlass_simulator::world::{self, Outcome};

/// Run hosts against a model of the API server, and look for histories that end badly
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one history, and print what is wrong with its end
    Run(RunArgs),
    /// Run the histories of many seeds, each in a process of its own
    Search(search::SearchArgs),
    /// Take away from a history that ends badly whatever does not matter
    Shrink(search::ShrinkArgs),
    /// Compile a component, as the child of a host
    #[command(hide = true, name = windlass_sandbox::compile::SUBCOMMAND)]
    CompileChild,
}

#[derive(clap::Args)]
struct RunArgs {
    /// The seed of the history
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A file with the history, instead of that of the seed
    #[arg(long)]
    history: Option<PathBuf>,
    /// Print what happened, line by line
    #[arg(long)]
    trace: bool,
    /// Print what the hosts log, as far as `RUST_LOG` asks for it
    #[arg(long)]
    log: bool,
    /// Folder with the compiled component; without it the component is compiled first
    #[arg(long, hide = true)]
    compiled: Option<PathBuf>,
    /// Print the outcome as JSON
    #[arg(long, hide = true)]
    json: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    match Args::parse().command {
        Command::CompileChild => Ok(windlass_sandbox::compile::child_main()),
        Command::Run(args) => run(&args),
        Command::Search(args) => search::search(&args),
        Command::Shrink(args) => search::shrink(&args),
    }
}

fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let reached = Reached::default();
    if args.log {
        tracing_subscriber::fmt().with_env_filter(EnvFilter::from_default_env()).init();
    } else {
        tracing_subscriber::registry().with(reached.clone()).init();
    }
    let history = match &args.history {
        Some(file) => History::read(file)?,
        None => History::of(args.seed),
    };
    let compiled = match &args.compiled {
        Some(folder) => Compiled::in_folder(folder)?,
        None => Compiled::new()?,
    };
    watch_over(&history);
    let outcome = on_a_fresh_thread(&history, &compiled)?;
    let outcome = Outcome { reached: reached.counts(), ..outcome };
    if args.trace {
        outcome.lines.iter().for_each(|line| println!("{line}"));
    }
    if args.json {
        println!("{}", serde_json::to_string(&outcome)?);
        return Ok(ExitCode::SUCCESS);
    }
    println!("seed {}, trace {}", history.seed, outcome.hash);
    outcome.problems.iter().for_each(|problem| println!("  {problem}"));
    Ok(if outcome.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Time of a processor that a history may take: many times what the longest takes.
const PATIENCE: Duration = Duration::from_mins(1);

/// Ends the process if a history never ends: the time of a simulation stands still while its tasks wake each other.
fn watch_over(history: &History) {
    let seed = history.seed;
    std::thread::spawn(move || {
        // The machine may be busy with something else.
        while processor_time() < PATIENCE {
            std::thread::sleep(Duration::from_secs(1));
        }
        eprintln!("the history of seed {seed} does not end: time stands still while tasks wake each other");
        std::process::exit(3);
    });
}

/// The time that this process has had of a processor.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
    Duration::from_secs(time.tv_sec.unsigned_abs())
}

/// Runs a history on a thread whose random numbers follow from its seed.
fn on_a_fresh_thread(history: &History, compiled: &Compiled) -> anyhow::Result<Outcome> {
    let run = || {
        chance::seed(history.seed);
        world::run(history, compiled)
    };
    std::thread::scope(|scope| scope.spawn(run).join())
        .unwrap_or_else(|_| Ok(Outcome { problems: vec!["a panic".to_owned()], ..Outcome::default() }))
}
