//! Runs kubectl on a cluster.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::cluster::Cluster;
use crate::control_plane::KUBECONFIG;
use crate::credentials::{self, Server};

impl Cluster {
    /// Runs kubectl as the administrator, and returns its output.
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.kubectl_as(&self.kubeconfig, args, "")
    }

    /// [`Cluster::kubectl`] with standard input, for `-f -`.
    pub fn kubectl_with_input(&self, args: &[&str], input: &str) -> Result<String> {
        self.kubectl_as(&self.kubeconfig, args, input)
    }

    /// Applies manifests (YAML or JSON) server-side as the administrator.
    pub fn apply(&self, manifests: &str) -> Result<String> {
        self.kubectl_with_input(&["apply", "--server-side", "-f", "-"], manifests)
    }

    /// [`Cluster::kubectl_with_input`] with another kubeconfig file.
    ///
    /// # Errors
    /// If kubectl fails, with all its output.
    pub fn kubectl_as(&self, kubeconfig: &Path, args: &[&str], input: &str) -> Result<String> {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(kubeconfig).arg("--cache-dir").arg(self.dir.join("kubectl-cache")).args(args);
        // The user's own kubectl preferences must not change the output.
        command.env("KUBECTL_KUBERC", "false").env_remove("KUBECONFIG");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {}", self.kubectl.display()))?;
        let stdin = child.stdin.take();
        // kubectl writes output while it still reads: if we wrote all input before reading, both could block for ever.
        let (written, output) = std::thread::scope(|scope| {
            let write = move || stdin.map_or(Ok(()), |mut stdin| stdin.write_all(input.as_bytes()));
            let writer = scope.spawn(write);
            let output = child.wait_with_output();
            (writer.join(), output)
        });
        let output = output.context("cannot wait for kubectl")?;
        if !output.status.success() {
            let said = [String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout)].concat();
            bail!("kubectl {}: {}", args.join(" "), said.trim());
        }
        if !matches!(written, Ok(Ok(()))) {
            bail!("kubectl {}: it read only a part of its input", args.join(" "));
        }
        String::from_utf8(output.stdout).context("kubectl printed what is no UTF-8")
    }

    /// A kubeconfig file for an existing `ServiceAccount`, with a token of the `TokenRequest` API that is valid for a
    /// day.
    pub fn service_account_kubeconfig(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        self.service_account_kubeconfig_of(namespace, name, &format!("{namespace}.{name}"))
    }

    /// [`Cluster::service_account_kubeconfig`] with a token of its own, in a file that begins with `client`.
    pub fn service_account_kubeconfig_of(&self, namespace: &str, name: &str, client: &str) -> Result<PathBuf> {
        let token = self.kubectl(&["create", "token", name, "--namespace", namespace, "--duration=24h"])?;
        let config = self.kubectl(&["config", "view", "--raw", "--minify", "--flatten", "--output=json"])?;
        let config: KubeConfig = serde_json::from_str(&config).context("cannot read the administrator's kubeconfig")?;
        let cluster =
            config.clusters.into_iter().next().context("the administrator's kubeconfig names no cluster")?.cluster;
        let ca_pem = STANDARD.decode(&cluster.ca).context("the administrator's kubeconfig has an unreadable CA")?;
        let server = Server { url: &cluster.server, ca_pem: &ca_pem };
        let path = self.dir.join(format!("{client}.{KUBECONFIG}"));
        credentials::kubeconfig(&path, &server, name, token.trim())?;
        Ok(path)
    }
}

#[derive(Deserialize)]
struct KubeConfig {
    clusters: Vec<NamedCluster>,
}

#[derive(Deserialize)]
struct NamedCluster {
    cluster: ClusterEntry,
}

#[derive(Deserialize)]
struct ClusterEntry {
    server: String,
    #[serde(rename = "certificate-authority-data", default)]
    ca: String,
}
