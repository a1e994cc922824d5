//! `windlass install`: applies the manifests of this version, and waits for the hosts.

mod existing;
mod manifests;

use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, PatchParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::wait::{await_condition, conditions::is_crd_established};
use kube::runtime::watcher::watch_object;
use kube::{Api, Client, ResourceExt as _};
use serde_json::Value;
use windlass_api::PLUGIN_CRD;
use windlass_core::contract::declared_parent::text;
use windlass_engine::command::cluster::ClusterArgs;

pub use self::existing::{Installation, check_accounts, check_name, reason_to_keep};
pub use self::manifests::{DEPLOYMENT, objects};
use self::manifests::{RELEASED_IMAGE, image_of_kustomizations};
use super::TIMED_OUT;
use super::applied::{WriteArgs, apply, describe, metadata, target};
use super::connect::plain;
use super::deleted::{Deletion, delete};
use super::output::{DryRun, Objects, print_objects};

/// Field manager of installations.
pub const FIELD_MANAGER: &str = "windlass-install";

/// Flags of `windlass install`.
#[derive(Debug, clap::Args)]
#[command(mut_arg("no_wait", |arg| arg.help("Do not wait until the hosts are available")))]
#[command(after_help = "Examples:
  windlass install --image registry.example/team/windlass:0.1.0
  windlass install --image registry.example/team/windlass:0.1.0 --replicas 2
  windlass install --dry-run=client > windlass.yaml
  kubectl apply --server-side -f windlass.yaml

The same command with a newer windlass upgrades the CRD, the permissions, the policies and the hosts. --dry-run=client \
prints the same bytes for the same flags, so its output can be kept in a repository. For other settings, use the Helm \
chart or a kustomization: docs/install.md.

Exit codes:
  0  the hosts are available (with --no-wait: everything was written)
  2  wrong usage
  3  the command failed; the message says why
  4  the hosts were not available in time; the message says what is missing")]
pub struct Args {
    /// Namespace of the hosts
    #[arg(short, long, env = "WINDLASS_NAMESPACE", default_value = "windlass-system")]
    namespace: String,
    /// Image of the hosts; default: the image of the release that this windlass is from
    #[arg(long)]
    image: Option<String>,
    /// Number of hosts: one acts, the others are standbys; default: the number that is installed, or 1
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=99))]
    replicas: Option<u16>,
    /// Overwrite fields that another field manager has set to other values
    #[arg(long)]
    force_conflicts: bool,
    /// Install into a namespace that has other ServiceAccounts: the host may impersonate them, and they may not write there
    #[arg(long)]
    allow_shared_namespace: bool,
    #[command(flatten)]
    write: WriteArgs,
    /// Output format of --dry-run
    #[arg(short, long, value_enum, default_value = "yaml")]
    output: Objects,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Applies the manifests.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    check_name(&args.namespace)?;
    if args.write.dry_run == Some(DryRun::Client) {
        // Without a cluster, so that the output depends on the flags alone.
        let named = args.image.as_deref().or(RELEASED_IMAGE).map(str::to_owned);
        let image = named.map_or_else(image_of_kustomizations, Ok)?;
        print_objects(&objects(&args.namespace, &image, args.replicas.unwrap_or(1))?, args.output)?;
        return Ok(ExitCode::SUCCESS);
    }
    super::block_on(async {
        let client = args.cluster.client().await?;
        let host = installed(&client, args).await?;
        let image = image(args, host.as_ref())?;
        let installed = host.and_then(|host| u16::try_from(host.spec?.replicas?).ok()).filter(|number| *number > 0);
        let replicas = args.replicas.or(installed).unwrap_or(1);
        let objects = objects(&args.namespace, &image, replicas)?;
        // Before the first write, so that a conflict does not leave one half of an upgrade.
        validate(&client, args, &objects).await?;
        if args.write.dry_run.is_some() {
            print_objects(&objects, args.output)?;
            return Ok(ExitCode::SUCCESS);
        }
        write(&client, args, &objects).await?;
        if replicas == 1 {
            delete_budget(&client, args).await?;
        }
        if args.write.no_wait {
            return Ok(ExitCode::SUCCESS);
        }
        wait(&client, args, &image).await
    })
}

