//! Runs many histories in processes of their own, and shrinks those that end badly.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use windlass_simulator::history::History;
use windlass_simulator::setup::Compiled;
use windlass_simulator::world::Outcome;

#[derive(clap::Args)]
pub struct SearchArgs {
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of seeds
    #[arg(long, default_value_t = 100)]
    count: u64,
    /// Look for at most this many minutes
    #[arg(long, value_name = "MINUTES")]
    minutes: Option<u64>,
    /// Histories that run at the same time. Default: one for each processor
    #[arg(long)]
    jobs: Option<usize>,
    /// Run each history twice, and compare the traces
    #[arg(long)]
    twice: bool,
    /// End with the first history that ends badly
    #[arg(long)]
    first: bool,
}

#[derive(clap::Args)]
pub struct ShrinkArgs {
    /// The seed of the history
    #[arg(long)]
    seed: u64,
    /// File to write the shrunk history to
    #[arg(long)]
    output: PathBuf,
}

/// What the histories so far came to.
#[derive(Default)]
struct Found {
    histories: u64,
    failed: Vec<u64>,
    reached: BTreeMap<String, u64>,
}

/// Runs the histories of many seeds.
pub fn search(args: &SearchArgs) -> anyhow::Result<ExitCode> {
    let compiled = Compiled::new()?;
    let began = Instant::now();
    let limit = args.minutes.map(|minutes| Duration::from_secs(60 * minutes));
    let (next, found) = (AtomicU64::new(0), Mutex::new(Found::default()));
    let jobs = args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let work = || -> anyhow::Result<()> {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let is_over =
                limit.is_some_and(|limit| began.elapsed() > limit) || args.first && !found.lock().failed.is_empty();
            if index >= args.count || is_over {
                return Ok(());
            }
            let seed = args.seed + index;
            let mut outcome = outcome_of(&History::of(seed), compiled.path())?;
            if args.twice {
                outcome.problems.extend(difference(&outcome, &outcome_of(&History::of(seed), compiled.path())?));
            }
            note(&mut found.lock(), seed, &outcome);
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread of the search panicked")))
        })
    })?;
    let Found { histories, failed, reached } = found.into_inner();
    for (what, count) in reached {
        println!("{count:>8} {what}");
    }
    let seconds = began.elapsed().as_secs().max(1);
    let an_hour = histories * 3600 / seconds;
    println!("{histories} histories in {seconds} s ({an_hour} an hour)");
    println!("{} ended badly: {failed:?}", failed.len());
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How the trace of a second run differs.
fn difference(outcome: &Outcome, again: &Outcome) -> Vec<String> {
    let lines = |of: &Outcome, at: usize| {
        let around = of.lines.get(at.saturating_sub(3)..(at + 3).min(of.lines.len())).unwrap_or_default();
        around.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n  ")
    };
    match outcome.lines.iter().zip(&again.lines).position(|(one, other)| one != other) {
        Some(at) => {
            vec![format!("a second run had another trace:\n  {}\n  and\n  {}", lines(outcome, at), lines(again, at))]
        }
        None if outcome.hash != again.hash => vec!["the trace of a second run was longer or shorter".to_owned()],
        None => Vec::new(),
    }
}

fn note(found: &mut Found, seed: u64, outcome: &Outcome) {
    found.histories += 1;
    for what in outcome.reached.keys() {
        *found.reached.entry(what.clone()).or_default() += 1;
    }
    if outcome.problems.is_empty() {
        return;
    }
    found.failed.push(seed);
    println!("seed {seed}: run it with `cargo xtask simulate run --seed {seed} --trace`");
    outcome.problems.iter().for_each(|problem| println!("  {problem}"));
}

/// Runs a history in a process of its own.
fn outcome_of(history: &History, compiled: &Path) -> anyhow::Result<Outcome> {
    let file = tempfile::NamedTempFile::new()?;
    fs::write(file.path(), serde_json::to_vec(history)?)?;
    let run = Command::new(std::env::current_exe()?)
        .args(["run", "--json", "--history"])
        .arg(file.path())
        .arg("--compiled")
        .arg(compiled)
        .stderr(Stdio::piped())
        .output()?;
    // A history that panics, or never ends, ends badly as well.
    let failed =
        |_| Outcome { problems: vec![String::from_utf8_lossy(&run.stderr).into_owned()], ..Outcome::default() };
    Ok(serde_json::from_slice(&run.stdout).unwrap_or_else(failed))
}

/// Shrinks a history (delta debugging, Zeller and Hildebrandt 2002): takes away steps, by halves and smaller parts, as long as it still
/// ends badly.
pub fn shrink(args: &ShrinkArgs) -> anyhow::Result<ExitCode> {
    let compiled = Compiled::new()?;
    let ends_badly =
        |history: &History| Ok::<_, anyhow::Error>(!outcome_of(history, compiled.path())?.problems.is_empty());
    let mut history = History::of(args.seed);
    anyhow::ensure!(ends_badly(&history)?, "the history of seed {} ends well", args.seed);
    let mut parts = 2;
    while history.steps.len() > 1 {
        let size = history.steps.len().div_ceil(parts);
        let mut smaller = None;
        for begin in (0..history.steps.len()).step_by(size) {
            let mut without = history.clone();
            without.steps.drain(begin..(begin + size).min(history.steps.len()));
            if ends_badly(&without)? {
                smaller = Some(without);
                break;
            }
        }
        match smaller {
            Some(without) => {
                history = without;
                parts = parts.saturating_sub(1).max(2);
                println!("{} steps", history.steps.len());
            }
            None if size == 1 => break,
            None => parts = (2 * parts).min(history.steps.len()),
        }
    }
    fs::write(&args.output, serde_json::to_vec_pretty(&history)?)?;
    for step in &history.steps {
        println!("{:>5}.{:03} {:?}", step.at / 1000, step.at % 1000, step.what);
    }
    outcome_of(&history, compiled.path())?.problems.iter().for_each(|problem| println!("  {problem}"));
    Ok(ExitCode::SUCCESS)
}
