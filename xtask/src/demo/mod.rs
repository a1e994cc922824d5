//! `cargo xtask demo`: Windlass at work on a real control plane, step by step, with what a user would type.

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
    /// End after the last step, with exit code 0 only if every step was really observed
    #[arg(long)]
    once: bool,
    /// Use this cluster instead of a local control plane; what the demo makes there is removed at the end
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// The programs and components that the demo shows.
pub(crate) struct Built {
    /// `windlass` itself.
    windlass: PathBuf,
    /// The first logic.
    echo: Guest,
    /// The logic that takes over.
    echo_v2: Guest,
}

/// Shows it.
///
/// # Errors
/// If the set-up fails, a step was not observed, or the host did not end as it should.
pub fn main(args: &Args) -> anyhow::Result<()> {
    let stage = Stage::new();
    let kubeconfig = args.kubeconfig.as_deref().map(std::fs::canonicalize).transpose();
    let kubeconfig = kubeconfig.with_context(|| "--kubeconfig names no file".to_owned())?;
    // So that the shown commands can name files as a reader in the repository's root would.
    std::env::set_current_dir(root()?)?;
    let built = set_up(&stage, kubeconfig.is_none())?;

    // From here on there is something to take down; until here a signal may simply end us.
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, interrupted.clone())?;
    }
    let shown = show(args, &stage, &built, kubeconfig.as_deref(), &interrupted);
    match shown {
        Err(_) if interrupted.load(Ordering::Relaxed) => bail!("interrupted; everything was taken down"),
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
        stage.note("everything above stays up for you to try; Ctrl-C takes it down");
        while !interrupted.load(Ordering::Relaxed) && show.host_lives() {
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    stage.step("Taking everything down");
    let ended = show.take_down();
    let was_up = observed.is_ok();
    // The step's number and reason stand above already.
    observed.map_err(|_| anyhow::anyhow!("the demo did not show what it should; the failed step is named above"))?;
    ended?;
    if was_up {
        stage.done("all of the above was observed on the API server; everything is taken down");
    }
    Ok(())
}

/// Builds what is not there yet. Seconds when all is.
fn set_up(stage: &Stage, local: bool) -> anyhow::Result<Built> {
    stage.step("Set-up");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let patience = std::sync::Once::new();
    let first_run = || {
        patience.call_once(|| {
            stage.note("not everything is built yet: a first run may take ten minutes on two cores, twice that if Kubernetes must be built too");
        });
    };
    if !target.join("debug/windlass").exists() || !Path::new("target/guests/echo.wasm").exists() {
        first_run();
    }
    // One after the other: each uses all cores by itself.
    if local {
        // It says something only if there is something to do.
        tools::control_plane(&|line| {
            first_run();
            tools::stderr(line);
        })?;
    }
    stage.note("building Windlass");
    run(cargo().args(["build", "--package", "windlass"]))?;
    let windlass = windlass()?;
    stage.note("building the components");
    let guests = guests::build(guests::Options { plugins_only: true })?;
    let guest = |name: &str| {
        let guest = guests.iter().find(|guest| guest.name == name);
        guest.cloned().with_context(|| format!("`cargo xtask guests` builds no {name}.wasm"))
    };
    Ok(Built { windlass, echo: guest("echo")?, echo_v2: guest("echo-v2")? })
}
