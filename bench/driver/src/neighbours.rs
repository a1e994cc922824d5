//! Work B beside a plugin that computes all the time (goal P11), and before, beside and after plugins that mean no good
//! (goal R19).

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;
use http::Method;
use serde_json::{Value, json};

use crate::contestant::{Contestant, Task};
use crate::copies;
use crate::http::{Http, JSON, MERGE};
use crate::observer::Observer;
use crate::process::Process;
use crate::settings::{Amounts, CHILDREN, PAYLOAD, Paths, REST};
use crate::stage::{NAMESPACE, Stage};
use crate::stats::percentile;
use crate::work::{PATIENCE, WorkB};

/// Parents of the plugin beside. Each is changed about once a second, and asks for less than the deadline of that:
/// it never fails, so that nothing but the host's fairness keeps it from its neighbours.
const BUSY: usize = 4;
/// Changes of these, one after the other.
const BETWEEN: Duration = Duration::from_millis(250);
/// What each of them computes, as the measured plugin counts it: some 0.3 to 0.4 s.
const ROUNDS: usize = 40;

/// Less than this much of a core is no neighbour that computes all the time.
const CORES_MIN: f64 = 0.6;

/// Guests of tests/guests/hostile, and what they do while their parents' spec does not say `behave`.
const HOSTILE: [(&str, &str, &str); 7] = [
    ("endless-loop", "EndlessLoop", "loops up to its deadline"),
    ("trap", "Trap", "traps"),
    ("log-flood", "LogFlood", "logs 100 MB"),
    ("memory-bomb", "MemoryBomb", "takes memory up to its limit"),
    ("too-many-children", "TooManyChildren", "returns 5000 children"),
    ("million-children", "MillionChildren", "returns a million children"),
    ("huge-answer", "HugeAnswer", "returns an answer of 100 MB"),
];

/// Work B beside something that burns CPU.
#[derive(Debug, Clone, Copy)]
pub struct Beside {
    /// Beside a plugin.
    pub neighbour: Latency,
    /// Beside an outside process that burns as much.
    pub outside: Latency,
    /// Cores that the host burnt for the plugin.
    pub cores: f64,
}

/// Work B and one plugin that means no good.
#[derive(Debug, Clone, Copy)]
pub struct Hostile {
    /// What the plugin does.
    pub what: &'static str,
    /// Before it has any parents.
    pub before: Latency,
    /// While its parents change all the time.
    pub beside: Beside,
    /// After they are gone.
    pub after: Latency,
}

/// How long changes take, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Latency {
    /// Half of them took less.
    pub p50: f64,
    /// 99 of 100 took less.
    pub p99: f64,
}

impl Latency {
    fn of(times: &[Duration]) -> anyhow::Result<Self> {
        let at = |part| percentile(times, part).context("no changes");
        Ok(Self { p50: at(0.5)?, p99: at(0.99)? })
    }
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
    let computing = Parents { api_version: format!("{}/v1", copies::group(0)), kind: "Load", spec: computing };
    for _ in 0..amounts.neighbour_pairs {
        let pair = beside(&stage, &mut work, &mut host, &computing, (own, amounts.neighbour_changes)).await?;
        // In quarantine, or on another machine done at once, it would be no neighbour to speak of.
        let cores = pair.cores;
        anyhow::ensure!(cores >= CORES_MIN, "the plugin that should compute all the time burnt {cores:.2} cores");
        pairs.push(pair);
    }
    host.stop()?;
    Ok(pairs)
}

/// Each hostile plugin in turn, all of them loaded into the one host.
pub async fn measure_hostile(paths: &Paths, amounts: &Amounts, say: &dyn Fn(&str)) -> anyhow::Result<Vec<Hostile>> {
    let stage = Stage::new(paths, false).await?;
    let guests = HOSTILE.map(|(name, ..)| (name, paths.hostile.join(name).with_extension("wasm")));
    stage.define(guests.iter().map(|(_, path)| path.as_path()))?;
    let mut plugins = vec![("load", paths.load.as_path())];
    plugins.extend(guests.iter().map(|(name, path)| (*name, path.as_path())));
    stage.push(&plugins)?;
    let parents = amounts.parents;
    stage.create_loads(0, parents, CHILDREN, PAYLOAD).await?;
    let observer = Observer::start(&stage.admin).await?;
    let mut host = Contestant::Windlass.start(&stage, paths, Task::Create)?;
    for (name, _) in &plugins {
        stage.wait_ready(name).await?;
    }
    stage.controllers(false)?;
    observer.wait_settled(parents, parents * CHILDREN, &mut host, PATIENCE).await?;
    let mut work = WorkB::begin(&stage, &observer, parents, &mut host).await?;

    let count = amounts.neighbour_changes;
    let (times, own) = burnt(&mut work, &mut host, count).await?;
    let mut before = Latency::of(&times)?;
    let mut rows = Vec::new();
    for (name, kind, what) in HOSTILE {
        say(&format!("  {name}"));
        let hostile = Parents { api_version: "hostile.example/v1".to_owned(), kind, spec: now_and_then };
        let beside = beside(&stage, &mut work, &mut host, &hostile, (own, count)).await?;
        let after = Latency::of(&work.changes(&mut host, count).await?)?;
        rows.push(Hostile { what, before, beside, after });
        before = after;
    }
    host.stop()?;
    Ok(rows)
}

