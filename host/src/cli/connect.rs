//! How commands reach the API server.

use std::path::PathBuf;

use anyhow::Context as _;
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::util::AndThenLayer;

use crate::retry_after::into_status;

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
        let config = match &self.kubeconfig {
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
        connect(config).context("the client cannot be set up")
    }
}

/// A client that sends each request once, and hands on how long the API server wants to be left alone.
fn connect(mut config: Config) -> Result<Client, kube::Error> {
    // It would repeat POSTs, and hold a worker for minutes; every caller here has a backoff of its own.
    config.default_retry = false;
    Ok(ClientBuilder::try_from(config)?.with_layer(&AndThenLayer::new(into_status)).build())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::http::{Request, StatusCode, header};

    use super::*;

    #[tokio::test]
    async fn r13_a_post_that_is_refused_for_load_is_sent_once() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let busy = axum::Router::new().fallback(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            async { (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "3")], "later") }
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let serving = tokio::spawn(async { axum::serve(listener, busy).await });

        let client = connect(Config::new(format!("http://{address}").parse().expect("a URL"))).expect("a client");
        let request = Request::post("/api/v1/namespaces/default/pods").body(Vec::new()).expect("a request");
        let error = client.request_text(request).await.expect_err("refused");
        let kube::Error::Api(status) = error else { panic!("{error}") };
        assert_eq!((status.code, status.details.map(|details| details.retry_after_seconds)), (429, Some(3)));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        serving.abort();
    }
}
