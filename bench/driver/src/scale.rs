//! The cost of parents that exist and do not change: the resync (goal P6), and memory (P7, P9).

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use http::Method;
use serde_json::json;

use crate::contestant::{Contestant, Task};
use crate::http::MERGE;
use crate::observer::Observer;
use crate::process::{Memory, Process, as_float};
use crate::settings::{Amounts, CHILDREN, PAYLOAD, Paths, REST, UNTIL_IDLE};
use crate::stage::{NAMESPACE, Stage, WINDLASS_USER};

/// The number of children of a parent whose memory is measured.
const ONE_CHILD: usize = 1;
/// The time that one step may take.
const PATIENCE: Duration = Duration::from_mins(5);

/// An idle process.
#[derive(Debug, Clone, Copy)]
pub struct Idle {
    /// The contestant.
    pub contestant: Contestant,
    /// Its memory.
    pub memory: Memory,
    /// Percent of a core.
    pub cpu: f64,
}

/// Memory at a number of parents.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// The number of parents.
    pub parents: usize,
    /// Bytes of all objects without `managedFields`.
    pub bytes: u64,
    /// The memory a moment after all had converged.
    pub memory: Memory,
}

/// Reconciles of all parents that change nothing.
#[derive(Debug, Clone, Copy)]
pub struct Resync {
    /// The number of parents, with [`CHILDREN`] each.
    pub parents: usize,
    /// CPU time for each parent after a start, including the lists, in microseconds.
    pub started: f64,
    /// CPU time for each parent under a new config, in microseconds: the memo is empty, and the guest is called.
    pub called: f64,
    /// CPU time for each parent when all are queued again under the same config, in microseconds.
    pub remembered: f64,
    /// CPU time for each parent when its resync timer fires, in microseconds.
    pub timed: f64,
    /// The requests of Windlass for parents and children meanwhile.
    pub requests: usize,
}

/// All figures.
#[derive(Debug, Clone)]
pub struct Scale {
    /// Idle processes.
    pub idle: Vec<Idle>,
    /// Windlass' memory.
    pub sizes: Vec<Size>,
    /// Windlass' memory after a start with the last number of parents, all of them converged.
    pub restarted: Memory,
}

/// Measures everything on one cluster.
pub async fn measure(paths: &Paths, amounts: &Amounts, say: &dyn Fn(&str)) -> anyhow::Result<Scale> {
    let stage = Stage::new(paths, true).await?;
    let names: Vec<_> = paths
        .shipped
        .iter()
        .map(|path| Ok((path.file_stem().and_then(|name| name.to_str()).context("no name")?, path.as_path())))
        .collect::<anyhow::Result<_>>()?;
    stage.push(&names)?;
    say("P7: idle processes");
    let idle = idle(&stage, paths, amounts).await?;
    stage.push(&[("load", &paths.load)])?;
    stage.controllers(false)?;

    let observer = Observer::start(&stage.admin).await?;
    let (mut sizes, mut before) = (Vec::new(), 0);
    for parents in amounts.sizes {
        say(&format!("P9: {parents} parents"));
        stage.create_loads(before, parents, ONE_CHILD, PAYLOAD).await?;
        let mut host = Contestant::Windlass.start(&stage, paths, Task::Create)?;
        observer.wait_settled(parents, parents * ONE_CHILD, &mut host, PATIENCE).await?;
        tokio::time::sleep(REST).await;
        sizes.push(Size { parents, bytes: stage.trimmed_bytes().await?, memory: host.memory()? });
        before = parents;
        host.stop()?;
    }

    say("P9: a start with all settled");
    let host = Contestant::Windlass.start(&stage, paths, Task::Create)?;
    quiet(&host).await?;
    let restarted = host.memory()?;
    host.stop()?;
    Ok(Scale { idle, sizes, restarted })
}

/// Measures reconciles of converged parents, on a cluster of their own.
pub async fn no_ops(paths: &Paths, amounts: &Amounts, say: &dyn Fn(&str)) -> anyhow::Result<Resync> {
    let parents = amounts.settled;
    say(&format!("P6: {parents} parents with {CHILDREN} children"));
    let stage = Stage::new(paths, true).await?;
    stage.push(&[("load", &paths.load)])?;
    stage.controllers(false)?;
    stage.create_loads(0, parents, CHILDREN, PAYLOAD).await?;
    let observer = Observer::start(&stage.admin).await?;
    let mut host = Contestant::Windlass.start(&stage, paths, Task::Create)?;
    observer.wait_settled(parents, parents * CHILDREN, &mut host, PATIENCE).await?;
    tokio::time::sleep(REST).await;
    host.stop()?;

    say("P6: a start with all settled, and a resync");
    let host = Contestant::Windlass.start(&stage, paths, Task::Create)?;
    let resync = resync(&stage, &host, parents).await?;
    host.stop()?;
    Ok(resync)
}

