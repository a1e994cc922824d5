//! Works A and B (goals P1 to P4), and work B beside a neighbour that never answers (P11).

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;
use http::Method;
use serde_json::json;

use crate::contestant::{Contestant, Task};

use crate::http::{Http, JSON, MERGE};
use crate::observer::Observer;
use crate::process::{Memory, Process, seconds};
use crate::settings::{Amounts, CHILDREN, PAYLOAD, Paths};
use crate::stage::{NAMESPACE, Stage};
use crate::stats::percentile;

/// How long one contestant may take for work A.
const PATIENCE: Duration = Duration::from_mins(3);
/// After work, before what stays of it is measured.
const REST: Duration = Duration::from_secs(2);
/// Between changes, so that the status of one is written before the next begins.
const GAP: Duration = Duration::from_millis(15);
/// Changes that are made before those that count.
const WARM_UP: usize = 10;
/// Parents of the plugin that never answers: each holds a call for the deadline of a second.
const SPINNERS: usize = 4;
const SPINNERS_PATH: &str = "/apis/hostile.example/v1/namespaces/bench/endlessloops";

/// What one contestant did in one round.
#[derive(Debug, Clone, Copy)]
pub struct Round {
    /// Writes that the work needs, by the time from the first child to the last status.
    pub writes_per_second: f64,
    /// Seconds of CPU from its start to the last status.
    pub cpu: f64,
    /// Seconds of CPU of everything else meanwhile, the bench aside: of the API server and its etcd.
    pub server_cpu: f64,
    /// Those writes.
    pub writes: usize,
    /// A moment after work A.
    pub memory: Memory,
    /// Milliseconds from its start to the first child.
    pub first_write: f64,
    /// Work B: milliseconds, half of the changes took less.
    pub p50: f64,
    /// Work B: milliseconds, 99 of 100 changes took less.
    pub p99: f64,
    /// The p50 of changes of parents that had been changed before: the first one may pay for more.
    pub again: f64,
}

/// Work B of Windlass beside something that burns a core, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Beside {
    /// Beside a plugin that never answers: p99.
    pub neighbour: f64,
    /// Beside an outside process that burns as much: p99.
    pub outside: f64,
    /// Cores that the host burnt for the plugin.
    pub cores: f64,
}

/// Lets one contestant do works A and B on a cluster of its own; Windlass also beside a neighbour, if asked for.
pub async fn round(
    contestant: Contestant,
    paths: &Paths,
    amounts: &Amounts,
    beside: bool,
) -> anyhow::Result<(Round, Vec<Beside>)> {
    let stage = Stage::new(paths, false).await?;
    if contestant == Contestant::Windlass {
        stage.push(&[("load", &paths.load)])?;
    }
    stage.controllers(false)?;
    let parents = if contestant == Contestant::Kopf { amounts.kopf_parents } else { amounts.parents };
    stage.create_loads(0, parents, CHILDREN, PAYLOAD).await?;
    let observer = Observer::start(&stage.admin).await?;

    let mut operator = contestant.start(&stage, paths, Task::Create)?;
    let (begun, server_before) = (operator.begun, operator.cpu_beside()?);
    observer.wait_settled(parents, parents * CHILDREN, &mut operator, PATIENCE).await?;
    let (cpu, server_cpu) = (operator.cpu()?, operator.cpu_beside()? - server_before);
    let first = observer.first_child().context("no child was seen")?;
    let last = observer.last_status().context("no status was seen")?;
    anyhow::ensure!(observer.children() == parents * CHILDREN, "{} children were created", observer.children());
    let writes = observer.children() + parents;
    tokio::time::sleep(REST).await;
    let memory = operator.memory()?;

    if contestant == Contestant::Raw {
        operator.stop()?;
        operator = contestant.start(&stage, paths, Task::Follow)?;
        tokio::time::sleep(REST).await;
    }
    let mut work_b = WorkB { stage: &stage, observer: &observer, parents, made: 0, turn: 0 };
    work_b.changes(&mut operator, WARM_UP).await?;
    let times = work_b.changes(&mut operator, amounts.changes).await?;
    work_b.turn = 0;
    let again = work_b.changes(&mut operator, amounts.changes).await?;
    let pairs = if beside { work_b.beside_neighbour(&mut operator, paths, amounts).await? } else { Vec::new() };
    operator.stop()?;
    let round = Round {
        writes_per_second: seconds(writes as u64) / last.duration_since(first).as_secs_f64(),
        cpu,
        server_cpu,
        writes,
        memory,
        first_write: milliseconds(first.duration_since(begun)),
        p50: percentile(&times, 0.5).context("no changes")?,
        p99: percentile(&times, 0.99).context("no changes")?,
        again: percentile(&again, 0.5).context("no changes")?,
    };
    Ok((round, pairs))
}

/// Changes of parents at rest.
struct WorkB<'a> {
    stage: &'a Stage,
    observer: &'a Observer,
    parents: usize,
    made: usize,
    /// Decides whose turn it is: a parent's comes again after all others'.
    turn: usize,
}

