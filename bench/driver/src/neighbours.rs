//! Work B beside a plugin that computes all the time (goal P11).

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;
use http::Method;
use serde_json::json;

use crate::contestant::{Contestant, Task};
use crate::copies;
use crate::http::{Http, JSON, MERGE};
use crate::observer::Observer;
use crate::process::Process;
use crate::settings::{Amounts, CHILDREN, PAYLOAD, Paths, REST};
use crate::stage::{NAMESPACE, Stage};
use crate::stats::percentile;
use crate::work::{PATIENCE, WorkB};

/// Parents of the plugin that computes. Each is changed about once a second, and asks for less than the deadline of that:
/// it never fails, so that nothing but the host's fairness keeps it from its neighbours.
const BUSY: usize = 4;
/// Changes of these, one after the other.
const BETWEEN: Duration = Duration::from_millis(250);
/// What each of them computes, as the measured plugin counts it: some 0.3 to 0.4 s.
const ROUNDS: usize = 40;

/// Less than this much of a core is no neighbour that computes all the time.
const CORES_MIN: f64 = 0.6;

/// Work B beside something that burns CPU, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Beside {
    /// Beside a plugin that computes all the time: p99.
    pub neighbour: f64,
    /// Beside an outside process that burns as much: p99.
    pub outside: f64,
    /// Cores that the host burnt for the plugin.
    pub cores: f64,
}

/// Pairs of changes beside the one and beside the other.
pub async fn measure(paths: &Paths, amounts: &Amounts) -> anyhow::Result<Vec<Beside>> {
    let stage = Stage::new(paths, false).await?;
    stage.push(&[("load", &paths.load)])?;
    let neighbour = copies::push(&stage, &paths.load, 1)?;
    let parents = amounts.parents;
    stage.create_loads(0, parents, CHILDREN, PAYLOAD).await?;
    let observer = Observer::start(&stage.admin).await?;
    let mut host = Contestant::Windlass.start(&stage, paths, Task::Create)?;
    for name in &neighbour {
        stage.wait_ready(name).await?;
    }
    stage.controllers(false)?;
    observer.wait_settled(parents, parents * CHILDREN, &mut host, PATIENCE).await?;
    let mut work = WorkB::begin(&stage, &observer, parents, &mut host).await?;

    // What the host burns for the changes themselves is no neighbour's.
    let (_, own) = burnt(&mut work, &mut host, amounts.neighbour_changes).await?;
    let mut pairs = Vec::new();
    for _ in 0..amounts.neighbour_pairs {
        let busy = Busy::start(&stage).await?;
        let (times, with) = burnt(&mut work, &mut host, amounts.neighbour_changes).await?;
        let cores = with - own;
        // In quarantine, or on another machine done at once, it would be no neighbour to speak of.
        anyhow::ensure!(cores >= CORES_MIN, "the plugin that should compute all the time burnt {cores:.2} cores");
        busy.stop().await?;

        let mut command = Command::new(std::env::current_exe()?);
        command.args(["burn", "--cores", &format!("{cores:.2}")]);
        let burner = Process::start(&mut command, &stage.dir().join("burn.log"))?;
        let outside = work.changes(&mut host, amounts.neighbour_changes).await?;
        burner.stop()?;
        pairs.push(Beside {
            neighbour: percentile(&times, 0.99).context("no changes")?,
            outside: percentile(&outside, 0.99).context("no changes")?,
            cores,
        });
    }
    host.stop()?;
    Ok(pairs)
}

/// Makes changes; answers with their times, and with how many cores the host kept busy meanwhile.
async fn burnt(work: &mut WorkB<'_>, host: &mut Process, count: usize) -> anyhow::Result<(Vec<Duration>, f64)> {
    let (cpu, begun) = (host.cpu()?, Instant::now());
    let times = work.changes(host, count).await?;
    Ok((times, (host.cpu()? - cpu) / begun.elapsed().as_secs_f64()))
}

/// Parents of the plugin that computes, changed again and again.
struct Busy {
    admin: Http,
    task: tokio::task::JoinHandle<()>,
}

impl Busy {
    async fn start(stage: &Stage) -> anyhow::Result<Self> {
        let admin = stage.admin.clone();
        let api_version = format!("{}/v1", copies::group(0));
        for number in 0..BUSY {
            let body = json!({
                "apiVersion": api_version, "kind": "Load",
                "metadata": {"name": format!("busy-{number}"), "namespace": NAMESPACE},
                "spec": {"children": 0, "payload": 0, "note": "", "rounds": ROUNDS},
            });
            admin.write(Method::POST, &path(""), JSON, body.to_string().into()).await?;
        }
        let changer = admin.clone();
        let task = tokio::spawn(async move {
            for round in 0_u64.. {
                for number in 0..BUSY {
                    let body = json!({"spec": {"note": round.to_string()}}).to_string();
                    // One that fails is made good by the next.
                    let _ = changer.write(Method::PATCH, &path(&format!("/busy-{number}")), MERGE, body.into()).await;
                    tokio::time::sleep(BETWEEN).await;
                }
            }
        });
        // The first calls begin.
        tokio::time::sleep(REST).await;
        Ok(Self { admin, task })
    }

    async fn stop(self) -> anyhow::Result<()> {
        self.task.abort();
        for number in 0..BUSY {
            self.admin.write(Method::DELETE, &path(&format!("/busy-{number}")), JSON, "".into()).await?;
        }
        // The last calls end.
        tokio::time::sleep(REST).await;
        Ok(())
    }
}

fn path(of: &str) -> String {
    format!("/apis/{}/v1/namespaces/{NAMESPACE}/loads{of}", copies::group(0))
}

/// Burns CPU until it is ended: so many cores' worth, by the CPU time of its threads, for others want the cores as well.
pub fn burn(cores: f64) -> ! {
    const BREATH: Duration = Duration::from_millis(5);
    let whole = cores.max(0.0).ceil();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few cores")]
    let threads = whole as usize;
    let share = if threads == 0 { 0.0 } else { cores / whole };
    let threads: Vec<_> = (0..threads)
        .map(|_| {
            std::thread::spawn(move || {
                let begun = Instant::now();
                loop {
                    while thread_cpu() < begun.elapsed().mul_f64(share) {
                        std::hint::spin_loop();
                    }
                    std::thread::sleep(BREATH);
                }
            })
        })
        .collect();
    for thread in threads {
        // It never ends by itself.
        let _ = thread.join();
    }
    // Nor does it with nothing to burn.
    loop {
        std::thread::park();
    }
}

/// CPU time of this thread.
fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
