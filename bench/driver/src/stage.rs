//! A new cluster for each contestant: only the API server and etcd, with the same objects for all contestants.

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

/// The namespace of parents and children.
pub const NAMESPACE: &str = "bench";
/// The API path of the parents.
pub const LOADS: &str = "/apis/bench.example/v1/namespaces/bench/loads";
/// The API path of the children.
pub const CONFIG_MAPS: &str = "/api/v1/namespaces/bench/configmaps";
/// The namespace of the host.
pub const SYSTEM_NAMESPACE: &str = "windlass-system";
/// The host's user in the audit log.
pub const WINDLASS_USER: &str = "system:serviceaccount:windlass-system:windlass";

const TIMEOUT: Duration = Duration::from_mins(1);
/// The number of the driver's own requests that run at once.
pub const PARALLEL: usize = 16;

/// The permissions of the peers and of the raw client: those that an operator of this kind needs.
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

/// The permission to write the status of the parents. `windlass push` leaves it to the cluster admin if a kind existed
/// before its plugin, as here (docs/permissions.md).
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

/// A cluster with the CRDs of Windlass and of the benchmark.
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
    /// Starts it, with the kind of the measured operator. The audit log is on only with `audit`, because it slows down
    /// every request.
    pub async fn new(paths: &Paths, audit: bool) -> anyhow::Result<Self> {
        let stage = Self::without_loads(paths, audit).await?;
        stage.define([paths.load.as_path()])?;
        stage.served().await?;
        Ok(stage)
    }

    /// Starts it without the kind of the measured operator.
    pub async fn without_loads(paths: &Paths, audit: bool) -> anyhow::Result<Self> {
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
        stage.windlass = stage.cluster.service_account_kubeconfig(SYSTEM_NAMESPACE, "windlass")?;
        stage.peer = stage.cluster.service_account_kubeconfig(NAMESPACE, "peer")?;
        Ok(stage)
    }

    /// Installs the CRDs of these components.
    pub fn define<'a>(&self, components: impl IntoIterator<Item = &'a Path>) -> anyhow::Result<()> {
        let definition = |component: &Path| self.windlass_says(&["crd", &component.to_string_lossy()]);
        let definitions = components.into_iter().map(definition).collect::<anyhow::Result<Vec<_>>>()?;
        self.cluster.apply(&definitions.join("\n---\n"))?;
        let established = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"];
        self.cluster.kubectl(&established).map(drop)
    }

    /// Waits until the new kind can be listed: its storage is set up a moment after its CRD is established.
    async fn served(&self) -> anyhow::Result<()> {
        let begun = std::time::Instant::now();
        while let Err(error) = self.admin.get(LOADS).await {
            if begun.elapsed() > TIMEOUT {
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

    /// Pushes components as Plugins with their permissions. The controller-manager aggregates the permissions.
    pub fn push(&self, plugins: &[(&str, &Path)]) -> anyhow::Result<()> {
        for (name, component) in plugins {
            let component = component.to_string_lossy();
            let args = ["push", &component, "--name", name, "--create-rbac", "--grant-all-declared", "--no-wait"];
            self.windlass_says(&args)?;
        }
        until("the host's permissions", TIMEOUT, || {
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

    /// Starts or stops the controllers, so that only the API server and etcd run: the controllers' work is not
    /// measured.
    pub fn controllers(&self, run: bool) -> anyhow::Result<()> {
        const MANAGER: &str = "kube-controller-manager";
        if run { self.cluster.start_component(MANAGER) } else { self.cluster.stop_component(MANAGER) }
    }

    /// Waits until a component of the Plugin is live.
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
            if begun.elapsed() > TIMEOUT {
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

    /// Changes the note of the parents `load-0` to `load-(PARENTS - 1)`.
    pub async fn note_all(&self, parents: usize, note: &str) -> anyhow::Result<()> {
        let changes = (0..parents).map(|number| async move { self.note(&format!("load-{number}"), note).await });
        futures::stream::iter(changes).buffer_unordered(PARALLEL).try_for_each(|()| async { Ok(()) }).await
    }

    /// The number of children that show a note.
    pub async fn noted(&self, note: &str) -> anyhow::Result<usize> {
        let mut count = 0;
        let is_noted = |item: &Value| item.pointer("/data/note").and_then(Value::as_str) == Some(note);
        self.visit(CONFIG_MAPS, |item| count += usize::from(is_noted(item))).await?;
        Ok(count)
    }

    /// The size of all parents and children as a cache would store them: without `managedFields`, in bytes.
    pub async fn trimmed_bytes(&self) -> anyhow::Result<u64> {
        let mut bytes = 0;
        for path in [LOADS, CONFIG_MAPS] {
            let measure = |item: &Value| {
                let mut item = item.clone();
                if let Some(meta) = item.pointer_mut("/metadata").and_then(Value::as_object_mut) {
                    meta.remove("managedFields");
                }
                bytes += item.to_string().len() as u64;
            };
            self.visit(path, measure).await?;
        }
        Ok(bytes)
    }

    /// Lists all objects of a path, page by page.
    pub async fn visit(&self, path: &str, mut visit: impl FnMut(&Value)) -> anyhow::Result<()> {
        let mut token = String::new();
        loop {
            let page = self.admin.get(&format!("{path}?limit=500&continue={token}")).await?;
            page.get("items").and_then(Value::as_array).into_iter().flatten().for_each(&mut visit);
            match page.pointer("/metadata/continue").and_then(Value::as_str).filter(|token| !token.is_empty()) {
                Some(next) => next.clone_into(&mut token),
                None => return Ok(()),
            }
        }
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
