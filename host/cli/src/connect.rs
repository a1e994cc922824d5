//! Flags that name namespaces, and what a refused request says.

use windlass_engine::command::cluster::ClusterArgs;

/// The message of the API server, without the rest of the response.
// Takes the error by value for `map_err`.
pub fn plain(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => anyhow::anyhow!("{}", status.message),
        other => other.into(),
    }
}

/// Selects the namespace of the objects that a command names.
#[derive(Debug, Clone, clap::Args)]
pub struct NamespaceArgs {
    /// Namespace of the objects that the command names; default: that of the kubeconfig's context
    #[arg(short, long)]
    namespace: Option<String>,
}

impl NamespaceArgs {
    /// The namespace.
    ///
    /// # Errors
    /// If no flag names it, and there is no usable configuration.
    pub async fn find(&self, cluster: &ClusterArgs) -> anyhow::Result<String> {
        match &self.namespace {
            Some(namespace) => Ok(namespace.clone()),
            None => cluster.default_namespace().await,
        }
    }
}

/// Names the host of a command that is about other objects.
#[derive(Debug, Clone, clap::Args)]
pub struct HostNamespaceArgs {
    /// Namespace of the host
    #[arg(long, env = "WINDLASS_NAMESPACE", default_value = "windlass-system", value_name = "NAMESPACE")]
    pub host_namespace: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn namespace_is_that_of_the_flag_or_else_of_the_context() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("config");
        let context = |name: &str, namespace: Option<&str>| serde_json::json!({"name": name, "context": {"cluster": "a", "user": "a", "namespace": namespace}});
        let kubeconfig = serde_json::json!({
            "current-context": "a", "users": [],
            "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}],
            "contexts": [context("a", Some("team-a")), context("b", Some("team-b")), context("c", None)],
        });
        std::fs::write(&file, kubeconfig.to_string()).expect("written");
        let find = async |context: Option<&str>, flag: Option<&str>| {
            let cluster = ClusterArgs {
                kubeconfig: Some(file.clone()),
                context: context.map(str::to_owned),
                ..ClusterArgs::default()
            };
            NamespaceArgs { namespace: flag.map(str::to_owned) }.find(&cluster).await.expect("a namespace")
        };
        assert_eq!(find(None, None).await, "team-a");
        assert_eq!(find(Some("b"), None).await, "team-b");
        assert_eq!(find(Some("c"), None).await, "default");
        assert_eq!(find(Some("b"), Some("mine")).await, "mine");
    }
}