/// Measures the idle operators, all at once.
async fn idle(stage: &Stage, paths: &Paths, amounts: &Amounts) -> anyhow::Result<Vec<Idle>> {
    let all = Contestant::all(paths).into_iter().filter(|contestant| *contestant != Contestant::Raw);
    let running = all
        .map(|contestant| Ok((contestant, contestant.start(stage, paths, Task::Create)?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    for plugin in &paths.shipped {
        let name = plugin.file_stem().and_then(|name| name.to_str()).context("no name")?;
        stage.wait_ready(name).await?;
    }
    tokio::time::sleep(UNTIL_IDLE).await;
    let before = running.iter().map(|(_, process)| process.fine_cpu()).collect::<anyhow::Result<Vec<_>>>()?;
    let begun = Instant::now();
    tokio::time::sleep(amounts.idle).await;
    let mut idle = Vec::new();
    for ((contestant, process), before) in running.into_iter().zip(before) {
        let cpu = (process.fine_cpu()? - before) / begun.elapsed().as_secs_f64() * 100.0;
        idle.push(Idle { contestant, memory: process.memory()?, cpu });
        process.stop()?;
    }
    Ok(idle)
}

/// Has every parent reconciled four times without a change: after the start, and three times more.
///
/// A change of the Plugin is published, and queues each parent once, within two seconds. After that, each parent is
/// reconciled again after the resync time, ± 10 %.
async fn resync(stage: &Stage, host: &Process, parents: usize) -> anyhow::Result<Resync> {
    const EVERY: Duration = Duration::from_secs(40);
    let audit = stage.cluster().audit()?;
    let mark = audit.mark()?;
    quiet(host).await?;
    let started = host.cpu()?;
    let called = published(stage, host, &json!({"config": {"round": 1}})).await?;
    let begun = Instant::now();
    let remembered = published(stage, host, &json!({"resync": format!("{}s", EVERY.as_secs())})).await?;
    anyhow::ensure!(begun.elapsed() < EVERY.mul_f64(0.6), "one pass lasts until the next: too many parents");
    // The last parents come after a little more than 1.1 × the resync time; the first ones come a third time after 1.8
    // ×.
    let before = host.cpu()?;
    tokio::time::sleep(EVERY.mul_f64(1.1) + REST).await;
    let timed = host.cpu()? - before;
    let asked = audit.since(mark)?.by_user(WINDLASS_USER);
    let about = |event: &&windlass_testbed::AuditEvent| {
        // The component's own ConfigMap, in another namespace, is read again.
        matches!(event.resource.as_str(), "loads" | "configmaps" | "events") && event.namespace == NAMESPACE
    };
    let each = |seconds_of_cpu: f64| seconds_of_cpu / as_float(parents as u64) * 1e6;
    Ok(Resync {
        parents,
        started: each(started),
        called: each(called),
        remembered: each(remembered),
        timed: each(timed),
        requests: asked.iter().filter(about).count(),
    })
}

/// Changes the Plugin's spec; returns the CPU time until the host is idle again.
async fn published(stage: &Stage, host: &Process, spec: &serde_json::Value) -> anyhow::Result<f64> {
    let before = host.cpu()?;
    let body = json!({ "spec": spec }).to_string();
    stage.admin.write(Method::PATCH, "/apis/windlass.dev/v1alpha1/plugins/load", MERGE, body.into()).await?;
    quiet(host).await?;
    Ok(host.cpu()? - before)
}

/// Waits until a process has been idle for a while.
pub async fn quiet(process: &Process) -> anyhow::Result<()> {
    let begun = Instant::now();
    let mut quiet = 0;
    let mut before = process.cpu()?;
    // A start and a publication take a moment to begin.
    tokio::time::sleep(Duration::from_secs(1)).await;
    while quiet < 4 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = process.cpu()?;
        quiet = if now - before < 0.015 { quiet + 1 } else { 0 };
        before = now;
        if begun.elapsed() > PATIENCE {
            bail!("the host does not come to rest");
        }
    }
    Ok(())
}

/// A call of the plugin with the encoding of its arguments: the median in microseconds, as the sandbox's example prints
/// it (P5).
pub fn call(paths: &Paths, amounts: &Amounts) -> anyhow::Result<Option<[f64; 2]>> {
    let Some(example) = &paths.call_latency else { return Ok(None) };
    let echo = paths.shipped.iter().find(|path| path.file_stem().is_some_and(|name| name == "echo"));
    let echo = echo.context("no component echo")?;
    let output = Command::new(example).arg(echo).arg(amounts.calls.to_string()).output().context("call-latency")?;
    if !output.status.success() {
        bail!("call-latency: {}", String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().find(|line| line.contains(" calls: ")).context("call-latency prints no line of calls")?;
    let time = |key: &str| {
        let rest = line.split(key).nth(1)?.split([',', ';']).next()?.trim();
        let number = rest.trim_end_matches(|sign: char| !sign.is_ascii_digit());
        let unit = match rest.strip_prefix(number)? {
            "ns" => 1e-3,
            "µs" => 1.0,
            "ms" => 1e3,
            _ => return None,
        };
        Some(number.parse::<f64>().ok()? * unit)
    };
    Ok(Some([time("p50 ").context("no p50")?, time("p99 ").context("no p99")?]))
}
