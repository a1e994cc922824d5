//! Work B next to a plugin that computes all the time, and next to many parents of the same plugin in another namespace whose calls take
//! long (goal P11), and before, during and after the activity of hostile plugins (goal R19).

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

/// Parents of the computing plugin. Each is changed about once a second, and its call takes less than the deadline: the
/// call never fails, so only the host's fairness protects the measured plugin.
const BUSY: usize = 4;
/// Parents of the measured plugin in another namespace whose calls take long: after they are created, some of them wait for a call all the time.
const SLOW: usize = 150;
/// The namespace of these parents.
const OTHER_NAMESPACE: &str = "other";
/// The time between two changes of these parents.
const BETWEEN: Duration = Duration::from_millis(250);
/// The amount of computation of each call, in units of the measured plugin: some 0.3 to 0.4 s.
const ROUNDS: usize = 40;

/// A plugin that uses less than this share of a core does not compute all the time.
const CORES_MIN: f64 = 0.6;

/// Guests of tests/guests/hostile, with what they do while the spec of their parents has no `behave: true`.
const HOSTILE: [(&str, &str, &str); 7] = [
    ("endless-loop", "EndlessLoop", "loops up to its deadline"),
    ("trap", "Trap", "traps"),
    ("log-flood", "LogFlood", "logs 100 MB"),
    ("memory-bomb", "MemoryBomb", "allocates memory up to its limit"),
    ("too-many-children", "TooManyChildren", "returns 5000 children"),
    ("million-children", "MillionChildren", "returns a million children"),
    ("huge-answer", "HugeAnswer", "returns a response of 100 MB"),
];

/// Work B next to a load on the CPU.
#[derive(Debug, Clone, Copy)]
pub struct Beside {
    /// Next to a plugin.
    pub neighbour: Latency,
    /// Next to an outside process that uses as much CPU time.
    pub outside: Latency,
    /// Cores that the host used for the plugin.
    pub cores: f64,
}

/// Work B and one hostile plugin.
#[derive(Debug, Clone, Copy)]
pub struct Hostile {
    /// What the plugin does.
    pub what: &'static str,
    /// Before the plugin has any parents.
    pub before: Latency,
    /// While its parents change all the time.
    pub beside: Beside,
    /// After its parents are deleted.
    pub after: Latency,
}

/// Durations of changes, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Latency {
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
}

impl Latency {
    fn of(times: &[Duration]) -> anyhow::Result<Self> {
        let at = |part| percentile(times, part).context("no changes");
        Ok(Self { p50: at(0.5)?, p99: at(0.99)? })
    }
}

/// Work B next to others that compute all the time.
#[derive(Debug, Default)]
pub struct Neighbours {
    /// Pairs next to another plugin.
    pub plugin: Vec<Beside>,
    /// Pairs next to another namespace of the same plugin.
    pub namespace: Vec<Beside>,
}

/// Measures pairs: next to the plugin or the namespace, and next to the outside process.
pub async fn measure(paths: &Paths, amounts: &Amounts) -> anyhow::Result<Neighbours> {
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

    // The CPU time that the host uses for the changes themselves does not count as the plugin's.
    let (_, own) = burnt(&mut work, &mut host, amounts.neighbour_changes).await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OTHER_NAMESPACE}});
    stage.admin.write(Method::POST, "/api/v1/namespaces", JSON, namespace.to_string().into()).await?;
    let of_plugin = Parents::new(format!("{}/v1", copies::group(0)), "Load", computing);
    let of_namespace = Parents {
        namespace: OTHER_NAMESPACE,
        count: SLOW,
        ..Parents::new("bench.example/v1".to_owned(), "Load", computing)
    };
    let mut measured = Neighbours::default();
    for _ in 0..amounts.neighbour_pairs {
        for (parents, pairs) in [(&of_plugin, &mut measured.plugin), (&of_namespace, &mut measured.namespace)] {
            let pair = beside(&stage, &mut work, &mut host, parents, (own, amounts.neighbour_changes)).await?;
            // In quarantine, or on a much faster machine, the calls would use too little CPU time.
            let cores = pair.cores;
            anyhow::ensure!(
                cores >= CORES_MIN,
                "the plugin that should compute all the time used only {cores:.2} cores"
            );
            pairs.push(pair);
        }
    }
    host.stop()?;
    Ok(measured)
}

