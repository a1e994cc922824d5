//! A fresh cluster for each contestant: the API server and etcd alone, with everything that all of them find there.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use futures::{StreamExt, TryStreamExt};
use http::Method;
use serde_json::{Value, json};
use windlass_testbed::{AuditLevel, Cluster, Options, until};

use crate::http::{Http, JSON, MERGE};
use crate::settings::Paths;

/// Where parents and children live.
pub const NAMESPACE: &str = "bench";
/// Parents, by path.
pub const LOADS: &str = "/apis/bench.example/v1/namespaces/bench/loads";
/// Children, by path.
pub const CONFIG_MAPS: &str = "/api/v1/namespaces/bench/configmaps";
/// The host, as the audit log names it.
pub const WINDLASS_USER: &str = "system:serviceaccount:windlass-system:windlass";

const SYSTEM_NAMESPACE: &str = "windlass-system";
const SOON: Duration = Duration::from_mins(1);
/// The driver's own requests that are under way at once.
pub const PARALLEL: usize = 16;

/// Rights of the peers and of the raw client: what an operator of this kind needs.
const PEER: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: bench}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: peer, namespace: bench}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: peer}
rules:
- {apiGroups: [bench.example], resources: [loads, loads/status], verbs: [get, list, watch, patch, update]}
- {apiGroups: [''], resources: [configmaps], verbs: [get, list, watch, create, patch, update, delete]}
- {apiGroups: [''], resources: [namespaces], verbs: [list, watch]}
- {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: peer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: peer}
subjects:
- {kind: ServiceAccount, name: peer, namespace: bench}
";

/// The right that `windlass push` leaves to the administrator where a kind was there before its plugin, as here: to write the
/// status of the parents (docs/permissions.md).
const STATUS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: plugins-status}
rules:
- {apiGroups: ['*'], resources: ['*/status'], verbs: [patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: plugins-status}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: plugins-status}
subjects:
- {kind: Group, name: 'system:serviceaccounts:windlass-system', apiGroup: rbac.authorization.k8s.io}
";

/// A cluster with Windlass' and the benchmark's definitions.
pub struct Stage {
    cluster: Cluster,
    paths: Paths,
    /// As the administrator.
    pub admin: Http,
    /// As Windlass.
    pub windlass: PathBuf,
    /// As a peer.
    pub peer: PathBuf,
}

impl Stage {
    /// Starts it. Only with `audit` is there an audit log, which every request pays for.
    pub async fn new(paths: &Paths, audit: bool) -> anyhow::Result<Self> {
        let audit = if audit { AuditLevel::Metadata } else { AuditLevel::None };
        let cluster = Cluster::start(Options { nodes: 0, audit, ..Options::default() })?;
        for component in ["kube-scheduler", "kwok"] {
            cluster.stop_component(component)?;
        }
        let mut stage = Self {
            admin: Http::new(cluster.kubeconfig()).await?,
            windlass: PathBuf::new(),
            peer: PathBuf::new(),
            paths: paths.clone(),
            cluster,
        };
        for args in [["crd"].as_slice(), &["generate", "rbac"]] {
            stage.cluster.apply(&stage.windlass_says(args)?)?;
        }
        stage.cluster.apply(PEER)?;
        stage.cluster.apply(STATUS)?;
        stage.define([paths.load.as_path()])?;
        stage.served().await?;
        stage.windlass = stage.cluster.service_account_kubeconfig(SYSTEM_NAMESPACE, "windlass")?;
        stage.peer = stage.cluster.service_account_kubeconfig(NAMESPACE, "peer")?;
        Ok(stage)
    }

