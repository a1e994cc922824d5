//! Runs Helm on a cluster, without the user's own settings.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cluster::Cluster;
use crate::tools;

/// Helm, with files of its own.
pub struct Helm {
    program: PathBuf,
    home: PathBuf,
    kubeconfig: PathBuf,
}

impl Helm {
    /// Helm for a cluster, as the administrator.
    pub fn new(cluster: &Cluster) -> Result<Self> {
        let program = tools::helm(&tools::stderr)?;
        Ok(Self { program, home: cluster.dir().join("helm"), kubeconfig: cluster.kubeconfig().to_owned() })
    }

    /// Runs Helm, and returns its output.
    ///
    /// # Errors
    /// If Helm fails, with all its output.
    pub fn run(&self, args: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.args(args).env("KUBECONFIG", &self.kubeconfig);
        for (variable, folder) in
            [("HELM_CACHE_HOME", "cache"), ("HELM_CONFIG_HOME", "config"), ("HELM_DATA_HOME", "data")]
        {
            command.env(variable, self.home.join(folder));
        }
        let output = command.output().with_context(|| format!("cannot start {}", self.program.display()))?;
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            bail!("helm {}: {}\n{stdout}{stderr}", args.join(" "), output.status);
        }
        Ok(stdout)
    }
}