/// Activates each hostile plugin in turn; one host has loaded all of them.
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
        let hostile = Parents::new("hostile.example/v1".to_owned(), kind, now_and_then);
        let beside = beside(&stage, &mut work, &mut host, &hostile, (own, count)).await?;
        let after = Latency::of(&work.changes(&mut host, count).await?)?;
        rows.push(Hostile { what, before, beside, after });
        before = after;
    }
    host.stop()?;
    Ok(rows)
}

/// Measures work B next to the plugin of these parents, and then next to an outside process that uses as much CPU time.
/// `own` is the CPU time that the host uses for this number of changes alone.
async fn beside(
    stage: &Stage,
    work: &mut WorkB<'_>,
    host: &mut Process,
    parents: &Parents,
    (own, changes): (f64, usize),
) -> anyhow::Result<Beside> {
    let busy = Busy::start(stage, parents).await?;
    let (times, with) = burnt(work, host, changes).await?;
    // A plugin in quarantine uses no CPU time, and the figures vary.
    let cores = (with - own).max(0.0);
    busy.stop().await?;

    let mut command = Command::new(std::env::current_exe()?);
    command.args(["burn", "--cores", &format!("{cores:.2}")]);
    let burner = Process::start(&mut command, &stage.dir().join("burn.log"))?;
    let outside = work.changes(host, changes).await?;
    burner.stop()?;
    Ok(Beside { neighbour: Latency::of(&times)?, outside: Latency::of(&outside)?, cores })
}

/// Makes changes; returns their durations, and the number of cores that the host kept busy meanwhile.
async fn burnt(work: &mut WorkB<'_>, host: &mut Process, count: usize) -> anyhow::Result<(Vec<Duration>, f64)> {
    let (cpu, begun) = (host.cpu()?, Instant::now());
    let times = work.changes(host, count).await?;
    Ok((times, (host.cpu()? - cpu) / begun.elapsed().as_secs_f64()))
}

/// Parents that are changed again and again, and their next specs.
struct Parents {
    api_version: String,
    kind: &'static str,
    namespace: &'static str,
    count: usize,
    spec: fn(u64) -> Value,
}

/// A spec whose reconcile takes a while.
fn computing(round: u64) -> Value {
    json!({"children": 0, "payload": 0, "note": round.to_string(), "rounds": ROUNDS})
}

/// A hostile guest's spec. Every second spec makes the guest behave; otherwise it would soon be in quarantine, and
/// affect nothing.
fn now_and_then(round: u64) -> Value {
    json!({"behave": round % 2 == 1})
}

impl Parents {
    fn new(api_version: String, kind: &'static str, spec: fn(u64) -> Value) -> Self {
        Self { api_version, kind, namespace: NAMESPACE, count: BUSY, spec }
    }

    fn path(&self, of: &str) -> String {
        let Self { api_version, kind, namespace, .. } = self;
        format!("/apis/{api_version}/namespaces/{namespace}/{}s{of}", kind.to_lowercase())
    }
}

/// Parents of a plugin that keeps the host busy, changed again and again.
struct Busy {
    admin: Http,
    /// Their API paths.
    paths: Vec<String>,
    task: tokio::task::JoinHandle<()>,
}

impl Busy {
    async fn start(stage: &Stage, parents: &Parents) -> anyhow::Result<Self> {
        let admin = stage.admin.clone();
        let names: Vec<_> = (0..parents.count).map(|number| format!("busy-{number}")).collect();
        for name in &names {
            let body = json!({
                "apiVersion": parents.api_version, "kind": parents.kind,
                "metadata": {"name": name, "namespace": parents.namespace},
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
                    // If a change fails, the next one replaces it.
                    let _ = changer.write(Method::PATCH, path, MERGE, body.into()).await;
                    tokio::time::sleep(BETWEEN).await;
                }
            }
        });
        // Time for the first calls to begin.
        tokio::time::sleep(REST).await;
        Ok(Self { admin, paths, task })
    }

    async fn stop(self) -> anyhow::Result<()> {
        self.task.abort();
        for path in &self.paths {
            self.admin.write(Method::DELETE, path, JSON, "".into()).await?;
        }
        // Time for the last calls to end.
        tokio::time::sleep(REST).await;
        Ok(())
    }
}

/// Uses CPU time until it is ended, for this number of cores. It measures the CPU time of its threads, because other
/// processes use the cores as well.
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
    // Neither does it without a core to keep busy.
    loop {
        std::thread::park();
    }
}

/// CPU time of this thread.
fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
