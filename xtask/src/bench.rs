//! `cargo xtask bench`: builds the release of everything that is measured, and starts the driver.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use clap::builder::PossibleValuesParser;
use windlass_testbed::tools::{self, Go};

use crate::guests;
use crate::run::{cargo, image_binary, root, run};
use crate::venv;

/// Flags.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Smaller amounts of work: about 15 minutes on two cores, once everything is built, instead of 45
    #[arg(long)]
    quick: bool,
    /// Also write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Measure only this goal and those that are measured with it: p1, p5, p6, p7, p10, p11, p12 or r19; or changes, churn,
    /// schedule, shards or languages, which have no goal and are measured only if they are named. May be repeated
    // Checked here, before a build that takes minutes.
    #[arg(long, value_name = "GOAL", value_parser = PossibleValuesParser::new(GOALS), ignore_case = true)]
    only: Vec<String>,
}

/// What the driver can measure.
const GOALS: [&str; 18] = [
    "p1",
    "p2",
    "p3",
    "p4",
    "p5",
    "p6",
    "p7",
    "p8",
    "p9",
    "p10",
    "p11",
    "p12",
    "r19",
    "changes",
    "churn",
    "schedule",
    "shards",
    "languages",
];

/// Builds and measures.
///
/// # Errors
/// If Windlass, the driver or the control plane does not build. A peer that does not build is missing in the run, and
/// the report names it.
pub fn main(args: &Args) -> anyhow::Result<()> {
    let root = root()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let folder = root.join("target/bench");
    fs::create_dir_all(&folder)?;

    // One after the other: each build uses all cores by itself.
    tools::control_plane(&tools::stderr)?;
    let only: Vec<_> = args.only.iter().map(|goal| goal.to_ascii_lowercase()).collect();
    let (languages, others): (Vec<_>, Vec<_>) = only.iter().partition(|goal| *goal == "languages");
    let components =
        guests::build(&guests::Options { plugins_only: languages.is_empty(), ..guests::Options::default() })?;
    let load = guests::build_load(&folder)?;
    tools::stderr("building Windlass and the driver as they are released, some 15 minutes on 2 cores the first time");
    build_released(&root)?;
    // The languages alone are measured without peers.
    let with_peers = languages.is_empty() || !others.is_empty();
    let go = with_peers.then(|| optional("controller-runtime", controller_runtime(&root, &folder))).flatten();
    let python = with_peers.then(|| optional("kopf", kopf(&folder))).flatten();

    let dist = target.join("dist");
    let component = |name: &str| {
        let found = components.iter().find(|guest| guest.name == name);
        found.map(|guest| guest.path.clone()).with_context(|| format!("`cargo xtask guests` builds no {name}"))
    };
    let mut driver = Command::new(dist.join("windlass-bench"));
    driver
        .arg("run")
        .arg("--windlass")
        .arg(dist.join("windlass"))
        .arg("--host")
        .arg(dist.join("windlass-host"))
        .arg("--load")
        .arg(load.path);
    driver.arg("--cache").arg(folder.join("components"));
    driver.arg("--call-latency").arg(dist.join("examples/call-latency"));
    driver.arg("--guests").arg(root.join("target/guests"));
    driver.arg("--hostile").arg(root.join("target/guests/hostile"));
    driver.arg("--report").arg(folder.join("report.md"));
    for name in guests::shipped()? {
        driver.arg("--shipped").arg(component(&name)?);
    }
    if let Some(program) = go {
        driver.arg("--controller-runtime").arg(program);
    }
    if let Some(python) = python {
        driver.arg("--kopf-python").arg(python);
        driver.arg("--kopf-operator").arg(root.join("bench/peers/kopf/load_operator.py"));
    }
    if args.quick {
        driver.arg("--quick");
    }
    if let Some(json) = &args.json {
        driver.arg("--json").arg(json);
    }
    for goal in &only {
        driver.arg("--only").arg(goal);
    }
    run(&mut driver)
}

fn optional(peer: &str, built: anyhow::Result<PathBuf>) -> Option<PathBuf> {
    built.inspect_err(|error| tools::stderr(&format!("{peer} is left out: {error:#}"))).ok()
}

fn controller_runtime(root: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    let program = folder.join("controller-runtime");
    let mut build = Go::find(&tools::stderr)?.command();
    build.current_dir(root.join("bench/peers/controller-runtime"));
    build.args(["build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o"]).arg(&program);
    run(build.arg("."))?;
    Ok(program)
}

fn kopf(folder: &Path) -> anyhow::Result<PathBuf> {
    let programs = venv::with(&folder.join("kopf"), include_str!("../../bench/peers/kopf/requirements.txt"))?;
    Ok(programs.join("python3"))
}

/// Builds what is measured, each as in a release: built together, each would get the features of all of them.
fn build_released(root: &Path) -> anyhow::Result<()> {
    for name in ["windlass-host", "windlass-compile"] {
        run(image_binary(name, "dist").current_dir(root))?;
    }
    for what in [
        ["--package", "windlass"].as_slice(),
        &["--package", "windlass-bench"],
        &["--package", "windlass-sandbox", "--features", "compiler", "--example", "call-latency"],
    ] {
        run(cargo().args(["build", "--profile", "dist", "--quiet"]).args(what).current_dir(root))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};

    use super::*;

    #[test]
    fn unknown_goal_is_refused_and_case_does_not_matter() {
        let parse = |goal: &str| {
            let command = Args::augment_args(clap::Command::new("bench"));
            let matches = command.try_get_matches_from(["bench", "--only", goal])?;
            Args::from_arg_matches(&matches)
        };
        assert_eq!(parse("P6").map(|args| args.only).ok(), Some(vec!["P6".to_owned()]));
        assert!(parse("p66").is_err_and(|error| error.to_string().contains("languages")));
    }
}
