//! The cluster of `windlass dev`: which cluster may be used, what must not be there, and what is prepared on it.

use std::fmt::Debug;
use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, ObjectMeta, Patch, PatchParams};
use kube::runtime::wait::await_condition;
use kube::runtime::wait::conditions::{is_crd_established, is_deleted};
use kube::{Api, Client, CustomResourceExt as _, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::json;
use windlass_api::{PLUGIN_CRD, Plugin};
use windlass_engine::cluster::lease::{Instance, NAME as LEASE, NotHolder};
use windlass_engine::command::check;
use windlass_engine::command::cluster::Destination;

use super::terminal::{Terminal, Tone};
use super::{FIELD_MANAGER, READY_TIMEOUT};
use crate::applied::metadata;
use crate::connect::plain;
use crate::host_lease::holder_of;
use crate::install::{Installation, check_accounts, check_name};
use crate::uninstall::plugins;

/// Label of the objects that `windlass dev` creates, with [`FIELD_MANAGER`] as its value. It is not below `windlass.dev/`,
/// because the host rejects a child with such a label, and a plugin may copy its parent's labels.
pub const MADE_BY: &str = "dev.windlass.dev/made-by";

/// Names of contexts that tools for local clusters write.
const LOCAL_CONTEXTS: [&str; 6] = ["colima", "docker-desktop", "microk8s", "minikube", "orbstack", "rancher-desktop"];
/// Beginnings of such names; the name of the cluster follows.
const LOCAL_PREFIXES: [&str; 3] = ["colima-", "k3d-", "kind-"];
/// Names of this machine in the kubeconfigs of Docker Desktop.
const LOCAL_NAMES: [&str; 3] = ["host.docker.internal", "kubernetes.docker.internal", "localhost"];

/// Checks that the user means this cluster: it is local, or the user has named its context.
///
/// # Errors
/// If neither is the case: the current context may be that of a cluster that others depend on.
pub fn check_chosen(destination: &Destination, is_named: bool) -> anyhow::Result<()> {
    if is_named || is_local(destination) {
        return Ok(());
    }
    let Destination { context, server } = destination;
    match context {
        Some(context) => bail!(
            "the current context {context} is not that of a local cluster ({server}); nothing was written. To use it all the \
             same, name it: --context {context}"
        ),
        None => bail!(
            "{server} is not a local cluster; nothing was written. Name a context of a kubeconfig: --context NAME"
        ),
    }
}

/// Whether a cluster runs on this machine: its API server has a loopback address, or its context the name that a tool for
/// local clusters gives it.
fn is_local(Destination { context, server }: &Destination) -> bool {
    let host = server.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let is_here = host.parse::<IpAddr>().map_or_else(|_| LOCAL_NAMES.contains(&host), |address| address.is_loopback());
    let is_of_tool = context.as_deref().is_some_and(|context| {
        LOCAL_CONTEXTS.contains(&context) || LOCAL_PREFIXES.iter().any(|prefix| context.starts_with(prefix))
    });
    is_here || is_of_tool
}

/// Checks that no other host serves the cluster, and that the host here would run no Plugin but those of `windlass dev`:
/// Plugins belong to the whole cluster, and each host runs all of them. `cache_dir` is the cache folder of the host here.
///
/// # Errors
/// If there is one, or if the cluster cannot be read. [`NotHolder`] if another host uses the same namespace.
pub async fn check_free(client: &Client, namespace: &str, cache_dir: &Path) -> anyhow::Result<()> {
    check_name(namespace)?;
    let installation = Installation::read(client).await?;
    if let Some(other) = installation.elsewhere("") {
        bail!(
            "Windlass is installed in namespace {other} of this cluster, and its host would run the plugin as well; nothing was \
             written (its ClusterRoleBinding windlass exists). Use another cluster; or build the component and deliver it to that host \
             with `windlass push`; or uninstall Windlass in the way it was installed, for example with `windlass uninstall --namespace \
             {other}`"
        );
    }
    let leases = Api::<Lease>::all(client.clone());
    let of_hosts = ListParams::default().fields(&format!("metadata.name={LEASE}"));
    let leases = leases.list(&of_hosts).await.map_err(plain).context("the Leases of hosts could not be listed")?;
    for lease in &leases.items {
        let Some((holder, expires_in)) = holder_of(lease, Timestamp::now()) else { continue };
        let at = lease.namespace().unwrap_or_default();
        ensure!(
            at == namespace,
            "a host serves this cluster: it holds Lease {at}/{LEASE}; nothing was written. Stop that host, or use another \
             cluster"
        );
        // A process of this machine that was killed may seem to hold the Lease. Its name passes to the next one.
        if holder != Instance::of(cache_dir).identity.to_string() {
            return Err(NotHolder::Refused { namespace: at, holder: holder.to_owned(), expires_in }.into());
        }
    }
    let others: Vec<_> = plugins(client).await?.into_iter().filter(|plugin| !is_of_dev(&plugin.metadata)).collect();
    ensure!(
        others.is_empty(),
        "the host of `windlass dev` would also run the Plugins of this cluster ({}); nothing was written. Use another \
         cluster, or delete these Plugins",
        names_of(&others)
    );
    Ok(())
}

/// The names of Plugins, for messages.
pub fn names_of(plugins: &[Plugin]) -> String {
    plugins.iter().map(Plugin::name_any).collect::<Vec<_>>().join(", ")
}

/// Whether `windlass dev` created an object.
pub fn is_of_dev(meta: &ObjectMeta) -> bool {
    meta.labels.iter().flatten().any(|(name, value)| name == MADE_BY && value == FIELD_MANAGER)
}

/// The metadata of an object; none if it does not exist. Waits while the object is being deleted: before it is gone, nothing can
/// be created under its name.
///
/// # Errors
/// If the object cannot be read, or is not gone in time.
pub async fn existing<K>(api: &Api<K>, name: &str, what: &str) -> anyhow::Result<Option<ObjectMeta>>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    loop {
        let Some(found) = metadata(api, name, what).await? else { return Ok(None) };
        if found.deletion_timestamp.is_none() {
            return Ok(Some(found));
        }
        err!("waiting: {what} is being deleted");
        wait_until_gone(api, name, &found.uid.unwrap_or_default(), what).await?;
    }
}

