//! The throughput of one, two and three hosts that share the parents (`--shards`), with the API server's CPU time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::Value;

use crate::contestant::{Contestant, Task, start_member};
use crate::observer::Observer;
use crate::process::{Component, Process, as_float};
use crate::scale::quiet;
use crate::settings::{Amounts, CHILDREN, PAYLOAD, Paths, REST};
use crate::stage::{SYSTEM_NAMESPACE, Stage};
use crate::stats::median;

/// The largest number of hosts.
pub const MOST: usize = 3;
/// Rounds; in each, every number of hosts has one turn.
const ROUNDS: usize = 3;
/// The time that one step may take.
const PATIENCE: Duration = Duration::from_mins(5);
/// The time between two checks whether the hosts share the parents.
const POLL: Duration = Duration::from_millis(500);

/// The columns of the table, with their keys in JSON.
pub const COLUMNS: [(&str, &str); 8] = [
    ("parents/s", "parents_per_second"),
    ("× one host", "ratio"),
    ("s until all had converged", "seconds"),
    ("s until all were changed", "changing_seconds"),
    ("hosts' CPU s", "hosts_cpu"),
    ("API server's CPU s", "server_cpu"),
    ("API server, % of a core", "server_percent"),
    ("etcd's CPU s", "etcd_cpu"),
];

/// A turn: a number of hosts reconciles all parents after a change of each.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The number of parents.
    pub parents: usize,
    /// The time from the first change to the last status, in seconds.
    pub seconds: f64,
    /// The time that the driver needed for its changes, in seconds: part of the same time.
    pub changing: f64,
    /// CPU time of each host meanwhile, in seconds.
    pub hosts: Vec<f64>,
    /// CPU time of the API server meanwhile, in seconds: the driver's changes and its watches are a part of it.
    pub server: f64,
    /// CPU time of etcd meanwhile, in seconds.
    pub etcd: f64,
}

impl Turn {
    fn rate(&self) -> f64 {
        as_float(self.parents as u64) / self.seconds
    }
}

/// The turn of this number of hosts in a round, and its [`COLUMNS`]; none if it is missing.
pub fn figures(round: &BTreeMap<usize, Turn>, hosts: usize) -> Option<(&Turn, [f64; COLUMNS.len()])> {
    let (one, turn) = (round.get(&1)?, round.get(&hosts)?);
    let figures = [
        turn.rate(),
        turn.rate() / one.rate(),
        turn.seconds,
        turn.changing,
        turn.hosts.iter().sum(),
        turn.server,
        turn.server / turn.seconds * 100.0,
        turn.etcd,
    ];
    Some((turn, figures))
}

/// The medians of all rounds for this number of hosts, in the order of [`COLUMNS`]; none without rounds.
pub fn medians(rounds: &[BTreeMap<usize, Turn>], hosts: usize) -> Option<[f64; COLUMNS.len()]> {
    let all: Vec<_> = rounds.iter().filter_map(|round| Some(figures(round, hosts)?.1)).collect();
    let middle = |at| median(all.iter().filter_map(|figures| figures.get(at).copied()));
    middle(0)?;
    Some(std::array::from_fn(|at| middle(at).unwrap_or_default()))
}

/// Measures everything on one cluster. Each turn starts new hosts, and the order varies.
pub async fn measure(
    paths: &Paths,
    amounts: &Amounts,
    say: &dyn Fn(&str),
) -> anyhow::Result<Vec<BTreeMap<usize, Turn>>> {
    let parents = amounts.shared;
    say(&format!("shards: {parents} parents with {CHILDREN} children"));
    let stage = Stage::new(paths, false).await?;
    stage.push(&[("load", &paths.load)])?;
    stage.controllers(false)?;
    stage.create_loads(0, parents, CHILDREN, PAYLOAD).await?;
    let observer = Observer::start(&stage.admin).await?;
    let mut host = Contestant::Windlass.start(&stage, paths, Task::Create)?;
    observer.wait_settled(parents, parents * CHILDREN, &mut host, PATIENCE).await?;
    drop(observer);
    host.stop()?;

    // Two hosts must not have the same cache folder.
    let more = (1..MOST).map(|at| Paths { cache: stage.dir().join(format!("cache-{at}")), ..paths.clone() });
    let folders: Vec<_> = std::iter::once(paths.clone()).chain(more).collect();
    let mut order: [usize; MOST] = std::array::from_fn(|at| at + 1);
    let mut rounds = Vec::new();
    for number in 1..=ROUNDS {
        let mut round = BTreeMap::new();
        for hosts in order {
            say(&format!("shards, round {number} of {ROUNDS}: {hosts} hosts"));
            let start = |paths| start_member(&stage, paths, hosts);
            let running = folders.iter().take(hosts).map(start).collect::<anyhow::Result<_>>()?;
            let turn = turn(&stage, running, parents, &format!("round-{number}-{hosts}")).await?;
            say(&format!("  {:.0} parents/s, {:.2} s of the API server's CPU", turn.rate(), turn.server));
            round.insert(hosts, turn);
        }
        rounds.push(round);
        order.rotate_left(1);
    }
    Ok(rounds)
}

