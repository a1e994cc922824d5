//! The steps. Each waits, with a timeout, until the state in the API server is what the step claims.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use windlass_testbed::{Cluster, until};

use super::host::Host;
use super::stage::Stage;
use super::{Built, trace};

/// The namespace of the demo's own objects.
const NAMESPACE: &str = "demo";
/// Long enough for a busy machine with two cores, and for a real image.
const PATIENCE: Duration = Duration::from_mins(3);

/// A running demo.
pub(super) struct Show<'a> {
    stage: &'a Stage,
    built: &'a Built,
    cluster: &'a Cluster,
    /// Whether the cluster is the user's: then the demo removes what it created.
    borrowed: bool,
    /// Whether the objects in a borrowed cluster may be removed: only after the demo has checked that none existed.
    ours: bool,
    interrupted: &'a AtomicBool,
    host: Option<Host>,
}

impl<'a> Show<'a> {
    /// A demo before its first step.
    pub(super) fn new(
        stage: &'a Stage,
        built: &'a Built,
        cluster: &'a Cluster,
        borrowed: bool,
        interrupted: &'a AtomicBool,
    ) -> Self {
        Self { stage, built, cluster, borrowed, ours: false, interrupted, host: None }
    }

    /// Runs all steps.
    pub(super) fn all(&mut self) -> anyhow::Result<()> {
        self.control_plane()?;
        self.install()?;
        self.start_host()?;
        self.push()?;
        self.create()?;
        self.scale()?;
        self.heal()?;
        self.swap()?;
        self.trace()
    }

    fn control_plane(&mut self) -> anyhow::Result<()> {
        if self.borrowed {
            self.nothing_of_ours_is_there()?;
        }
        self.ours = true;
        self.kubectl(&["get", "nodes"])?;
        self.stage.note("in a second terminal:");
        self.stage.output(&format!("export KUBECONFIG={}", self.cluster.kubeconfig().display()));
        if let (false, Some(folder)) = (self.borrowed, self.cluster.kubectl_path().parent()) {
            self.stage.output(&format!("export PATH=\"$PATH:{}\"  # has a kubectl", folder.display()));
        }
        Ok(())
    }

    /// Checks that the cluster has no Windlass and no such namespace, which the demo would overwrite and then remove.
    fn nothing_of_ours_is_there(&self) -> anyhow::Result<()> {
        let objects = [
            ("customresourcedefinition", "plugins.windlass.dev"),
            ("customresourcedefinition", "echoes.my-operator.dev"),
            ("clusterrole", "windlass"),
            ("namespace", "windlass-system"),
            ("namespace", NAMESPACE),
        ];
        for (kind, name) in objects {
            let found = self.cluster.kubectl(&["get", kind, name, "--ignore-not-found", "--output=name"])?;
            ensure!(
                found.trim().is_empty(),
                "the cluster already has a {kind} {name}, and the demo removes at its end what it creates: use another \
                 cluster, or remove it first"
            );
        }
        Ok(())
    }

    fn install(&mut self) -> anyhow::Result<()> {
        self.stage.step("Windlass' CRDs and permissions");
        let folder = "manifests/kustomize/cluster";
        self.kubectl(&[
            "apply",
            "--server-side",
            "-f",
            &format!("{folder}/crds.yaml"),
            "-f",
            &format!("{folder}/rbac.yaml"),
        ])?;
        self.kubectl(&["wait", "--for=condition=Established", "crd/plugins.windlass.dev", "--timeout=60s"])?;
        Ok(())
    }

    fn start_host(&mut self) -> anyhow::Result<()> {
        self.stage.step("The host, as its own ServiceAccount");
        self.stage.command("kubectl create token windlass --namespace windlass-system");
        let kubeconfig = self.cluster.service_account_kubeconfig("windlass-system", "windlass")?;
        self.stage.note("the token is in a kubeconfig of its own: the host has no permissions but those above");
        self.stage.command(&format!("windlass run --log-traces --kubeconfig {} &", kubeconfig.display()));
        let host = Host::start(&self.built.windlass, &kubeconfig, self.cluster.dir())?;
        let id = host.id();
        self.host = Some(host);
        self.wait(&format!("the host is ready (process {id})"), |show| Ok(show.host()?.ready()?.then_some(())))
    }

