//! The limit: sends the requests that an operator must send, and decides nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use futures::{StreamExt, TryStreamExt};
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::{APPLY, Http, JSON};
use crate::stage::{CONFIG_MAPS, LOADS, NAMESPACE};

const MANAGER: &str = "bench-raw";

/// The task.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// POST the children and apply the status of all existing parents
    Create(Args),
    /// POST one child of the first parent, under another name
    CreateOne(Args),
    /// Watch the parents, and apply children and status of those that change
    Follow(Args),
}

/// The connection.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The API server
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Parents at once
    #[arg(long)]
    workers: usize,
}

#[derive(Debug, Clone, Deserialize)]
struct Load {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Clone, Deserialize)]
struct Metadata {
    name: String,
    uid: String,
    generation: i64,
}

#[derive(Debug, Clone, Deserialize)]
struct Spec {
    children: usize,
    payload: usize,
    note: String,
}

#[derive(Deserialize)]
struct List {
    items: Vec<Load>,
    metadata: ListMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    resource_version: String,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: Value,
}

/// Runs the task.
pub async fn main(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Create(args) => create(&args.kubeconfig, args.workers).await?,
        Command::CreateOne(args) => create_one(&args.kubeconfig).await?,
        Command::Follow(args) => follow(&args.kubeconfig).await?,
    }
    // The driver measures the process, and then ends it.
    std::future::pending().await
}

async fn list(http: &Http) -> anyhow::Result<List> {
    // From the watch cache, as a reflector lists.
    let bytes = http.get_bytes(&format!("{LOADS}?resourceVersion=0")).await?;
    serde_json::from_slice(&bytes).context("the parents cannot be read")
}

async fn create(kubeconfig: &Path, workers: usize) -> anyhow::Result<()> {
    let http = Http::new(kubeconfig).await?;
    let http = &http;
    let loads = list(http).await?.items;
    let all = futures::stream::iter(loads).map(|load| async move {
        let children = (0..load.spec.children).map(|index| post(http, &load, &load.metadata.name, index));
        futures::future::try_join_all(children).await?;
        status(http, &load).await
    });
    all.buffer_unordered(workers).try_for_each(|()| async { Ok(()) }).await
}

async fn create_one(kubeconfig: &Path) -> anyhow::Result<()> {
    let http = Http::new(kubeconfig).await?;
    let load = list(&http).await?.items.into_iter().next().context("no parents")?;
    post(&http, &load, "raw", 0).await
}

async fn follow(kubeconfig: &Path) -> anyhow::Result<()> {
    let http = Http::new(kubeconfig).await?;
    let version = list(&http).await?.metadata.resource_version;
    let mut lines = http.watch(&format!("{LOADS}?watch=1&resourceVersion={version}")).await?;
    let mut done = std::collections::HashMap::new();
    while let Some(line) = lines.next().await? {
        let event: Event = serde_json::from_slice(&line)?;
        if event.kind != "MODIFIED" {
            bail!("an odd event: {}", event.kind);
        }
        let load: Load = serde_json::from_value(event.object)?;
        // A status that this client wrote is not a change.
        if done.insert(load.metadata.uid.clone(), load.metadata.generation) == Some(load.metadata.generation) {
            continue;
        }
        let (http, load) = (http.clone(), Arc::new(load));
        tokio::spawn(async move {
            let children = (0..load.spec.children).map(|index| apply(&http, &load, index));
            futures::future::try_join_all(children).await?;
            status(&http, &load).await
        });
    }
    bail!("the watch ended")
}

async fn post(http: &Http, load: &Load, name: &str, index: usize) -> anyhow::Result<()> {
    let path = format!("{CONFIG_MAPS}?fieldManager={MANAGER}");
    http.write(Method::POST, &path, JSON, child(load, name, index).to_string().into()).await.map(drop)
}

async fn apply(http: &Http, load: &Load, index: usize) -> anyhow::Result<()> {
    let name = &load.metadata.name;
    let path = format!("{CONFIG_MAPS}/{name}-{index}?fieldManager={MANAGER}&force=true");
    http.write(Method::PATCH, &path, APPLY, child(load, name, index).to_string().into()).await.map(drop)
}

async fn status(http: &Http, load: &Load) -> anyhow::Result<()> {
    let Metadata { name, uid, generation } = &load.metadata;
    let body = json!({
        "apiVersion": "bench.example/v1", "kind": "Load",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": uid},
        "status": {
            "wanted": load.spec.children,
            "observedGeneration": generation,
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "Applied", "message": "as wanted",
                "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        },
    });
    let path = format!("{LOADS}/{name}/status?fieldManager={MANAGER}&force=true");
    http.write(Method::PATCH, &path, APPLY, body.to_string().into()).await.map(drop)
}

fn child(load: &Load, name: &str, index: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": format!("{name}-{index}"), "namespace": NAMESPACE, "labels": {"app": "load"},
            "ownerReferences": [{
                "apiVersion": "bench.example/v1", "kind": "Load", "name": load.metadata.name, "uid": load.metadata.uid,
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "data": {"note": load.spec.note, "payload": "x".repeat(load.spec.payload)},
    })
}
