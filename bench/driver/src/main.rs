//! The load driver: measures Windlass, its limits and its peers in one run on one machine. `cargo xtask bench` builds
//! all of them and starts this.

mod changes;
mod churn;
mod contestant;
mod copies;
mod failover;
mod http;
mod languages;
mod neighbours;
mod observer;
mod process;
mod raw;
mod report;
mod scale;
mod schedule;
mod settings;
mod shards;
mod stage;
mod starts;
mod stats;
mod work;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

use crate::contestant::Contestant;
use crate::report::{Figures, plots};
use crate::settings::{Amounts, Paths};

#[derive(Parser)]
#[command(name = "windlass-bench")]
enum Command {
    /// Run the benchmark
    Run(Box<Run>),
    /// Draw the figures of a run as SVG
    Plot {
        /// What `run --json` wrote
        run: PathBuf,
        /// Folder for the plots
        folder: PathBuf,
    },
    /// Run the raw client
    #[command(subcommand)]
    Raw(raw::Command),
    /// Use CPU time until it is ended
    Burn {
        /// Number of cores to keep busy
        #[arg(long)]
        cores: f64,
    },
}

#[derive(clap::Args)]
struct Run {
    #[command(flatten)]
    paths: Paths,
    /// Smaller amounts of work
    #[arg(long)]
    quick: bool,
    /// Also write the figures as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// Also write the table, and plots into the folder `plots` beside it
    #[arg(long)]
    report: Option<PathBuf>,
    /// Measure only these goals: p1 (with p2, p3, p4), p5, p6, p7 (with p9), p10 (with p8), p11, p12, r19; or changes,
    /// churn, schedule, shards or languages, which have no goal and are measured only if they are named
    #[arg(long)]
    only: Vec<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let result = match Command::parse() {
        Command::Run(run) => measure(&run).await,
        Command::Plot { run, folder } => plot(&run, &folder),
        Command::Raw(command) => raw::main(&command).await,
        Command::Burn { cores } => neighbours::burn(cores),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(run: &Run) -> anyhow::Result<()> {
    let amounts = if run.quick { Amounts::quick() } else { Amounts::full() };
    let begun = std::time::Instant::now();
    let say = |text: &str| eprintln!("bench: {:>5} s  {text}", begun.elapsed().as_secs());
    let wanted = |keys: &[&str]| run.only.is_empty() || run.only.iter().any(|key| keys.contains(&key.as_str()));
    let mut figures = Figures::default();
    let (date, machine) = (format!("{:.0}", jiff::Timestamp::now()), machine()?);

    if wanted(&["p5"]) {
        say("P5: calls of a plugin");
        figures.call = scale::call(&run.paths, &amounts)?;
    }
    if wanted(&["p1", "p2", "p3", "p4"]) {
        works(run, &amounts, &mut figures, &say).await;
    }
    if wanted(&["p6"]) {
        figures.no_ops = figures.or_note("P6", scale::no_ops(&run.paths, &amounts, &say).await, &say);
    }
    if wanted(&["p7", "p9"]) {
        figures.scale = figures.or_note("P7 and P9", scale::measure(&run.paths, &amounts, &say).await, &say);
    }
    if wanted(&["p8", "p10"]) {
        figures.starts = figures.or_note("P10", starts::measure(&run.paths, &amounts, &say).await, &say);
    }
    if wanted(&["p11"]) {
        say("P11: work B next to a plugin, and to a namespace of its own plugin, that computes all the time");
        let pairs = neighbours::measure(&run.paths, &amounts).await;
        figures.neighbours = figures.or_note("P11", pairs, &say).unwrap_or_default();
    }
    if wanted(&["p12"]) {
        figures.failover = figures.or_note("P12", failover::measure(&run.paths, &amounts, &say).await, &say);
    }
    if wanted(&["r19"]) {
        say("R19: work B before, during and after the activity of hostile plugins");
        let rows = neighbours::measure_hostile(&run.paths, &amounts, &say).await;
        figures.hostile = figures.or_note("R19", rows, &say).unwrap_or_default();
    }
    without_goal(run, &amounts, &mut figures, &say).await;
    say("done");
    write_out(run, &figures, (&machine, &date))
}

/// Measures what has no goal, and only runs if it is named.
async fn without_goal(run: &Run, amounts: &Amounts, figures: &mut Figures, say: &dyn Fn(&str)) {
    let named = |name: &str| run.only.iter().any(|key| key == name);
    if named("changes") {
        let changes = changes::measure(&run.paths, amounts, say).await;
        figures.changes = figures.or_note("changes", changes, say).unwrap_or_default();
    }
    if named("churn") {
        figures.churn = figures.or_note("churn", churn::measure(&run.paths, amounts, say).await, say);
    }
    if named("schedule") {
        let schedule = schedule::measure(&run.paths, amounts, say).await;
        figures.schedule = figures.or_note("schedule", schedule, say);
    }
    if named("shards") {
        let rounds = shards::measure(&run.paths, amounts, say).await;
        figures.shards = figures.or_note("shards", rounds, say).unwrap_or_default();
    }
    if named("languages") {
        for component in &languages::COMPONENTS {
            say(&format!("languages: {}", component.name()));
            let figure = languages::measure(&run.paths, amounts, component).await;
            let figure = figures.or_note(&component.name(), figure, say);
            figures.languages.extend(figure);
        }
    }
}

/// Prints the table, and writes the files that were asked for.
fn write_out(run: &Run, figures: &Figures, (machine, date): (&str, &str)) -> anyhow::Result<()> {
    let (table, json) = (figures.markdown(machine, date), figures.json(machine, date));
    print!("{table}");
    if let Some(path) = &run.report {
        std::fs::write(path, table).with_context(|| format!("{} cannot be written", path.display()))?;
        plots::draw(&json, &path.with_file_name("plots"))?;
    }
    if let Some(path) = &run.json {
        let text = serde_json::to_string_pretty(&json)?;
        std::fs::write(path, text + "\n").with_context(|| format!("{} cannot be written", path.display()))?;
    }
    Ok(())
}

/// Draws the figures of an earlier run.
fn plot(run: &Path, folder: &Path) -> anyhow::Result<()> {
    let text = std::fs::read(run).with_context(|| format!("{} cannot be read", run.display()))?;
    plots::draw(&serde_json::from_slice(&text)?, folder)
}

async fn works(run: &Run, amounts: &Amounts, figures: &mut Figures, say: &dyn Fn(&str)) {
    let mut contestants = Contestant::all(&run.paths);
    for missing in [Contestant::ControllerRuntime, Contestant::Kopf] {
        if !contestants.contains(&missing) {
            note(figures, say, format!("{} was not built and is missing", missing.name()));
        }
    }
    for number in 0..amounts.rounds {
        let mut round = BTreeMap::new();
        for contestant in &contestants {
            if *contestant == Contestant::Kopf && number >= amounts.kopf_rounds {
                continue;
            }
            say(&format!("works A and B, round {} of {}: {}", number + 1, amounts.rounds, contestant.name()));
            match work::round(*contestant, &run.paths, amounts).await {
                Ok(figure) => {
                    say(&format!("  {:.0} writes/s, {:.2} s of CPU", figure.writes_per_second, figure.cpu));
                    round.insert(*contestant, figure);
                }
                Err(error) => {
                    note(figures, say, format!("{}, round {}: {error:#}", contestant.name(), number + 1));
                }
            }
        }
        figures.rounds.push(round);
        // The order varies, so that no contestant is always first or always follows the same one.
        contestants.rotate_left(1);
    }
}

fn note(figures: &mut Figures, say: &dyn Fn(&str), note: String) {
    say(&note);
    figures.notes.push(note);
}

/// The properties of the machine that a reader of the figures needs.
fn machine() -> anyhow::Result<String> {
    let read = |path: &str| std::fs::read_to_string(path).with_context(|| format!("{path} cannot be read"));
    let (cpu, memory) = (read("/proc/cpuinfo")?, read("/proc/meminfo")?);
    let model =
        cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map_or("", |(_, name)| name);
    let memory = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next());
    let gibibytes = memory.and_then(|kibibytes| kibibytes.parse::<u64>().ok()).unwrap_or(0) / (1 << 20);
    let kernel = read("/proc/sys/kernel/osrelease")?;
    let load = read("/proc/loadavg")?;
    let load = load.split(' ').next().unwrap_or("?");
    let cores = std::thread::available_parallelism()?;
    Ok(format!(
        "{cores} cores ({}), {gibibytes} GiB, Linux {}, load {load} before the run; the control plane runs on the same cores",
        model.trim(),
        kernel.trim()
    ))
}
