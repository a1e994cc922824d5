//! The flags that select the cluster, and the user and limits of the requests to it.

use std::error::Error as _;
use std::path::PathBuf;

use anyhow::Context as _;
use http::Uri;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::cluster::client;
use crate::cluster::lease::GateFilter;
use crate::cluster::requests::RequestArgs;

/// Selects the cluster, and the user and limits of its requests: the flags of every command that connects to a cluster.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ClusterArgs {
    /// Kubeconfig file; default: $KUBECONFIG, ~/.kube/config, or the Pod's ServiceAccount
    #[arg(long, env = "WINDLASS_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; default: its current context
    #[arg(long, env = "WINDLASS_CONTEXT")]
    pub context: Option<String>,
    /// User to impersonate, as in kubectl
    #[arg(id = "as-user", long = "as", value_name = "USER")]
    pub user: Option<String>,
    /// Group to impersonate; may be repeated
    #[arg(id = "as-groups", long = "as-group", value_name = "GROUP", requires = "as-user")]
    pub groups: Vec<String>,
    /// What applies to each request.
    #[command(flatten)]
    pub requests: RequestArgs,
}

/// A cluster, as the kubeconfig describes it.
#[derive(Debug, Clone)]
pub struct Destination {
    /// Name of the context; none in a Pod.
    pub context: Option<String>,
    /// Address of the API server.
    pub server: Uri,
}

impl ClusterArgs {
    /// A client for that cluster.
    ///
    /// # Errors
    /// If there is no usable configuration.
    pub async fn client(&self) -> anyhow::Result<Client> {
        client::of_user(self.config().await?, self.requests)
    }

    /// A client for the host: see [`client::of_host`].
    ///
    /// # Errors
    /// As for [`client::of_host`], or if there is no usable configuration.
    pub async fn client_of_host(&self, gate: GateFilter) -> anyhow::Result<Client> {
        client::of_host(self.config().await?, self.requests, gate)
    }

    /// The namespace of the context.
    ///
    /// # Errors
    /// If there is no usable configuration.
    pub async fn default_namespace(&self) -> anyhow::Result<String> {
        Ok(self.config().await?.default_namespace)
    }

    /// The cluster that these flags select.
    ///
    /// # Errors
    /// If there is no usable configuration.
    pub async fn destination(&self) -> anyhow::Result<Destination> {
        let config = self.config().await?;
        let kubeconfig = match &self.kubeconfig {
            Some(file) => Kubeconfig::read_from(file),
            None => Kubeconfig::read(),
        };
        // Without a kubeconfig, the configuration is that of a Pod.
        let context = self.context.clone().or_else(|| kubeconfig.ok()?.current_context);
        Ok(Destination { context, server: config.cluster_url })
    }

    async fn config(&self) -> anyhow::Result<Config> {
        let mut config = self.config_of_context().await?;
        if self.user.is_some() {
            config.auth_info.impersonate.clone_from(&self.user);
            // As in kubectl, the groups of the kubeconfig stay if no flag names others.
            if !self.groups.is_empty() {
                config.auth_info.impersonate_groups = Some(self.groups.clone());
            }
        }
        Ok(config)
    }

    async fn config_of_context(&self) -> anyhow::Result<Config> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        match (&self.kubeconfig, &self.context) {
            (Some(file), _) => {
                let unusable = || format!("the kubeconfig {} cannot be used", file.display());
                let kubeconfig = Kubeconfig::read_from(file).with_context(unusable)?;
                Config::from_custom_kubeconfig(kubeconfig, &options).await.with_context(unusable)
            }
            // A context exists in a kubeconfig only, not for a Pod's ServiceAccount.
            (None, Some(context)) => Config::from_kubeconfig(&options)
                .await
                .with_context(|| format!("the context {context} of the kubeconfig cannot be used")),
            // The error also says why this is no Pod. Its source is the error of the kubeconfig, on which a user can act.
            (None, None) => Config::infer().await.map_err(|error| {
                let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
                anyhow::anyhow!(
                    "no cluster: set --kubeconfig or $KUBECONFIG, or run in a Pod with a ServiceAccount: {why}"
                )
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, Request};
    use clap::{Args as _, FromArgMatches as _};

    use super::*;

    #[tokio::test]
    async fn requests_impersonate_the_user_and_groups_of_the_flags_and_end_in_time() {
        let server = axum::Router::new().fallback(|headers: HeaderMap| async move {
            let of =
                |name: &str| headers.get_all(name).iter().map(|one| format!("{one:?}")).collect::<Vec<_>>().join(" ");
            let named = format!("{} {}", of("impersonate-user"), of("impersonate-group"));
            if named == " " {
                std::future::pending::<()>().await;
            }
            named
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let serving = tokio::spawn(async { axum::serve(listener, server).await });
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("config");
        let kubeconfig = serde_json::json!({
            "current-context": "a", "clusters": [{"name": "a", "cluster": {"server": url}}], "users": [],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        });
        std::fs::write(&file, kubeconfig.to_string()).expect("written");
        let respond = async |flags: &[&str]| {
            let file = file.to_string_lossy();
            let args = [&["", "--kubeconfig", &file][..], flags].concat();
            let args = ClusterArgs::augment_args(clap::Command::new("")).get_matches_from(args);
            let client = ClusterArgs::from_arg_matches(&args).expect("flags").client().await.expect("a client");
            let request = Request::get("/").body(Vec::new()).expect("a request");
            client.request_text(request).await.map_err(|error| format!("{:#}", anyhow::Error::from(error)))
        };
        let named = respond(&["--as", "ann", "--as-group=a", "--as-group=b"]).await;
        assert_eq!(named.as_deref(), Ok(r#""ann" "a" "b""#));
        let late = respond(&["--request-timeout=50ms"]).await.expect_err("no response");
        assert!(late.contains("--request-timeout"), "{late}");
        serving.abort();
    }
}