/// The installed Deployment, if there is one, after a check that no other installation exists.
async fn installed(client: &Client, args: &Args) -> anyhow::Result<Option<Deployment>> {
    let installation = Installation::read(client).await?;
    ensure!(
        !installation.is_helms,
        "Windlass is installed by Helm: upgrade it with `helm upgrade`, or uninstall it first with `helm uninstall`"
    );
    if let Some(other) = installation.elsewhere(&args.namespace) {
        bail!(
            "Windlass is installed in namespace {other}, and a cluster has one Windlass: install into that namespace \
             (--namespace {other}), or uninstall it first (windlass uninstall --namespace {other})"
        );
    }
    let hosts = Api::<Deployment>::namespaced(client.clone(), &args.namespace);
    let host = hosts.get_opt(DEPLOYMENT).await.map_err(plain);
    let host = host.with_context(|| format!("Deployment {}/{DEPLOYMENT} could not be read", args.namespace))?;
    if !installation.exists && host.is_none() && !args.allow_shared_namespace {
        check_accounts(client, &args.namespace).await?;
    }
    Ok(host)
}

/// The image of the hosts.
fn image(args: &Args, host: Option<&Deployment>) -> anyhow::Result<String> {
    if let Some(image) = &args.image {
        return Ok(image.clone());
    }
    let containers = host.and_then(|host| Some(&host.spec.as_ref()?.template.spec.as_ref()?.containers));
    let installed = containers.into_iter().flatten().find_map(|container| container.image.as_deref());
    default_image(RELEASED_IMAGE, installed).map(str::to_owned)
}

/// The image of the hosts if the user names none.
///
/// # Errors
/// If an upgrade would silently replace an image from a user's own registry, or if this command is no release, of which no
/// registry has an image.
fn default_image<'a>(released: Option<&'a str>, installed: Option<&str>) -> anyhow::Result<&'a str> {
    match (released, installed) {
        (Some(released), Some(installed)) if repository(installed) != repository(released) => bail!(
            "the installed hosts have the image {installed}, which is not from {}: set --image",
            repository(released)
        ),
        (Some(released), _) => Ok(released),
        (None, Some(installed)) => bail!(
            "the installed hosts have the image {installed}, and this windlass was not built by a release, so no registry has \
             an image of it: set --image"
        ),
        (None, None) => bail!(
            "this windlass was not built by a release, so no registry has an image of it: build one (docker build --tag \
             IMAGE . or cargo xtask image), push it to your registry or load it into the nodes, and set --image IMAGE. \
             docs/install.md says how"
        ),
    }
}

/// An image without its tag and digest.
fn repository(image: &str) -> &str {
    let image = image.split_once('@').map_or(image, |(name, _)| name);
    match image.rsplit_once(':') {
        // A colon before a slash belongs to a port.
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    }
}

fn params(args: &Args, dry_run: bool) -> PatchParams {
    PatchParams { dry_run, force: args.force_conflicts, ..PatchParams::apply(FIELD_MANAGER) }
}

/// Lets the API server validate all objects that it can validate before the others exist.
async fn validate(client: &Client, args: &Args, objects: &[Value]) -> anyhow::Result<()> {
    let namespaces = Api::<Namespace>::all(client.clone());
    let has_namespace = namespaces.get_opt(&args.namespace).await.map_err(plain)?.is_some();
    for object in objects {
        if has_namespace || object.pointer("/metadata/namespace").is_none() {
            apply(&target(client, object).await?, params(args, true)).await.map_err(with_hint)?;
        }
    }
    if !has_namespace && args.write.dry_run.is_some() {
        err!("note: Namespace {} does not exist, so objects in it were not validated", args.namespace);
    }
    Ok(())
}

