//! The time from the end of a leader to the first write of the standby (goal P12).

use std::time::Instant;

use anyhow::Context;
use http::Method;

use crate::contestant::{Contestant, Task};
use crate::http::JSON;
use crate::observer::Observer;
use crate::process::{Memory, Process};
use crate::settings::{Amounts, PAYLOAD, Paths, REST};
use crate::stage::{CONFIG_MAPS, Stage};
use crate::stats::median;

/// Children of a parent.
const ONE_CHILD: usize = 1;
/// Failovers of each kind, taken in turns.
const FAILOVERS: usize = 3;
/// The time that one step may take.
const PATIENCE: std::time::Duration = std::time::Duration::from_mins(5);
/// A host logs this when it stands by, and is prepared.
const PREPARED: &str = "prepared to take over";

/// The figures: medians of several failovers, in milliseconds from the signal to the first write of the standby.
#[derive(Debug, Clone, Copy)]
pub struct Failover {
    /// The number of parents.
    pub parents: usize,
    /// SIGTERM to the leader.
    pub terminated: f64,
    /// SIGKILL to the leader.
    pub killed: f64,
    /// The memory of the standby.
    pub standby: Memory,
}

/// How a leader ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Terminate,
    Kill,
}

/// Measures everything on one cluster, with the default times of the leader election.
pub async fn measure(paths: &Paths, amounts: &Amounts, say: &dyn Fn(&str)) -> anyhow::Result<Failover> {
    let parents = amounts.settled;
    say(&format!("P12: {parents} parents"));
    let stage = Stage::new(paths, false).await?;
    stage.push(&[("load", &paths.load)])?;
    stage.controllers(false)?;
    stage.create_loads(0, parents, ONE_CHILD, PAYLOAD).await?;
    // Two hosts, each with a cache folder of its own; they lead in turns.
    let other = Paths { cache: stage.dir().join("other-cache"), ..paths.clone() };
    let mut folders = [paths, &other];
    let observer = Observer::start(&stage.admin).await?;
    let mut leader = Contestant::Windlass.start(&stage, folders[0], Task::Create)?;
    observer.wait_settled(parents, parents * ONE_CHILD, &mut leader, PATIENCE).await?;
    drop(observer);
    let (mut terminated, mut killed, mut memory) = (Vec::new(), Vec::new(), Memory::default());
    for round in 0..2 * FAILOVERS {
        let mut standby = Contestant::Windlass.start(&stage, folders[1], Task::Create)?;
        standby.wait_log(PREPARED, PATIENCE)?;
        tokio::time::sleep(REST).await;
        memory = standby.memory()?;
        let end = if round % 2 == 0 { End::Terminate } else { End::Kill };
        say(&format!("P12: {end:?}"));
        let took = fail(&stage, leader, &mut standby, end).await?;
        let times = if end == End::Kill { &mut killed } else { &mut terminated };
        times.push(took);
        leader = standby;
        folders.swap(0, 1);
    }
    leader.stop()?;
    let middle = |times: Vec<f64>| median(times).context("no failovers");
    Ok(Failover { parents, terminated: middle(terminated)?, killed: middle(killed)?, standby: memory })
}

/// Ends the leader, deletes a child that only the standby can then recreate, and waits for that.
async fn fail(stage: &Stage, leader: Process, standby: &mut Process, end: End) -> anyhow::Result<f64> {
    let observer = Observer::start(&stage.admin).await?;
    let begun = Instant::now();
    match end {
        End::Terminate => leader.stop()?,
        // Dropping a process kills it.
        End::Kill => drop(leader),
    }
    stage.admin.write(Method::DELETE, &format!("{CONFIG_MAPS}/load-0-0"), JSON, "".into()).await?;
    let first = observer.wait_first_child(standby, PATIENCE).await?;
    Ok(first.duration_since(begun).as_secs_f64() * 1e3)
}
