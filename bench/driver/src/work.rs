//! Works A and B (goals P1 to P4).

use std::time::{Duration, Instant};

use anyhow::Context;

use crate::contestant::{Contestant, Task};
use crate::observer::Observer;
use crate::process::{Memory, Process, as_float};
use crate::settings::{Amounts, CHILDREN, PAYLOAD, Paths};
use crate::stage::Stage;
use crate::stats::percentile;

/// The time that one contestant may take for work A.
pub const PATIENCE: Duration = Duration::from_mins(3);
/// The time between the end of the work and the measurement of the memory.
const REST: Duration = Duration::from_secs(2);
/// The time between two changes, so that the status of one is written before the next one begins.
const GAP: Duration = Duration::from_millis(15);
/// The number of changes before those that are measured.
const WARM_UP: usize = 10;

/// The figures of one contestant in one round.
#[derive(Debug, Clone, Copy)]
pub struct Round {
    /// Writes per second, from the first child to the last status.
    pub writes_per_second: f64,
    /// CPU time from its start to the last status, in seconds.
    pub cpu: f64,
    /// CPU time of everything else meanwhile, except the driver, in seconds: of the API server and etcd.
    pub server_cpu: f64,
    /// The number of writes.
    pub writes: usize,
    /// The memory a moment after work A.
    pub memory: Memory,
    /// The time from its start to the first child, in milliseconds.
    pub first_write: f64,
    /// Work B: the median duration of a change, in milliseconds.
    pub p50: f64,
    /// Work B: the 99th percentile, in milliseconds.
    pub p99: f64,
    /// The median for parents that had been changed before: the first change of a parent may cost more.
    pub again: f64,
}

/// Lets one contestant do works A and B on a cluster of its own.
pub async fn round(contestant: Contestant, paths: &Paths, amounts: &Amounts) -> anyhow::Result<Round> {
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
    let mut work_b = WorkB::begin(&stage, &observer, parents, &mut operator).await?;
    let times = work_b.changes(&mut operator, amounts.changes).await?;
    work_b.turn = 0;
    let again = work_b.changes(&mut operator, amounts.changes).await?;
    operator.stop()?;
    Ok(Round {
        writes_per_second: as_float(writes as u64) / last.duration_since(first).as_secs_f64(),
        cpu,
        server_cpu,
        writes,
        memory,
        first_write: milliseconds(first.duration_since(begun)),
        p50: percentile(&times, 0.5).context("no changes")?,
        p99: percentile(&times, 0.99).context("no changes")?,
        again: percentile(&again, 0.5).context("no changes")?,
    })
}

/// Changes of converged parents.
pub struct WorkB<'a> {
    stage: &'a Stage,
    observer: &'a Observer,
    parents: usize,
    made: usize,
    /// Chooses the next parent: each parent comes again after all others.
    turn: usize,
}

impl<'a> WorkB<'a> {
    /// Makes changes that are not measured.
    pub async fn begin(
        stage: &'a Stage,
        observer: &'a Observer,
        parents: usize,
        operator: &mut Process,
    ) -> anyhow::Result<Self> {
        let mut work = Self { stage, observer, parents, made: 0, turn: 0 };
        work.changes(operator, WARM_UP).await?;
        Ok(work)
    }

    /// Changes one parent after the other; returns the time from each change to the last changed child.
    pub async fn changes(&mut self, operator: &mut Process, count: usize) -> anyhow::Result<Vec<Duration>> {
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
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
