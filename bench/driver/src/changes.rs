//! What it costs to change a child, by what the API server has added to it: requests and CPU time (`--only changes`).

use std::path::PathBuf;

use anyhow::Context;
use futures::{StreamExt, TryStreamExt};
use http::Method;
use serde_json::{Value, json};
use windlass_testbed::AuditEvent;

use crate::contestant::{Contestant, Task};
use crate::http::{JSON, MERGE};
use crate::process::{Component, Process, as_float};
use crate::scale::quiet;
use crate::settings::{Amounts, Paths};
use crate::stage::{NAMESPACE, PARALLEL, Stage, WINDLASS_USER};

/// Parents, all of which are changed at once, with one of their children each.
struct Work {
    plugin: &'static str,
    parents: &'static str,
    parent: fn(tag: &str) -> Value,
    children: &'static str,
    /// Where a child shows the tag of its parent, and before what it stands there.
    shown: (&'static str, &'static str),
    /// The changes, one after the other: what the API server has added to the children, and the new tag. Those without a text are not
    /// measured.
    changes: &'static [(Option<&'static str>, &'static str)],
}

const WORKS: [Work; 2] = [
    Work {
        plugin: "load",
        parents: "loads",
        parent: |tag| {
            json!({
                "apiVersion": "bench.example/v1", "kind": "Load", "spec": {"children": 1, "payload": 256, "note": tag},
            })
        },
        children: "/api/v1/namespaces/bench/configmaps",
        shown: ("/data/note", ""),
        changes: &[(Some("a ConfigMap: no field"), "second")],
    },
    Work {
        plugin: "application",
        parents: "applications",
        parent: |tag| {
            let account = if tag == "account" { Value::from("application") } else { Value::Null };
            json!({
                "apiVersion": "apps.example.com/v1alpha1", "kind": "Application",
                "spec": {"image": format!("{IMAGE}{tag}"), "security": {"serviceAccount": account}},
            })
        },
        children: "/apis/apps/v1/namespaces/bench/deployments",
        shown: ("/spec/template/spec/containers/0/image", IMAGE),
        changes: &[
            (Some("a Deployment, its first change"), "second"),
            (Some("a Deployment: defaults that stay"), "third"),
            // The default of imagePullPolicy follows from the tag.
            (Some("a Deployment: a default of another value"), "latest"),
            // `serviceAccount` is a copy of `serviceAccountName`.
            (None, "account"),
            (Some("a Deployment: a default that goes"), "fourth"),
        ],
    },
];
const IMAGE: &str = "registry.example/application:";

/// What one change costs, for each child.
#[derive(Debug, Clone)]
pub struct Change {
    /// The child, and what the API server has added to it.
    pub what: &'static str,
    /// The host's reads of children.
    pub reads: f64,
    /// The host's dry runs with children.
    pub dry_runs: f64,
    /// The host's writes of children.
    pub writes: f64,
    /// The host's CPU time, in microseconds.
    pub host: f64,
    /// The API server's CPU time, in microseconds: the driver's change of the parent and its audit log are a part of it.
    pub server: f64,
}

/// Measures each work on a cluster of its own.
pub async fn measure(paths: &Paths, amounts: &Amounts, say: &dyn Fn(&str)) -> anyhow::Result<Vec<Change>> {
    let mut figures = Vec::new();
    for work in &WORKS {
        say(&format!("changes: {} parents of {}", amounts.parents, work.plugin));
        let stage = Stage::new(paths, true).await?;
        let components = std::iter::once(&paths.load).chain(&paths.shipped);
        let named = |path: &&PathBuf| path.file_stem().is_some_and(|name| name == work.plugin);
        let component = components.into_iter().find(named).with_context(|| format!("no component {}", work.plugin))?;
        stage.push(&[(work.plugin, component)])?;
        stage.controllers(false)?;
        let host = Contestant::Windlass.start(&stage, paths, Task::Create)?;
        stage.wait_ready(work.plugin).await?;
        work.tell(&stage, amounts.parents, "first", &Method::POST).await?;
        quiet(&host).await?;
        work.ensure_shown(&stage, amounts.parents, "first").await?;
        for (what, tag) in work.changes {
            let change = work.change(&stage, &host, amounts.parents, what.unwrap_or_default(), tag).await?;
            figures.extend(what.is_some().then_some(change));
        }
        host.stop()?;
    }
    Ok(figures)
}

impl Work {
    /// Creates or changes all parents, with this tag.
    async fn tell(&self, stage: &Stage, parents: usize, tag: &str, method: &Method) -> anyhow::Result<()> {
        let requests = (0..parents).map(|number| async move {
            let mut parent = (self.parent)(tag);
            let name = format!("{}-{number}", self.plugin);
            let api = parent.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
            let mut path = format!("/apis/{api}/namespaces/{NAMESPACE}/{}", self.parents);
            let kind = if method == Method::POST {
                JSON
            } else {
                path = format!("{path}/{name}");
                MERGE
            };
            if let Some(parent) = parent.as_object_mut() {
                parent.insert("metadata".to_owned(), json!({"name": name, "namespace": NAMESPACE}));
            }
            stage.admin.write(method.clone(), &path, kind, parent.to_string().into()).await
        });
        futures::stream::iter(requests).buffer_unordered(PARALLEL).try_for_each(|_| async { Ok(()) }).await
    }

    /// Changes all parents at once, and waits until the host is idle.
    async fn change(
        &self,
        stage: &Stage,
        host: &Process,
        parents: usize,
        what: &'static str,
        tag: &str,
    ) -> anyhow::Result<Change> {
        let audit = stage.cluster().audit()?;
        let server = Component::find("kube-apiserver", stage.dir())?;
        let (mark, host_before, server_before) = (audit.mark()?, host.cpu()?, server.cpu()?);
        self.tell(stage, parents, tag, &Method::PATCH).await?;
        quiet(host).await?;
        let (host_after, server_after) = (host.cpu()?, server.cpu()?);
        let requests = audit.since(mark)?.by_user(WINDLASS_USER);
        self.ensure_shown(stage, parents, tag).await?;
        let count = |is_meant: fn(&AuditEvent) -> bool| {
            let about = |event: &&AuditEvent| event.uri.starts_with(self.children) && event.verb != "watch";
            as_float(requests.iter().filter(about).filter(|event| is_meant(event)).count() as u64)
                / as_float(parents as u64)
        };
        let each = |seconds: f64| seconds / as_float(parents as u64) * 1e6;
        Ok(Change {
            what,
            reads: count(|event| !event.asks_to_write() && event.query("dryRun").is_none()),
            dry_runs: count(|event| event.query("dryRun").is_some()),
            writes: count(AuditEvent::asks_to_write),
            host: each(host_after - host_before),
            server: each(server_after - server_before),
        })
    }

    /// Fails unless each child shows this tag.
    async fn ensure_shown(&self, stage: &Stage, parents: usize, tag: &str) -> anyhow::Result<()> {
        let (pointer, prefix) = self.shown;
        let mut shown = 0;
        let is_shown = |item: &Value| {
            item.pointer(pointer).and_then(Value::as_str).and_then(|text| text.strip_prefix(prefix)) == Some(tag)
        };
        stage.visit(self.children, |item| shown += usize::from(is_shown(item))).await?;
        anyhow::ensure!(shown == parents, "{shown} of {parents} children of {} show {tag}", self.plugin);
        Ok(())
    }
}