    /// Defines the kinds of these components.
    pub fn define<'a>(&self, components: impl IntoIterator<Item = &'a Path>) -> anyhow::Result<()> {
        let definition = |component: &Path| self.windlass_says(&["crd", &component.to_string_lossy()]);
        let definitions = components.into_iter().map(definition).collect::<anyhow::Result<Vec<_>>>()?;
        self.cluster.apply(&definitions.join("\n---\n"))?;
        let established = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"];
        self.cluster.kubectl(&established).map(drop)
    }

    /// Waits until the new kind can be listed: its storage is set up a moment after its definition is established.
    async fn served(&self) -> anyhow::Result<()> {
        let begun = std::time::Instant::now();
        while let Err(error) = self.admin.get(LOADS).await {
            if begun.elapsed() > SOON {
                return Err(error.context("the new kind is not served"));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// The cluster's folder.
    pub fn dir(&self) -> &Path {
        self.cluster.dir()
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Pushes components as Plugins with their permissions. The permissions are added up by the controller-manager.
    pub fn push(&self, plugins: &[(&str, &Path)]) -> anyhow::Result<()> {
        for (name, component) in plugins {
            let component = component.to_string_lossy();
            self.windlass_says(&["push", &component, "--name", name, "--create-rbac", "--no-wait"])?;
        }
        until("the host's permissions", SOON, || {
            let roles = self.cluster.kubectl(&["get", "clusterrole", "-o", "json"])?;
            let roles: Value = serde_json::from_str(&roles)?;
            let roles = roles.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
            let granted = |name: &str| {
                roles
                    .iter()
                    .find(|role| role.pointer("/metadata/name").and_then(Value::as_str) == Some(name))
                    .and_then(|role| role.get("rules")?.as_array().cloned())
                    .unwrap_or_default()
            };
            let all = granted("windlass");
            let parts = plugins.iter().flat_map(|(name, _)| granted(&format!("windlass-plugin-{name}")));
            let mut parts = parts.peekable();
            Ok((parts.peek().is_some() && parts.all(|rule| all.contains(&rule))).then_some(()))
        })
    }

    /// Leaves the API server and etcd alone on the machine: what controllers do for a change is no part of the measure.
    pub fn controllers(&self, run: bool) -> anyhow::Result<()> {
        const MANAGER: &str = "kube-controller-manager";
        if run { self.cluster.start_component(MANAGER) } else { self.cluster.stop_component(MANAGER) }
    }

    /// Waits until the host says that a Plugin is live.
    pub async fn wait_ready(&self, plugin: &str) -> anyhow::Result<()> {
        let path = format!("/apis/windlass.dev/v1alpha1/plugins/{plugin}");
        let begun = std::time::Instant::now();
        loop {
            let found = self.admin.get(&path).await?;
            let conditions = found.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
            let ready = |condition: &&Value| condition.get("type").is_some_and(|kind| kind == "Available");
            if conditions.iter().find(ready).and_then(|ready| ready.get("status")?.as_str()) == Some("True") {
                return Ok(());
            }
            if begun.elapsed() > SOON {
                bail!("Plugin {plugin} did not become ready: {conditions:?}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Creates parents `load-FROM` to `load-(TO - 1)`.
    pub async fn create_loads(&self, from: usize, to: usize, children: usize, payload: usize) -> anyhow::Result<()> {
        let creates = (from..to).map(|number| {
            let body = json!({
                "apiVersion": "bench.example/v1", "kind": "Load",
                "metadata": {"name": format!("load-{number}"), "namespace": NAMESPACE},
                "spec": {"children": children, "payload": payload, "note": "first"},
            });
            async move { self.admin.write(Method::POST, LOADS, JSON, body.to_string().into()).await }
        });
        futures::stream::iter(creates).buffer_unordered(PARALLEL).try_for_each(|_| async { Ok(()) }).await
    }

    /// Changes a parent's note.
    pub async fn note(&self, parent: &str, note: &str) -> anyhow::Result<()> {
        let body = json!({"spec": {"note": note}}).to_string();
        self.admin.write(Method::PATCH, &format!("{LOADS}/{parent}"), MERGE, body.into()).await.map(drop)
    }

    /// Bytes of all parents and children as a cache would hold them: without `managedFields`.
    pub async fn trimmed_bytes(&self) -> anyhow::Result<u64> {
        let mut bytes = 0;
        for path in [LOADS, CONFIG_MAPS] {
            let mut token = String::new();
            loop {
                let page = self.admin.get(&format!("{path}?limit=500&continue={token}")).await?;
                for item in page.get("items").and_then(Value::as_array).into_iter().flatten() {
                    let mut item = item.clone();
                    if let Some(meta) = item.pointer_mut("/metadata").and_then(Value::as_object_mut) {
                        meta.remove("managedFields");
                    }
                    bytes += item.to_string().len() as u64;
                }
                match page.pointer("/metadata/continue").and_then(Value::as_str).filter(|token| !token.is_empty()) {
                    Some(next) => next.clone_into(&mut token),
                    None => break,
                }
            }
        }
        Ok(bytes)
    }

    fn windlass_says(&self, args: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new(&self.paths.windlass);
        command.args(args);
        command.env("WINDLASS_KUBECONFIG", self.cluster.kubeconfig()).env("WINDLASS_CACHE_DIR", &self.paths.cache);
        let output = command.output().context("windlass does not start")?;
        if !output.status.success() {
            bail!("windlass {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}