/// Waits until the object with this uid is gone.
///
/// # Errors
/// If the object cannot be watched, or is not gone in time.
pub async fn wait_until_gone<K>(api: &Api<K>, name: &str, uid: &str, what: &str) -> anyhow::Result<()>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let gone = tokio::time::timeout(READY_TIMEOUT, await_condition(api.clone(), name, is_deleted(uid))).await;
    let in_time = || format!("{what} is being deleted, and was not gone after {} s", READY_TIMEOUT.as_secs());
    gone.with_context(in_time)?.with_context(|| format!("{what} could not be watched"))?;
    Ok(())
}

/// Creates what the host needs, if it is missing: the CRD of Plugins, and the namespace.
///
/// # Errors
/// If something cannot be read or written, or the installed CRD is older than this version.
pub async fn prepare(client: &Client, namespace: &str, terminal: &Terminal) -> anyhow::Result<()> {
    let params = PatchParams::apply(FIELD_MANAGER);
    let crds = Api::<CustomResourceDefinition>::all(client.clone());
    if existing(&crds, PLUGIN_CRD, &format!("CustomResourceDefinition {PLUGIN_CRD}")).await?.is_some() {
        check::crd(client).await.map_err(anyhow::Error::msg)?;
    } else {
        let context = || format!("CustomResourceDefinition {PLUGIN_CRD} was not installed");
        crds.patch(PLUGIN_CRD, &params, &Patch::Apply(Plugin::crd())).await.map_err(plain).with_context(context)?;
        let established = await_condition(crds, PLUGIN_CRD, is_crd_established());
        tokio::time::timeout(READY_TIMEOUT, established).await.with_context(context)?.with_context(context)?;
        terminal.print(Tone::Plain, &format!("CustomResourceDefinition {PLUGIN_CRD} installed"));
    }
    let namespaces = Api::<Namespace>::all(client.clone());
    match existing(&namespaces, namespace, &format!("Namespace {namespace}")).await? {
        Some(found) if is_of_dev(&found) => {}
        Some(_) => check_accounts(client, namespace).await?,
        None => {
            let new = json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": namespace, "labels": {MADE_BY: FIELD_MANAGER}},
            });
            let written = namespaces.patch(namespace, &params, &Patch::Apply(new)).await.map_err(plain);
            written.with_context(|| format!("Namespace {namespace} was not created"))?;
            terminal.print(Tone::Plain, &format!("Namespace {namespace} created"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destination(context: Option<&str>, server: &str) -> Destination {
        let server = server.parse().expect("a URL");
        Destination { context: context.map(str::to_owned), server }
    }

    #[test]
    fn local_cluster_needs_no_named_context() {
        for (context, server) in [
            (Some("admin"), "https://127.0.0.1:6443"),
            (Some("admin"), "https://[::1]:6443"),
            (Some("admin"), "https://localhost:6443"),
            (Some("docker-desktop"), "https://kubernetes.docker.internal:6443"),
            (Some("minikube"), "https://192.168.49.2:8443"),
            (Some("kind-dev"), "https://172.18.0.2:6443"),
            (None, "https://127.0.0.1:6443"),
        ] {
            assert!(check_chosen(&destination(context, server), false).is_ok(), "{context:?} {server}");
        }
    }

    #[test]
    fn remote_cluster_is_used_only_if_its_context_is_named() {
        for (context, server) in [
            (Some("prod"), "https://10.0.0.1:6443"),
            (Some("prod-kind-dev"), "https://api.example.com"),
            (Some("localhost.example.com"), "https://localhost.example.com"),
            (None, "https://10.96.0.1:443"),
        ] {
            let remote = destination(context, server);
            let refused = check_chosen(&remote, false).expect_err("remote").to_string();
            assert!(refused.contains("nothing was written") && refused.contains("--context "), "{refused}");
            assert!(check_chosen(&remote, true).is_ok());
        }
    }
}