    fn push(&mut self) -> anyhow::Result<()> {
        self.stage.step("An operator, delivered as a .wasm file in a ConfigMap");
        let arguments = ["push", "target/guests/echo.wasm", "--name", "echo", "--create-rbac"];
        self.stage.command(&format!("windlass {}", arguments.join(" ")));
        let mut push = Command::new(&self.built.windlass)
            .args(arguments)
            .env("WINDLASS_KUBECONFIG", self.cluster.kubeconfig())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        // push waits for the host; the demo must not wait with it for a host that has ended.
        if let Err(error) = self.until("windlass push is done", |_| Ok(push.try_wait()?)) {
            let _ = push.kill();
            let _ = push.wait();
            return Err(error);
        }
        let output = push.wait_with_output()?;
        self.stage.output(&String::from_utf8_lossy(&output.stdout));
        if !output.status.success() {
            bail!("windlass push: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let digest = self.built.echo.digest.clone();
        self.wait("Plugin echo is Ready", |show| show.plugin_runs(&digest))?;
        self.kubectl(&["get", "plugins"]).map(drop)
    }

    fn create(&mut self) -> anyhow::Result<()> {
        self.stage.step("An Echo with 3 replicas");
        self.kubectl(&["create", "namespace", NAMESPACE])?;
        // Pods cannot be created before the controller manager has created this.
        let account = ["get", "serviceaccount", "default", "-n", NAMESPACE, "--output=name"];
        self.until("the namespace's ServiceAccount", |show| show.cluster.kubectl(&account).map(Some))?;
        self.kubectl(&["apply", "-n", NAMESPACE, "-f", "manifests/samples/echo.yaml"])?;
        self.wait("3 Pods are Ready, and so is the Echo", |show| show.settled(3))?;
        self.kubectl(&["get", "echoes,pods", "-n", NAMESPACE]).map(drop)
    }

    fn scale(&mut self) -> anyhow::Result<()> {
        self.stage.step("Scale to 1");
        let patch = r#"{"spec":{"replicas":1}}"#;
        self.kubectl(&["patch", "echo", "hello", "-n", NAMESPACE, "--type=merge", "-p", patch])?;
        self.wait("1 Pod is left", |show| show.settled(1))?;
        self.kubectl(&["get", "echoes,pods", "-n", NAMESPACE]).map(drop)
    }

    fn heal(&mut self) -> anyhow::Result<()> {
        self.stage.step("A Pod that is deleted by hand is recreated");
        let uid = self.only_uid()?.context("there is no Pod to delete")?;
        self.kubectl(&["delete", "pod", "hello-0", "-n", NAMESPACE])?;
        self.wait("another hello-0 is Ready", |show| {
            let back = show.settled(1)?.is_some() && show.only_uid()?.is_some_and(|now| now != uid);
            Ok(back.then_some(()))
        })?;
        self.kubectl(&["get", "pods", "-n", NAMESPACE]).map(drop)
    }

    fn swap(&mut self) -> anyhow::Result<()> {
        self.stage.step("A new component, delivered with kubectl alone");
        let uid = self.only_uid()?.context("there is no Pod to change")?;
        let process = self.host()?.id();
        let file = "--from-file=plugin.wasm=target/guests/echo-v2.wasm";
        let create = ["create", "configmap", "echo", "-n", "windlass-system", file, "--dry-run=client", "-o", "yaml"];
        self.stage.command(&format!("kubectl {} | kubectl replace -f -", create.join(" ")));
        let map = self.cluster.kubectl(&create)?;
        self.stage.output(&self.cluster.kubectl_with_input(&["replace", "-f", "-"], &map)?);
        let digest = self.built.echo_v2.digest.clone();
        self.wait("the new digest is live", |show| show.plugin_runs(&digest))?;
        self.wait("the Pod has the new component's label", |show| {
            let pods = show.pods()?;
            let new = |pod: &Value| text(pod, "/metadata/labels/logic") == "v2";
            Ok((!pods.is_empty() && pods.iter().all(new)).then_some(()))
        })?;
        self.kubectl(&["get", "plugins"])?;
        self.kubectl(&["get", "pods", "-n", NAMESPACE, "--show-labels"])?;
        ensure!(
            self.only_uid()? == Some(uid),
            "the Pod was recreated: the new component should only have changed its label"
        );
        ensure!(self.host_lives() && self.host()?.id() == process, "the host was restarted");
        self.stage.note(&format!("the same Pod, and the host is still process {process}"));
        Ok(())
    }

    fn trace(&mut self) -> anyhow::Result<()> {
        self.stage.step("The trace of the reconcile that created the Pods");
        let tree = self.until("a reconcile's trace in the host's log", |show| {
            Ok(trace::of_a_write(&show.host()?.log(), "create"))
        })?;
        self.stage.output(&tree);
        self.stage
            .note("if OTEL_EXPORTER_OTLP_ENDPOINT is set, the host sends the same spans to an OpenTelemetry collector");
        Ok(())
    }

    /// Stops the host, and removes what the demo created in a borrowed cluster. Tries everything, and returns the first
    /// error.
    pub(super) fn clean_up(&mut self) -> anyhow::Result<()> {
        let removed = if self.borrowed && self.ours { self.remove() } else { Ok(()) };
        let stopped = self.host.as_mut().map_or(Ok(()), Host::stop);
        if stopped.is_ok() && self.host.take().is_some() {
            self.stage.note("the host ended with success after SIGTERM");
        }
        removed.and(stopped)
    }

    fn remove(&self) -> anyhow::Result<()> {
        // In this order: parents are deleted while the host still runs, and permissions last.
        let deletions: [&[&str]; 6] = [
            &["namespace", NAMESPACE],
            &["customresourcedefinition", "echoes.my-operator.dev", "plugins.windlass.dev"],
            &["clusterrolebinding", "windlass", "windlass-plugin-echo:account"],
            &["clusterrole", "windlass", "windlass-host", "windlass-plugins-view", "windlass-plugin-echo"],
            &["clusterrole", "windlass-plugin-echo:account", "windlass-plugin-echo:view", "windlass-plugin-echo:edit"],
            &["namespace", "windlass-system"],
        ];
        let mut result = Ok(());
        for deletion in deletions {
            let arguments = [&["delete", "--ignore-not-found", "--timeout=120s"], deletion].concat();
            let deleted = self.kubectl(&arguments).map(drop);
            result = result.and(deleted);
        }
        result
    }

    /// The end of the host's log, for a user who must find the cause of a failure.
    pub(super) fn host_log(&self, lines: usize) -> String {
        let log = self.host.as_ref().map(Host::log).unwrap_or_default();
        let all: Vec<&str> = log.lines().collect();
        all.get(all.len().saturating_sub(lines)..).unwrap_or_default().join("\n")
    }

    /// Whether the host still runs.
    pub(super) fn host_lives(&mut self) -> bool {
        self.host.as_mut().is_some_and(|host| matches!(host.ended(), Ok(None)))
    }

    fn host(&self) -> anyhow::Result<&Host> {
        self.host.as_ref().context("the host does not run")
    }

    /// Runs a kubectl command; shows it and its output.
    fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let quoted: Vec<_> = arguments.iter().map(|argument| quoted(argument)).collect();
        self.stage.command(&format!("kubectl {}", quoted.join(" ")));
        let output = self.cluster.kubectl(arguments)?;
        self.stage.output(&output);
        Ok(output)
    }

    /// Waits for what a step claims, and prints that it was observed.
    fn wait(&mut self, what: &str, look: impl FnMut(&Self) -> anyhow::Result<Option<()>>) -> anyhow::Result<()> {
        let begun = Instant::now();
        self.until(what, look)?;
        self.stage.seen(what, begun);
        Ok(())
    }

    /// Waits, but stops after a Ctrl-C or when the host ends.
    fn until<T>(&mut self, what: &str, mut look: impl FnMut(&Self) -> anyhow::Result<Option<T>>) -> anyhow::Result<T> {
        let stage = self.stage;
        stage.during(&format!("waiting until {what}"), || {
            until(what, PATIENCE, || {
                if self.interrupted.load(Ordering::Relaxed) {
                    return Ok(Some(Err(anyhow::anyhow!("interrupted"))));
                }
                if let Some(status) = self.host.as_mut().map(Host::ended).transpose()?.flatten() {
                    return Ok(Some(Err(anyhow::anyhow!("the host ended with {status}"))));
                }
                Ok(look(self)?.map(Ok))
            })
        })?
    }

    /// Whether the Plugin is Ready with this component.
    fn plugin_runs(&self, digest: &str) -> anyhow::Result<Option<()>> {
        let plugin = self.get(&["plugin", "echo"])?;
        let live = text(&plugin, "/status/activeDigest") == digest && is_true(&plugin, "Ready");
        Ok(live.then_some(()))
    }

    /// Whether the Echo is Ready with exactly this number of Pods, all of them Ready and none being deleted.
    fn settled(&self, replicas: usize) -> anyhow::Result<Option<()>> {
        let pods = self.pods()?;
        let good = |pod: &Value| is_true(pod, "Ready") && pod.pointer("/metadata/deletionTimestamp").is_none();
        if pods.len() != replicas || !pods.iter().all(good) {
            return Ok(None);
        }
        let echo = self.get(&["echo", "hello", "-n", NAMESPACE])?;
        let number = |pointer: &str| echo.pointer(pointer).and_then(Value::as_u64);
        let settled = is_true(&echo, "Ready")
            && number("/status/observedGeneration") == number("/metadata/generation")
            && number("/status/currentReplicas") == u64::try_from(replicas).ok();
        Ok(settled.then_some(()))
    }

    fn only_uid(&self) -> anyhow::Result<Option<String>> {
        let pods = self.pods()?;
        Ok(match pods.as_slice() {
            [pod] => Some(text(pod, "/metadata/uid").to_owned()),
            _ => None,
        })
    }

    fn pods(&self) -> anyhow::Result<Vec<Value>> {
        let pods = self.get(&["pods", "-n", NAMESPACE])?;
        Ok(pods.get("items").and_then(Value::as_array).cloned().unwrap_or_default())
    }

    fn get(&self, what: &[&str]) -> anyhow::Result<Value> {
        let output = self.cluster.kubectl(&[&["get", "--output=json"], what].concat())?;
        serde_json::from_str(&output).context("the output of kubectl is not JSON")
    }
}

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn is_true(object: &Value, condition: &str) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|found| text(found, "/type") == condition && text(found, "/status") == "True")
}

/// The argument as a user would type it into a shell.
fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,".contains(c);
    if argument.chars().all(plain) { argument.to_owned() } else { format!("'{argument}'") }
}