/// Applies all objects in their order.
async fn write(client: &Client, args: &Args, objects: &[Value]) -> anyhow::Result<()> {
    for object in objects {
        let target = target(client, object).await?;
        apply(&target, params(args, false)).await.map_err(with_hint)?;
        out!("applied {}", describe(&target.1));
        if text(object, "/kind") == "CustomResourceDefinition" {
            let api = Api::<CustomResourceDefinition>::all(client.clone());
            let established = await_condition(api, PLUGIN_CRD, is_crd_established());
            let Ok(established) = tokio::time::timeout(args.write.timeout, established).await else {
                bail!("CustomResourceDefinition {PLUGIN_CRD} was not established in time; run the same command again")
            };
            established.with_context(|| format!("CustomResourceDefinition {PLUGIN_CRD}"))?;
        }
    }
    Ok(())
}

/// Deletes the `PodDisruptionBudget` that this command wrote for several hosts: with one host, there is nothing to protect.
async fn delete_budget(client: &Client, args: &Args) -> anyhow::Result<()> {
    let what = format!("PodDisruptionBudget {}/{DEPLOYMENT}", args.namespace);
    let api = Api::<PodDisruptionBudget>::namespaced(client.clone(), &args.namespace);
    let found = metadata(&api, DEPLOYMENT, &what).await?;
    let Some(found) = found.filter(|found| reason_to_keep(found, false).is_none()) else { return Ok(()) };
    let deletion = delete(&api, DEPLOYMENT, found.uid, DeleteParams::default()).await;
    if deletion.with_context(|| format!("{what} was not deleted"))? == Deletion::Accepted {
        out!("deleted {what}");
    }
    Ok(())
}

/// The error of an apply, with the flag that resolves a conflict.
fn with_hint(error: anyhow::Error) -> anyhow::Error {
    let is_conflict = format!("{error:#}").contains("conflict with");
    if is_conflict { anyhow::anyhow!("{error:#}; to overwrite these fields, set --force-conflicts") } else { error }
}

/// Waits until all hosts are available.
async fn wait(client: &Client, args: &Args, image: &str) -> anyhow::Result<ExitCode> {
    let namespace = &args.namespace;
    let mut last = String::new();
    let watching = async {
        let api = Api::<Deployment>::namespaced(client.clone(), namespace);
        // A watch that ends, for example while the API server restarts, is started again.
        let mut hosts = std::pin::pin!(watch_object(api, DEPLOYMENT).default_backoff());
        while let Some(host) = hosts.next().await {
            let missing = match host {
                Ok(host) => {
                    let host = host.with_context(|| format!("Deployment {namespace}/{DEPLOYMENT} was deleted"))?;
                    let Some(missing) = missing(&host) else { return Ok(()) };
                    missing
                }
                Err(error) => format!("the Deployment could not be watched: {:#}", anyhow::Error::from(error)),
            };
            if missing != last {
                err!("waiting: {missing}");
                last = missing;
            }
        }
        bail!("the watch of Deployment {namespace}/{DEPLOYMENT} ended")
    };
    let Ok(ended) = tokio::time::timeout(args.write.timeout, watching).await else {
        err!(
            "error: Deployment {namespace}/{DEPLOYMENT} was not available within {} s: {last}{}. Everything is written; \
             see: kubectl -n {namespace} describe pods -l app.kubernetes.io/name=windlass",
            args.write.timeout.as_secs(),
            why_pods_wait(client, namespace, image).await
        );
        return Ok(ExitCode::from(TIMED_OUT));
    };
    ended?;
    out!("Windlass {} is installed in namespace {namespace}", env!("CARGO_PKG_VERSION"));
    Ok(ExitCode::SUCCESS)
}

