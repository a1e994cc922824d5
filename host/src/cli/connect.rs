//! How commands reach the API server.

use std::path::PathBuf;

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// What the API server said, without the whole answer around it.
// By value, so that it stands in `map_err`.
pub fn plain(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => anyhow::anyhow!("{}", status.message),
        other => other.into(),
    }
}

/// Which cluster.
#[derive(Debug, Clone, clap::Args)]
pub struct ClusterArgs {
    /// Kubeconfig file; default: $KUBECONFIG, ~/.kube/config, or the Pod's ServiceAccount
    #[arg(long, env = "WINDLASS_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,
}

impl ClusterArgs {
    /// A client for that cluster.
    ///
    /// # Errors
    /// If there is no usable configuration.
    pub async fn client(&self) -> anyhow::Result<Client> {
        let mut config = match &self.kubeconfig {
            Some(file) => {
                let kubeconfig = Kubeconfig::read_from(file)
                    .with_context(|| format!("the kubeconfig {} cannot be used", file.display()))?;
                Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                    .await
                    .with_context(|| format!("the kubeconfig {} cannot be used", file.display()))?
            }
            None => Config::infer()
                .await
                .context("no cluster: set --kubeconfig or $KUBECONFIG, or run in a Pod with a ServiceAccount")?,
        };
        // It would repeat POSTs, and hold a worker for minutes; every caller here has a backoff of its own.
        config.default_retry = false;
        Client::try_from(config).context("the client cannot be set up")
    }
}
