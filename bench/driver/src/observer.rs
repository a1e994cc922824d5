//! The clock for all contestants: what a watch of the API server shows, and when.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::http::{Http, Lines};
use crate::process::Process;
use crate::stage::{CONFIG_MAPS, LOADS};

/// Objects that the control plane itself creates in every namespace.
const NOT_A_CHILD: &str = "kube-root-ca.crt";

/// Watches parents and children until it is dropped.
pub struct Observer {
    seen: Arc<Seen>,
    tasks: [JoinHandle<()>; 2],
}

#[derive(Default)]
struct Seen {
    now: Mutex<Now>,
    changed: Notify,
}

#[derive(Default)]
struct Now {
    first_child: Option<Instant>,
    children: HashSet<String>,
    settled: HashSet<String>,
    last_status: Option<Instant>,
    awaited: Option<Awaited>,
    failed: Option<String>,
}

/// The children of one parent that must show a note.
struct Awaited {
    prefix: String,
    note: String,
    missing: usize,
    done: Option<Instant>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: Object<'a>,
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<'a>,
    #[serde(borrow, default)]
    data: Data<'a>,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize, Default)]
struct Metadata<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(default)]
    generation: i64,
}

#[derive(Deserialize, Default)]
struct Data<'a> {
    #[serde(borrow, default)]
    note: Cow<'a, str>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(default)]
    observed_generation: i64,
}

impl Observer {
    /// Begins to watch: from the current state on.
    pub async fn start(admin: &Http) -> anyhow::Result<Self> {
        let seen = Arc::<Seen>::default();
        let loads = follow(admin.clone(), LOADS, seen.clone(), on_load).await?;
        let children = follow(admin.clone(), CONFIG_MAPS, seen.clone(), on_child).await?;
        Ok(Self { seen, tasks: [loads, children] })
    }

    /// The time at which the first child appeared.
    pub fn first_child(&self) -> Option<Instant> {
        self.seen.now.lock().first_child
    }

    /// The time at which the last new status arrived.
    pub fn last_status(&self) -> Option<Instant> {
        self.seen.now.lock().last_status
    }

    /// The number of children that were created during the watch.
    pub fn children(&self) -> usize {
        self.seen.now.lock().children.len()
    }

    /// Waits until a child is created.
    pub async fn wait_first_child(&self, operator: &mut Process, patience: Duration) -> anyhow::Result<Instant> {
        self.wait("the first child", operator, patience, |now| now.first_child).await
    }

    /// Waits until this number of children are created, and returns when the last one was.
    pub async fn wait_children(
        &self,
        children: usize,
        operator: &mut Process,
        patience: Duration,
    ) -> anyhow::Result<Instant> {
        let all = |now: &Now| (now.children.len() >= children).then(Instant::now);
        self.wait("all children", operator, patience, all).await
    }

    /// Waits until this number of parents have converged, and this number of children were created.
    pub async fn wait_settled(
        &self,
        parents: usize,
        children: usize,
        operator: &mut Process,
        patience: Duration,
    ) -> anyhow::Result<()> {
        let settled = self.wait("all parents to settle", operator, patience, |now| {
            // The two watches are independent: the last children may arrive after the last status.
            (now.settled.len() >= parents && now.children.len() >= children).then_some(())
        });
        settled.await.with_context(|| {
            let now = self.seen.now.lock();
            format!(
                "{} of {parents} parents have settled, with {} of {children} children",
                now.settled.len(),
                now.children.len()
            )
        })
    }

    /// From now on, waits for the children of this parent to show this note.
    pub fn await_note(&self, parent: &str, note: &str, children: usize) {
        let awaited = Awaited { prefix: format!("{parent}-"), note: note.to_owned(), missing: children, done: None };
        self.seen.now.lock().awaited = Some(awaited);
    }

    /// Waits until all of these children have shown the note.
    pub async fn wait_note(&self, operator: &mut Process) -> anyhow::Result<Instant> {
        let patience = Duration::from_secs(30);
        self.wait("changed children", operator, patience, |now| now.awaited.as_ref()?.done).await
    }