/// Work B beside the plugin of these parents, and then beside an outside process that burns as much; `own` is what the host burns
/// for so many changes alone.
async fn beside(
    stage: &Stage,
    work: &mut WorkB<'_>,
    host: &mut Process,
    parents: &Parents,
    (own, changes): (f64, usize),
) -> anyhow::Result<Beside> {
    let busy = Busy::start(stage, parents).await?;
    let (times, with) = burnt(work, host, changes).await?;
    // One that is in quarantine burns nothing, and the figures vary.
    let cores = (with - own).max(0.0);
    busy.stop().await?;

    let mut command = Command::new(std::env::current_exe()?);
    command.args(["burn", "--cores", &format!("{cores:.2}")]);
    let burner = Process::start(&mut command, &stage.dir().join("burn.log"))?;
    let outside = work.changes(host, changes).await?;
    burner.stop()?;
    Ok(Beside { neighbour: Latency::of(&times)?, outside: Latency::of(&outside)?, cores })
}

/// Makes changes; answers with their times, and with how many cores the host kept busy meanwhile.
async fn burnt(work: &mut WorkB<'_>, host: &mut Process, count: usize) -> anyhow::Result<(Vec<Duration>, f64)> {
    let (cpu, begun) = (host.cpu()?, Instant::now());
    let times = work.changes(host, count).await?;
    Ok((times, (host.cpu()? - cpu) / begun.elapsed().as_secs_f64()))
}

/// Whose parents are changed again and again, and what their specs say then.
struct Parents {
    api_version: String,
    kind: &'static str,
    spec: fn(u64) -> Value,
}

/// A spec that takes a while to reconcile.
fn computing(round: u64) -> Value {
    json!({"children": 0, "payload": 0, "note": round.to_string(), "rounds": ROUNDS})
}

/// A hostile guest's spec. Now and then it behaves: else it would soon be in quarantine, and harm nobody.
fn now_and_then(round: u64) -> Value {
    json!({"behave": round % 2 == 1})
}

impl Parents {
    fn path(&self, of: &str) -> String {
        let Self { api_version, kind, .. } = self;
        format!("/apis/{api_version}/namespaces/{NAMESPACE}/{}s{of}", kind.to_lowercase())
    }
}

/// Parents of a plugin that burdens the host, changed again and again.
struct Busy {
    admin: Http,
    /// Where they are.
    paths: Vec<String>,
    task: tokio::task::JoinHandle<()>,
}

impl Busy {
    async fn start(stage: &Stage, parents: &Parents) -> anyhow::Result<Self> {
        let admin = stage.admin.clone();
        let names: Vec<_> = (0..BUSY).map(|number| format!("busy-{number}")).collect();
        for name in &names {
            let body = json!({
                "apiVersion": parents.api_version, "kind": parents.kind,
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": (parents.spec)(0),
            });
            admin.write(Method::POST, &parents.path(""), JSON, body.to_string().into()).await?;
        }
        let paths: Vec<_> = names.iter().map(|name| parents.path(&format!("/{name}"))).collect();
        let (changer, places, spec) = (admin.clone(), paths.clone(), parents.spec);
        let task = tokio::spawn(async move {
            for round in 1_u64.. {
                for path in &places {
                    let body = json!({"spec": spec(round)}).to_string();
                    // One that fails is made good by the next.
                    let _ = changer.write(Method::PATCH, path, MERGE, body.into()).await;
                    tokio::time::sleep(BETWEEN).await;
                }
            }
        });
        // The first calls begin.
        tokio::time::sleep(REST).await;
        Ok(Self { admin, paths, task })
    }

    async fn stop(self) -> anyhow::Result<()> {
        self.task.abort();
        for path in &self.paths {
            self.admin.write(Method::DELETE, path, JSON, "".into()).await?;
        }
        // The last calls end.
        tokio::time::sleep(REST).await;
        Ok(())
    }
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