/// Changes all parents once the hosts share them, and waits until all have converged.
async fn turn(stage: &Stage, mut hosts: Vec<Process>, parents: usize, note: &str) -> anyhow::Result<Turn> {
    wait_shared(stage, &mut hosts).await?;
    tokio::time::sleep(REST).await;
    let observer = Observer::start(&stage.admin).await?;
    let server = Component::find("kube-apiserver", stage.dir())?;
    let etcd = Component::find("etcd", stage.dir())?;
    let each = |hosts: &[Process]| hosts.iter().map(Process::cpu).collect::<anyhow::Result<Vec<_>>>();
    let (hosts_before, server_before, etcd_before) = (each(&hosts)?, server.cpu()?, etcd.cpu()?);
    let begun = Instant::now();
    stage.note_all(parents, note).await?;
    let changing = begun.elapsed();
    // No child is new.
    observer.wait_settled(parents, 0, hosts.first_mut().context("no host")?, PATIENCE).await?;
    let (hosts_after, server_after, etcd_after) = (each(&hosts)?, server.cpu()?, etcd.cpu()?);
    let last = observer.last_status().context("no status was seen")?;

    let changed = stage.noted(note).await?;
    anyhow::ensure!(changed == parents * CHILDREN, "{changed} of {} children were changed", parents * CHILDREN);
    anyhow::ensure!(are_shared(stage, hosts.len()).await?, "the hosts stopped sharing the parents meanwhile");
    for host in hosts {
        host.stop()?;
    }
    Ok(Turn {
        parents,
        seconds: last.duration_since(begun).as_secs_f64(),
        changing: changing.as_secs_f64(),
        hosts: hosts_after.iter().zip(hosts_before).map(|(after, before)| after - before).collect(),
        server: server_after - server_before,
        etcd: etcd_after - etcd_before,
    })
}

/// Waits until the hosts share the parents, and have finished the work of their start.
async fn wait_shared(stage: &Stage, hosts: &mut [Process]) -> anyhow::Result<()> {
    stage.wait_ready("load").await?;
    let begun = Instant::now();
    loop {
        for host in hosts.iter_mut() {
            anyhow::ensure!(host.lives(), "a host ended by itself: {}", host.said());
        }
        if are_shared(stage, hosts.len()).await? {
            for host in &*hosts {
                quiet(host).await?;
            }
            // An earlier host may have left a status that the new leader has withdrawn meanwhile.
            if are_shared(stage, hosts.len()).await? {
                return Ok(());
            }
        }
        anyhow::ensure!(begun.elapsed() < PATIENCE, "{} hosts do not share the parents", hosts.len());
        tokio::time::sleep(POLL).await;
    }
}

/// Whether one host leads, and this number of hosts share the parents: each has a shard and knows all others. A single
/// host has no shard and shares nothing.
async fn are_shared(stage: &Stage, hosts: usize) -> anyhow::Result<bool> {
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases");
    let leases = stage.admin.get(&leases).await?;
    let held = leases.get("items").and_then(Value::as_array).into_iter().flatten().filter(|lease| {
        lease.pointer("/spec/holderIdentity").and_then(Value::as_str).is_some_and(|holder| !holder.is_empty())
    });
    let (members, others): (Vec<_>, Vec<_>) =
        held.partition(|lease| lease.pointer("/metadata/labels/windlass.dev~1shard").is_some());
    let has_leader =
        others.iter().any(|lease| lease.pointer("/metadata/name").and_then(Value::as_str) == Some("windlass"));
    let plugin = stage.admin.get("/apis/windlass.dev/v1alpha1/plugins/load").await?;
    let is_shared = plugin.pointer("/status/rollout/shared").and_then(Value::as_bool) == Some(true);
    let expected = if hosts > 1 { hosts } else { 0 };
    let know_all = members.iter().all(|lease| knows_all(lease, hosts));
    Ok(has_leader && is_shared == (hosts > 1) && members.len() == expected && know_all)
}

/// Whether the holder of a shard knows all members, and works on its share.
fn knows_all(lease: &Value, hosts: usize) -> bool {
    let announced = lease.pointer("/metadata/annotations/windlass.dev~1shard-state").and_then(Value::as_str);
    let announced: Option<Value> = announced.and_then(|text| serde_json::from_str(text).ok());
    announced.is_some_and(|announced| {
        announced.get("members").and_then(Value::as_array).is_some_and(|members| members.len() == hosts)
            && ["forLeader", "behind"].iter().all(|key| announced.get(key).is_none())
    })
}