    async fn wait<T>(
        &self,
        what: &str,
        operator: &mut Process,
        patience: Duration,
        condition: impl Fn(&Now) -> Option<T>,
    ) -> anyhow::Result<T> {
        let begun = Instant::now();
        loop {
            let changed = self.seen.changed.notified();
            {
                let now = self.seen.now.lock();
                if let Some(value) = condition(&now) {
                    return Ok(value);
                }
                if let Some(failed) = &now.failed {
                    bail!("the observer cannot watch: {failed}");
                }
            }
            if begun.elapsed() > patience {
                bail!("{what}: not observed within {patience:?}");
            }
            // A contestant that ends has failed, unless its last writes are still to arrive.
            if tokio::time::timeout(Duration::from_secs(1), changed).await.is_err() && !operator.lives() {
                let late = condition(&self.seen.now.lock());
                return late.with_context(|| format!("the contestant ended before {what}: {}", operator.said()));
            }
        }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Follows a path from the current state on. The API server ends watches of a kind whose CRD is new; then existing
/// objects count as new.
/// there is news.
async fn follow(
    admin: Http,
    path: &'static str,
    seen: Arc<Seen>,
    on_event: fn(&mut Now, &Event<'_>, Instant) -> bool,
) -> anyhow::Result<JoinHandle<()>> {
    let (_, version) = list(&admin, path).await?;
    let mut lines = watch(&admin, path, &version).await?;
    Ok(tokio::spawn(async move {
        let failed = loop {
            if let Err(error) = read(&mut lines, &seen, on_event).await {
                break error.to_string();
            }
            let again = async {
                let (items, version) = list(&admin, path).await?;
                for object in items {
                    let text = serde_json::json!({"type": "LISTED", "object": object}).to_string();
                    tell(&seen, text.as_bytes(), on_event)?;
                }
                watch(&admin, path, &version).await
            };
            match again.await {
                Ok(fresh) => lines = fresh,
                Err(error) => break error.to_string(),
            }
        };
        seen.now.lock().failed = Some(failed);
        seen.changed.notify_waiters();
    }))
}

async fn list(admin: &Http, path: &str) -> anyhow::Result<(Vec<Value>, String)> {
    let list = admin.get(path).await?;
    let version =
        list.pointer("/metadata/resourceVersion").and_then(Value::as_str).context("a list without version")?;
    let items = list.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
    Ok((items, version.to_owned()))
}

async fn watch(admin: &Http, path: &str, version: &str) -> anyhow::Result<Lines> {
    admin.watch(&format!("{path}?watch=1&resourceVersion={version}")).await
}

/// Reads a watch to its end.
async fn read(
    lines: &mut Lines,
    seen: &Seen,
    on_event: fn(&mut Now, &Event<'_>, Instant) -> bool,
) -> anyhow::Result<()> {
    while let Some(line) = lines.next().await? {
        if !tell(seen, &line, on_event)? {
            return Ok(());
        }
    }
    Ok(())
}

/// Handles an event; returns whether the watch continues.
fn tell(seen: &Seen, line: &[u8], on_event: fn(&mut Now, &Event<'_>, Instant) -> bool) -> anyhow::Result<bool> {
    let when = Instant::now();
    let event: Event<'_> = serde_json::from_slice(line)?;
    if event.kind == "ERROR" {
        return Ok(false);
    }
    if on_event(&mut seen.now.lock(), &event, when) {
        seen.changed.notify_waiters();
    }
    Ok(true)
}

/// Both handlers return whether the event may end a wait.
fn on_load(now: &mut Now, event: &Event<'_>, when: Instant) -> bool {
    let object = &event.object;
    if event.kind == "DELETED" || object.status.observed_generation != object.metadata.generation {
        now.settled.remove(&*object.metadata.name);
        return false;
    }
    now.settled.insert(object.metadata.name.clone().into_owned()) && {
        now.last_status = Some(when);
        true
    }
}

fn on_child(now: &mut Now, event: &Event<'_>, when: Instant) -> bool {
    let object = &event.object;
    if object.metadata.name == NOT_A_CHILD {
        return false;
    }
    let is_new = ["ADDED", "LISTED"].contains(&&*event.kind);
    let first = is_new && now.children.insert(object.metadata.name.clone().into_owned()) && now.first_child.is_none();
    if first {
        now.first_child = Some(when);
    }
    let Some(awaited) = &mut now.awaited else { return is_new };
    if object.metadata.name.starts_with(&awaited.prefix) && object.data.note == awaited.note && awaited.missing > 0 {
        awaited.missing -= 1;
        if awaited.missing == 0 {
            awaited.done = Some(when);
            return true;
        }
    }
    is_new
}
