//! `cargo xtask demo`: shows Windlass on a real control plane, step by step, with the commands that a user would type.

mod acts;
mod host;
mod stage;
mod trace;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use signal_hook::consts::{SIGINT, SIGTERM};
use windlass_testbed::{Cluster, tools};

use self::acts::Show;
use self::stage::Stage;
use crate::guests::{self, Guest};
use crate::run::{cargo, root, run, windlass};

/// Flags.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Stop after the last step; exit with code 0 only if every step was observed
    #[arg(long)]
    once: bool,
    /// Use this cluster instead of a local control plane; what the demo makes there is removed at the end
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// The programs and components that the demo shows.
pub(crate) struct Built {
    /// The `windlass` binary.
    windlass: PathBuf,
    /// The first component.
    echo: Guest,
    /// The component that replaces it.
    echo_v2: Guest,
}

/// Runs the demo.
///
/// # Errors
/// If the set-up fails, a step was not observed, or the host did not end with success.
pub fn main(args: &Args) -> anyhow::Result<()> {
    let stage = Stage::new();
    let kubeconfig = args.kubeconfig.as_deref().map(std::fs::canonicalize).transpose();
    let kubeconfig = kubeconfig.with_context(|| "--kubeconfig names no file".to_owned())?;
    // The commands that are shown name files relative to the repository's root.
    std::env::set_current_dir(root()?)?;
    let built = set_up(&stage, kubeconfig.is_none())?;

    // From here on there is something to stop and remove; before, a signal may just end the process.
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, interrupted.clone())?;
    }
    let shown = show(args, &stage, &built, kubeconfig.as_deref(), &interrupted);
    match shown {
        Err(_) if interrupted.load(Ordering::Relaxed) => bail!("interrupted; everything was stopped and removed"),
        shown => shown,
    }
}

fn show(
    args: &Args,
    stage: &Stage,
    built: &Built,
    kubeconfig: Option<&Path>,
    interrupted: &AtomicBool,
) -> anyhow::Result<()> {
    stage.step("A Kubernetes control plane");
    let cluster = match kubeconfig {
        Some(kubeconfig) => Cluster::connect(kubeconfig)?,
        None => stage
            .during("starting etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok", || {
                Cluster::start(windlass_testbed::Options::default())
            })?,
    };
    let mut show = Show::new(stage, built, &cluster, kubeconfig.is_some(), interrupted);
    let observed = show.all();
    if let Err(error) = &observed
        && !interrupted.load(Ordering::Relaxed)
    {
        stage.failed(&format!("{error:#}"), &show.host_log(40));
    }
    if observed.is_ok() && !args.once {
        stage.note("everything above keeps running for you to try; Ctrl-C stops it");
        while !interrupted.load(Ordering::Relaxed) && show.host_lives() {
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    stage.step("Clean-up");
    let ended = show.clean_up();
    let was_up = observed.is_ok();
    // The number of the failed step and the reason are already printed above.
    observed.map_err(|_| anyhow::anyhow!("a step of the demo failed; it is named above"))?;
    ended?;
    if was_up {
        stage.done("all of the above was observed on the API server; everything is stopped and removed");
    }
    Ok(())
}

/// What the set-up builds, in this order, and the minutes that the first build of each takes on two cores.
const PARTS: [(&str, u32); 3] = [("Kubernetes", 8), ("Windlass", 4), ("two components", 2)];

/// Builds what is missing. Takes seconds if nothing is.
fn set_up(stage: &Stage, local: bool) -> anyhow::Result<Built> {
    stage.step("Set-up");
    // One after the other: each uses all cores by itself.
    if local {
        let announced = std::sync::Once::new();
        // It prints lines only if there is something to build.
        tools::control_plane(&|line| {
            announced.call_once(|| announce(stage, 0));
            tools::stderr(line);
        })?;
    }
    let windlass = build_windlass(stage)?;
    if !Path::new("target/guests/echo-v2.wasm").exists() {
        announce(stage, 2);
    }
    let guests = guests::build_two("echo", "echo-v2")?;
    let guest = |name: &str| {
        let guest = guests.iter().find(|guest| guest.name == name);
        guest.cloned().with_context(|| format!("{name}.wasm was not built"))
    };
    Ok(Built { windlass, echo: guest("echo")?, echo_v2: guest("echo-v2")? })
}

/// Builds the `windlass` binary as soon as possible: where the tests have built one, only what changed since.
fn build_windlass(stage: &Stage) -> anyhow::Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    if target.join("debug/windlass").exists() {
        return windlass();
    }
    let binary = target.join("demo/windlass");
    if !binary.exists() {
        announce(stage, 1);
    }
    run(cargo().args(["build", "--locked", "--package", "windlass", "--profile", "demo"]))?;
    Ok(std::fs::canonicalize(binary)?)
}

/// Prints which part is built now, and what is left to wait for.
fn announce(stage: &Stage, part: usize) {
    stage.note(&announcement(part));
}

fn announcement(part: usize) -> String {
    let (parts, rest) = PARTS.split_at(PARTS.len().min(part + 1));
    let (name, minutes) = parts.last().unwrap_or(&PARTS[0]);
    let names: Vec<_> = rest.iter().map(|(name, _)| *name).collect();
    let left: u32 = rest.iter().map(|(_, minutes)| minutes).sum();
    let then = if rest.is_empty() {
        "then the demo begins".to_owned()
    } else {
        format!("then {}, about {left} more", names.join(" and "))
    };
    format!("building {name} ({} of {}): about {minutes} minutes on two cores, once; {then}", parts.len(), PARTS.len())
}

#[cfg(test)]
mod tests {
    use super::announcement;

    #[test]
    fn each_part_of_the_set_up_says_what_is_left_to_wait_for() {
        let expected = [
            "building Kubernetes (1 of 3): about 8 minutes on two cores, once; then Windlass and two components, about 6 more",
            "building Windlass (2 of 3): about 4 minutes on two cores, once; then two components, about 2 more",
            "building two components (3 of 3): about 2 minutes on two cores, once; then the demo begins",
        ];
        assert_eq!([0, 1, 2].map(announcement), expected);
    }
}