/// The state of a Deployment that is not available yet; none if it is.
fn missing(host: &Deployment) -> Option<String> {
    let wanted = host.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let status = host.status.clone().unwrap_or_default();
    let is_seen = status.observed_generation == host.metadata.generation;
    let [updated, available, all] =
        [status.updated_replicas, status.available_replicas, status.replicas].map(Option::unwrap_or_default);
    if is_seen && updated == wanted && available == wanted && all == wanted {
        return None;
    }
    let mut text = format!("{available} of {wanted} hosts are available, {updated} of them in this version");
    let conditions = status.conditions.unwrap_or_default();
    let failed = conditions.iter().find(|one| one.type_ == "ReplicaFailure" && one.status == "True");
    if let Some(message) = failed.and_then(|failed| failed.message.as_deref()) {
        text = format!("{text}: {message}");
    }
    Some(text)
}

/// The reasons for which containers of the hosts do not run, as their Pods' statuses have them.
async fn why_pods_wait(client: &Client, namespace: &str, image: &str) -> String {
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    let selected = ListParams::default().labels("app.kubernetes.io/name=windlass");
    // Without Pods to read, the Deployment's own state must do.
    let pods = pods.list(&selected).await.map(|pods| pods.items).unwrap_or_default();
    let reasons = pods.iter().flat_map(|pod| {
        let statuses = pod.status.iter().flat_map(|status| &status.container_statuses).flatten();
        statuses.filter_map(|status| {
            let reason = status.state.as_ref()?.waiting.as_ref()?.reason.as_deref()?;
            Some(format!("; Pod {} waits: {reason} (image {image})", pod.name_any()))
        })
    });
    reasons.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn image_must_be_named_unless_a_release_has_one_from_the_registry_of_the_installed_hosts() {
        let released = Some("ghcr.io/windlass/windlass:0.2.0");
        for installed in [None, Some("ghcr.io/windlass/windlass:0.1.0")] {
            assert_eq!(default_image(released, installed).ok(), released);
        }
        for (released, installed, expected) in [
            (released, Some("registry.example/windlass:1"), "which is not from ghcr.io/windlass/windlass: set --image"),
            (None, Some("registry.example/windlass:1"), "have the image registry.example/windlass:1"),
            (None, None, "push it to your registry or load it into the nodes, and set --image IMAGE"),
        ] {
            let refused = default_image(released, installed).expect_err("no image").to_string();
            assert!(refused.contains(expected), "{refused}");
        }
    }

    #[test]
    fn repository_of_an_image_excludes_tag_and_digest_and_includes_a_port() {
        for (image, expected) in [
            ("windlass", "windlass"),
            ("windlass:0.1.0", "windlass"),
            ("registry:5000/team/windlass", "registry:5000/team/windlass"),
            ("registry:5000/team/windlass:0.1.0@sha256:ab", "registry:5000/team/windlass"),
        ] {
            assert_eq!(repository(image), expected);
        }
    }

    #[test]
    fn deployment_is_available_only_with_all_hosts_of_the_observed_generation() {
        let deployment = |generation, observed, updated, available, all| -> Deployment {
            let object = json!({
                "metadata": {"generation": generation},
                "spec": {"replicas": 2, "selector": {}, "template": {}},
                "status": {
                    "observedGeneration": observed, "updatedReplicas": updated, "availableReplicas": available,
                    "replicas": all,
                },
            });
            serde_json::from_value(object).expect("a Deployment")
        };
        assert_eq!(missing(&deployment(3, 3, 2, 2, 2)), None);
        for (generation, observed, updated, available, all) in
            [(3, 2, 2, 2, 2), (3, 3, 1, 2, 2), (3, 3, 2, 1, 2), (3, 3, 2, 2, 3)]
        {
            let missing = missing(&deployment(generation, observed, updated, available, all));
            assert!(missing.is_some_and(|missing| missing.contains("of 2 hosts are available")));
        }
    }
}
