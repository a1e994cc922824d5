//! Clusters that outlive the process that started them: `cargo xtask cluster up` and `down`.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

use crate::cluster::{Cluster, Options, programs, run};
use crate::control_plane::KUBECONFIG;
use crate::node;
use crate::poll::until;
use crate::supervised::LOCK;

/// Shows that we may remove the folder, and that its cluster became ready.
const STATE: &str = "cluster.json";

/// Starts a cluster in `dir` that runs until [`down`], or finds the one that runs there.
pub fn up(dir: &Path, options: &Options) -> Result<Cluster> {
    let dir = std::path::absolute(dir)?;
    if running(&dir)?.is_some() {
        let cluster = attach(&dir)?;
        ensure!(
            !options.node || is(&dir, "node")?,
            "a cluster without a real node runs in {}: end it first with `cargo xtask cluster down`",
            dir.display()
        );
        return Ok(cluster);
    }
    let stopped = dir.join(STATE).exists();
    if stopped {
        // The cluster was killed, or the machine stopped: its files are useless without its processes.
        fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    }
    let tools = programs(options)?;
    fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let empty = fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))?.next().is_none();
    ensure!(empty, "{} is not empty: give the cluster a folder of its own", dir.display());
    // Written first: `down` must be able to remove a cluster that did not become ready.
    let state = serde_json::json!({"ready": false, "node": options.node});
    fs::write(dir.join(STATE), format!("{state}\n")).with_context(|| format!("cannot write to {}", dir.display()))?;
    let cluster = Cluster::detached(dir.clone(), &tools);
    let started = || {
        let processes = run(&dir, &tools, options, false, true)?;
        if let Err(error) = cluster.connect_node() {
            drop(processes);
            node::remove_control_groups();
            return Err(error);
        }
        Ok(processes.detach())
    };
    let id = started().with_context(|| format!("no cluster; its logs are in {}", dir.display()))?;
    let state =
        serde_json::json!({"ready": true, "supervisor": id, "kubeconfig": dir.join(KUBECONFIG), "node": options.node});
    fs::write(dir.join(STATE), format!("{state}\n")).with_context(|| format!("cannot write to {}", dir.display()))?;
    Ok(cluster)
}

/// The cluster that [`up`] started in `dir`.
///
/// # Errors
/// If none runs there.
pub fn attach(dir: &Path) -> Result<Cluster> {
    let dir = std::path::absolute(dir)?;
    if running(&dir)?.is_none() {
        bail!("no cluster runs in {}: start one with `cargo xtask cluster up`", dir.display());
    }
    until("the cluster to be ready", Duration::from_mins(2), || Ok(is(&dir, "ready")?.then_some(())))?;
    let tools = programs(&Options { node: is(&dir, "node")?, ..Options::default() })?;
    Ok(Cluster::detached(dir, &tools))
}

/// Ends the cluster in `dir` and removes the folder; returns whether a cluster ran.
pub fn down(dir: &Path) -> Result<bool> {
    let dir = std::path::absolute(dir)?;
    let Some(pid) = running(&dir)? else {
        // A folder without our state file is not ours to remove.
        if dir.join(STATE).exists() {
            fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
        }
        return Ok(false);
    };
    ensure!(
        dir.join(STATE).exists(),
        "the cluster in {} belongs to a running test or demo: end that instead",
        dir.display()
    );
    kill_process(pid, Signal::TERM).with_context(|| format!("cannot end process {pid:?}, the supervisor"))?;
    // The containers of a real node end with the supervisor's process, which comes after the release of its lock.
    let ended = || Ok((running(&dir)?.is_none() && !lives(pid)).then_some(()));
    if until("the cluster to end", Duration::from_secs(10), ended).is_err() {
        // Its processes end with it.
        kill_process(pid, Signal::KILL).context("cannot kill the supervisor")?;
        until("the killed cluster to end", Duration::from_secs(10), ended)?;
    }
    // Not those of another cluster, which may run.
    if is(&dir, "node")? {
        node::remove_control_groups();
    }
    fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    Ok(true)
}

/// Whether a process has not ended. One that its parent has not collected yet has ended.
fn lives(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap_or_default();
    // The state follows the name, which may contain spaces, in parentheses.
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// A flag of the state file.
fn is(dir: &Path, flag: &str) -> Result<bool> {
    let path = dir.join(STATE);
    let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let state: serde_json::Value = serde_json::from_slice(&text)?;
    Ok(state.get(flag).and_then(serde_json::Value::as_bool).unwrap_or_default())
}

/// The supervisor's process id, while it runs.
fn running(dir: &Path) -> Result<Option<Pid>> {
    let path = dir.join(LOCK);
    let Ok(lock) = File::open(&path) else {
        return Ok(None);
    };
    if flock(&lock, FlockOperation::NonBlockingLockShared).is_ok() {
        return Ok(None);
    }
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let pid = text.trim().parse().ok().and_then(Pid::from_raw);
    pid.with_context(|| {
        format!("{} names no process: end the processes of this folder by hand and remove it", path.display())
    })
    .map(Some)
}