impl WorkB<'_> {
    /// Changes one parent after the other; answers with the time from each change to the last changed child.
    async fn changes(&mut self, operator: &mut Process, count: usize) -> anyhow::Result<Vec<Duration>> {
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            self.made += 1;
            self.turn += 1;
            let parent = format!("load-{}", self.turn * 7 % self.parents);
            let note = format!("change-{}", self.made);
            self.observer.await_note(&parent, &note, CHILDREN);
            let begun = Instant::now();
            self.stage.note(&parent, &note).await?;
            let done = self.observer.wait_note(operator).await.with_context(|| format!("{note} of {parent}"))?;
            times.push(done.duration_since(begun));
            tokio::time::sleep(GAP).await;
        }
        Ok(times)
    }

    /// [`WorkB::changes`], and how many cores the operator kept busy meanwhile.
    async fn burnt(&mut self, operator: &mut Process, count: usize) -> anyhow::Result<(Vec<Duration>, f64)> {
        let (cpu, begun) = (operator.cpu()?, Instant::now());
        let times = self.changes(operator, count).await?;
        Ok((times, (operator.cpu()? - cpu) / begun.elapsed().as_secs_f64()))
    }

    /// Pairs of changes beside a plugin that never answers and beside an outside process that burns as much.
    async fn beside_neighbour(
        &mut self,
        operator: &mut Process,
        paths: &Paths,
        amounts: &Amounts,
    ) -> anyhow::Result<Vec<Beside>> {
        self.stage.controllers(true)?;
        self.stage.push(&[("endless-loop", &paths.endless)])?;
        self.stage.wait_ready("endless-loop").await?;
        self.stage.controllers(false)?;
        // What the host burns for the changes themselves is no neighbour's.
        let (_, own) = self.burnt(operator, amounts.neighbour_changes).await?;
        let mut pairs = Vec::new();
        for _ in 0..amounts.neighbour_pairs {
            let spinning = Spinning::start(self.stage).await?;
            let (neighbour, with) = self.burnt(operator, amounts.neighbour_changes).await?;
            let cores = (with - own).max(0.0);
            spinning.stop().await?;

            let mut command = Command::new(std::env::current_exe()?);
            command.args(["burn", "--cores", &format!("{cores:.2}")]);
            let burner = Process::start(&mut command, &self.stage.dir().join("burn.log"))?;
            let outside = self.changes(operator, amounts.neighbour_changes).await?;
            burner.stop()?;
            pairs.push(Beside {
                neighbour: percentile(&neighbour, 0.99).context("no changes")?,
                outside: percentile(&outside, 0.99).context("no changes")?,
                cores,
            });
        }
        Ok(pairs)
    }
}

/// Parents of the plugin that never answers, changed again and again: a new generation runs at once, whatever its
/// backoff is.
struct Spinning {
    admin: Http,
    task: tokio::task::JoinHandle<()>,
}

impl Spinning {
    async fn start(stage: &Stage) -> anyhow::Result<Self> {
        let admin = stage.admin.clone();
        for number in 0..SPINNERS {
            let body = json!({
                "apiVersion": "hostile.example/v1", "kind": "EndlessLoop",
                "metadata": {"name": format!("spin-{number}"), "namespace": NAMESPACE}, "spec": {},
            });
            admin.write(Method::POST, SPINNERS_PATH, JSON, body.to_string().into()).await?;
        }
        let changer = admin.clone();
        let task = tokio::spawn(async move {
            for round in 0_u64.. {
                for number in 0..SPINNERS {
                    let body = json!({"spec": {"behave": false, "round": round}}).to_string();
                    let path = format!("{SPINNERS_PATH}/spin-{number}");
                    // One that fails is made good by the next.
                    let _ = changer.write(Method::PATCH, &path, MERGE, body.into()).await;
                    tokio::time::sleep(Duration::from_millis(250)).await;
                }
            }
        });
        // The first calls begin.
        tokio::time::sleep(REST).await;
        Ok(Self { admin, task })
    }

    async fn stop(self) -> anyhow::Result<()> {
        self.task.abort();
        for number in 0..SPINNERS {
            let path = format!("{SPINNERS_PATH}/spin-{number}");
            self.admin.write(Method::DELETE, &path, JSON, "".into()).await?;
        }
        // The last calls end.
        tokio::time::sleep(2 * REST).await;
        Ok(())
    }
}

/// Burns CPU until it is ended: so many cores' worth, in slices as short as those of the system's scheduler.
pub fn burn(cores: f64) -> ! {
    const SLICE: Duration = Duration::from_millis(20);
    let whole = cores.max(0.0).ceil();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few cores")]
    let threads = whole as usize;
    let share = if threads == 0 { 0.0 } else { cores / whole };
    let threads: Vec<_> = (0..threads)
        .map(|_| {
            std::thread::spawn(move || {
                loop {
                    let begun = Instant::now();
                    while begun.elapsed() < SLICE.mul_f64(share) {
                        std::hint::spin_loop();
                    }
                    std::thread::sleep(SLICE.mul_f64((1.0 - share).max(0.0)));
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

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
