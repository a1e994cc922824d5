//! The time from a start to the first write, and the memory of idle plugins (goal P10, and P8's figure).

use anyhow::Context;
use http::Method;

use crate::contestant::{Contestant, Task};
use crate::copies;
use crate::http::JSON;
use crate::observer::Observer;
use crate::process::{Memory, Process};
use crate::settings::{Amounts, PAYLOAD, Paths, REST, UNTIL_IDLE};
use crate::stage::{CONFIG_MAPS, Stage};
use crate::stats::median;

/// Children of a parent.
const ONE_CHILD: usize = 1;
/// Starts of each contestant, taken in turns.
const STARTS: usize = 3;
/// The time that one step may take.
const PATIENCE: std::time::Duration = std::time::Duration::from_mins(5);

/// The figures: medians of several starts, in milliseconds from the start of the process to its first child.
#[derive(Debug, Clone, Copy)]
pub struct Starts {
    /// The number of live plugins, each with its own kind.
    pub plugins: usize,
    /// The number of parents of one of them.
    pub parents: usize,
    /// Windlass with all plugins and parents.
    pub first_write: f64,
    /// The raw client, which lists the parents and writes.
    pub raw_first_write: f64,
    /// Windlass with one plugin and one parent.
    pub alone: f64,
    /// The memory of Windlass with all plugins, while there is only one parent.
    pub idle: Memory,
}

/// Measures everything on one cluster.
pub async fn measure(paths: &Paths, amounts: &Amounts, say: &dyn Fn(&str)) -> anyhow::Result<Starts> {
    let stage = Stage::new(paths, true).await?;
    stage.push(&[("load", &paths.load)])?;
    stage.create_loads(0, 1, ONE_CHILD, PAYLOAD).await?;
    say("P10: one plugin, one parent");
    let host = Contestant::Windlass.start(&stage, paths, Task::Create)?;
    stage.wait_ready("load").await?;
    host.stop()?;
    let mut alone = Vec::new();
    for _ in 0..STARTS {
        let child = format!("{CONFIG_MAPS}/load-0-0");
        stage.admin.write(Method::DELETE, &child, JSON, "".into()).await?;
        alone.push(first_write(&stage, paths, Contestant::Windlass).await?);
    }

    let (plugins, parents) = (amounts.plugins, amounts.parents_of_one);
    say(&format!("P10: {plugins} plugins"));
    let copies = copies::push(&stage, &paths.load, plugins - 1)?;
    let host = Contestant::Windlass.start(&stage, paths, Task::Create)?;
    for name in &copies {
        stage.wait_ready(name).await?;
    }
    tokio::time::sleep(UNTIL_IDLE).await;
    let idle = host.memory()?;
    host.stop()?;
    stage.controllers(false)?;

    say(&format!("P10: {plugins} plugins, {parents} parents"));
    stage.create_loads(1, parents, ONE_CHILD, PAYLOAD).await?;
    let (mut with_all, mut raw) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        raw.push(first_write(&stage, paths, Contestant::Raw).await?);
        stage.admin.write(Method::DELETE, &format!("{CONFIG_MAPS}/raw-0"), JSON, "".into()).await?;
        with_all.push(first_write(&stage, paths, Contestant::Windlass).await?);
    }
    let middle = |times: Vec<f64>| median(times).context("no starts");
    Ok(Starts {
        plugins,
        parents,
        first_write: middle(with_all)?,
        raw_first_write: middle(raw)?,
        alone: middle(alone)?,
        idle,
    })
}

/// Starts a contestant, and ends it after its first write.
async fn first_write(stage: &Stage, paths: &Paths, contestant: Contestant) -> anyhow::Result<f64> {
    // By then, the last writes of the previous contestant have arrived.
    tokio::time::sleep(REST).await;
    let observer = Observer::start(&stage.admin).await?;
    let mut process: Process = contestant.start(stage, paths, Task::CreateOne)?;
    let first = observer.wait_first_child(&mut process, PATIENCE).await?;
    let time = first.duration_since(process.begun).as_secs_f64() * 1e3;
    process.stop()?;
    Ok(time)
}
