//! How soon many parents with one schedule are reconciled after its time (`--only schedule`).

use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _};
use http::Method;
use serde_json::json;

use crate::contestant::{Contestant, Task};
use crate::http::JSON;
use crate::observer::Observer;
use crate::scale::quiet;
use crate::settings::{Amounts, Paths};
use crate::stage::{NAMESPACE, PARALLEL, Stage};
use crate::work::PATIENCE;

/// The plugin whose parents get one child each at the time of their spec.
const PLUGIN: &str = "puppet-scheduled";
/// The time from the creation of the parents to that of their spec: they wait, and the host is idle by then.
const AHEAD: Duration = Duration::from_mins(1);

/// Parents with one schedule.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    /// Their number.
    pub parents: usize,
    /// Milliseconds from the time of the schedule to the first child.
    pub first: f64,
    /// The same to the last one: all calls have begun before.
    pub last: f64,
    /// The host's CPU time for each parent, in microseconds.
    pub cpu: f64,
}

/// Creates parents with one schedule, and waits for its time.
pub async fn measure(paths: &Paths, amounts: &Amounts, say: &dyn Fn(&str)) -> anyhow::Result<Schedule> {
    let parents = amounts.parents;
    say(&format!("schedule: {parents} parents"));
    let stage = Stage::new(paths, false).await?;
    let guests = paths.guests.as_ref().context("the folder of the guests is unknown")?;
    let component = guests.join("puppets").join(PLUGIN).with_extension("wasm");
    stage.push(&[("load", &paths.load), (PLUGIN, &component)])?;
    stage.controllers(false)?;
    let mut host = Contestant::Windlass.start(&stage, paths, Task::Create)?;
    stage.wait_ready(PLUGIN).await?;
    let (begun, at) = (Instant::now(), SystemTime::now() + AHEAD);
    let at = at.duration_since(SystemTime::UNIX_EPOCH)?.as_millis();
    let requests = (0..parents).map(|number| {
        let child = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${name}"}});
        let parent = json!({
            "apiVersion": "puppets.example/v1", "kind": "ScheduledPuppet",
            "metadata": {"name": format!("scheduled-{number}"), "namespace": NAMESPACE},
            "spec": {"at": u64::try_from(at).unwrap_or_default(), "children": [child]},
        });
        let path = format!("/apis/puppets.example/v1/namespaces/{NAMESPACE}/scheduledpuppets");
        let admin = &stage.admin;
        async move { admin.write(Method::POST, &path, JSON, parent.to_string().into()).await }
    });
    futures::stream::iter(requests).buffer_unordered(PARALLEL).try_for_each(|_| async { Ok(()) }).await?;
    quiet(&host).await?;
    anyhow::ensure!(begun.elapsed() < AHEAD, "the host was not idle before the time of the schedule");
    let (observer, before) = (Observer::start(&stage.admin).await?, host.cpu()?);
    let last = observer.wait_children(parents, &mut host, AHEAD + PATIENCE).await?;
    let first = observer.first_child().context("no child")?;
    let after = |time: Instant| (time - begun).as_secs_f64() * 1e3 - AHEAD.as_secs_f64() * 1e3;
    anyhow::ensure!(after(first) >= 0.0, "a child came {} ms before its time", -after(first));
    quiet(&host).await?;
    let cpu = (host.cpu()? - before) * 1e6 / f64::from(u32::try_from(parents)?);
    host.stop()?;
    Ok(Schedule { parents, first: after(first), last: after(last), cpu })
}
