//! `windlass uninstall`: deletes what `windlass install` wrote, after the host has finished with all Plugins.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{DeleteParams, ListParams, PartialObjectMeta};
use kube::runtime::wait::{await_condition, conditions::is_deleted};
use kube::{Api, Client, ResourceExt as _};
use windlass_api::{PLUGIN_CRD, Plugin};
use windlass_engine::cluster::requests::parse_timeout;
use windlass_engine::command::cluster::ClusterArgs;
use windlass_engine::plugins::rbac::AGGREGATE_LABEL;

use super::applied::{Target, describe, metadata, target};
use super::connect::plain;
use super::deleted::{Deletion, DeletionArgs, delete};
use super::install::{DEPLOYMENT, Installation, objects, reason_to_keep};
use super::remove::{follow, why_not_gone};
use super::{PLUGINS_EXIST, TIMED_OUT};

/// Flags of `windlass uninstall`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  windlass uninstall --dry-run
  windlass uninstall
  windlass uninstall --delete-plugins --delete-crd

Plugins come first, because only a running host removes their finalizers from their parents: delete them with \
`windlass remove NAME`, which also deletes what `windlass push` wrote for them, or all at once with --delete-plugins. \
Parents, their CRDs, children (unless a Plugin's spec.deletionPolicy is Delete), the CRD of Plugins (unless \
--delete-crd), the Namespace with everything else in it, and the roles that `windlass push` wrote stay. An object that \
`windlass install` did not write, or that Helm, Flux or kubectl applies as well, is kept and named.

Exit codes:
  0  everything is deleted (with --dry-run: nothing was changed)
  2  wrong usage
  3  the command failed; the message says why
  4  the host had not finished with a Plugin, or an object was not gone, in time; the message says which
  8  Plugins exist, and --delete-plugins is not set; nothing was deleted")]
pub struct Args {
    /// Namespace of the hosts
    #[arg(short, long, env = "WINDLASS_NAMESPACE", default_value = "windlass-system")]
    namespace: String,
    /// Delete all Plugins first, and wait until the host has released their parents
    #[arg(long)]
    delete_plugins: bool,
    /// Also delete the CRD of Plugins
    #[arg(long)]
    delete_crd: bool,
    #[command(flatten)]
    deletion: DeletionArgs,
    /// How long to wait for the host and for deletions, as in 90s or 5m; a number alone counts seconds
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_timeout)]
    timeout: Duration,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Deletes Plugins, hosts, and everything else, in this order.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    super::block_on(async {
        let client = args.cluster.client().await?;
        let installed = installed(&client, args).await?;
        let plugins = plugins(&client).await?;
        if !plugins.is_empty() && !args.delete_plugins && args.deletion.dry_run.is_none() {
            err!(
                "error: there are Plugins ({}), and nothing was deleted: only a running host removes their finalizers from their parents. \
                 Delete them first (windlass remove NAME), or set --delete-plugins",
                names(&plugins)
            );
            return Ok(ExitCode::from(PLUGINS_EXIST));
        }
        if args.deletion.dry_run.is_some() {
            preview(args, &plugins, &installed);
            say_left(&client, args).await?;
            return Ok(ExitCode::SUCCESS);
        }
        let work = async {
            end_plugins(&client, &plugins).await?;
            for object in &installed {
                object.delete(&client).await?;
            }
            anyhow::Ok(())
        };
        let Ok(ended) = tokio::time::timeout(args.timeout, work).await else {
            err!(
                "error: not everything was gone within {} s. Is the host running (kubectl -n {} get pods)? Run the same \
                 command again to go on",
                args.timeout.as_secs(),
                args.namespace
            );
            return Ok(ExitCode::from(TIMED_OUT));
        };
        ended?;
        say_left(&client, args).await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// An object of the installation.
struct Installed {
    target: Target,
    uid: Option<String>,
}

impl Installed {
    /// Deletes the object. A Deployment is gone only after its hosts, which need their permissions until they end.
    async fn delete(&self, client: &Client) -> anyhow::Result<()> {
        let (api, object) = &self.target;
        let name = object.name_any();
        let deletion = delete(api, &name, self.uid.clone(), DeleteParams::foreground()).await;
        if deletion.with_context(|| format!("{} was not deleted", describe(object)))? != Deletion::Accepted {
            return Ok(());
        }
        if let Some(uid) = &self.uid {
            let gone = await_condition(api.clone(), &name, is_deleted(uid)).await;
            gone.with_context(|| format!("{} could not be watched", describe(object)))?;
        }
        // A Deployment may be gone before its Pods, if the garbage collector does not know them.
        if object.types.as_ref().is_some_and(|types| types.kind == "Deployment") {
            let namespace = object.namespace().unwrap_or_default();
            let pods = Api::<Pod>::namespaced(client.clone(), &namespace);
            let selected = ListParams::default().labels("app.kubernetes.io/name=windlass");
            for pod in pods.list_metadata(&selected).await.map_err(plain)?.items {
                let (name, uid) = (pod.name_any(), pod.uid().unwrap_or_default());
                await_condition(pods.clone(), &name, is_deleted(&uid)).await.with_context(|| format!("Pod {name}"))?;
            }
        }
        out!("deleted {}", describe(object));
        Ok(())
    }
}

/// The existing objects that an installation wrote, in the order of their deletion: the hosts first, and the permissions last.
async fn installed(client: &Client, args: &Args) -> anyhow::Result<Vec<Installed>> {
    let installation = Installation::read(client).await?;
    if let Some(other) = installation.elsewhere(&args.namespace) {
        bail!(
            "Windlass is installed in namespace {other}; nothing was deleted. To uninstall it, set --namespace {other}"
        );
    }
    let mut found = Vec::new();
    let mut others = Vec::new();
    // With several replicas there are the most objects. The image does not matter.
    for object in objects(&args.namespace, "", 2)?.into_iter().rev() {
        let target = target(client, &object).await?;
        let kind = target.1.types.as_ref().map_or("", |types| types.kind.as_str());
        if kind == "Namespace" || (kind == "CustomResourceDefinition" && !args.delete_crd) {
            continue;
        }
        let what = describe(&target.1);
        let Some(existing) = metadata(&target.0, &target.1.name_any(), &what).await? else { continue };
        // Helm leaves the CRD, with its label, when it uninstalls the release.
        let ignores_helm = kind == "CustomResourceDefinition" && !installation.is_helms;
        match reason_to_keep(&existing, ignores_helm) {
            None => found.push(Installed { uid: existing.uid, target }),
            Some(why) => others.push((what, why)),
        }
    }
    let host = format!("Deployment {}/{DEPLOYMENT}", args.namespace);
    if let Some((_, why)) = others.iter().find(|(what, _)| *what == host) {
        bail!(
            "{host} is kept, because {why}; nothing was deleted. Uninstall it as it was installed, with `helm uninstall` or \
             `kubectl delete -k`"
        );
    }
    for (what, why) in others {
        err!("note: {what} is kept, because {why}");
    }
    if found.is_empty() {
        bail!("`windlass install` wrote nothing that exists in namespace {}", args.namespace);
    }
    Ok(found)
}

/// All Plugins; none if their CRD does not exist.
pub async fn plugins(client: &Client) -> anyhow::Result<Vec<Plugin>> {
    let api = Api::<Plugin>::all(client.clone());
    let mut attempts = 0;
    loop {
        match api.list(&ListParams::default()).await {
            Ok(plugins) => return Ok(plugins.items),
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Vec::new()),
            // For some seconds after a change of the CRD, its storage is initialized.
            Err(kube::Error::Api(status)) if status.code == 429 && attempts < 10 => {
                attempts += 1;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Err(error) => return Err(plain(error)).context("the Plugins could not be listed"),
        }
    }
}

fn names(plugins: &[Plugin]) -> String {
    const SHOWN: usize = 10;
    let mut names: Vec<_> = plugins.iter().take(SHOWN).map(Plugin::name_any).collect();
    if plugins.len() > SHOWN {
        names.push(format!("and {} more", plugins.len() - SHOWN));
    }
    names.join(", ")
}

/// Deletes all Plugins, and waits until the host has released their parents.
async fn end_plugins(client: &Client, plugins: &[Plugin]) -> anyhow::Result<()> {
    let api = Api::<Plugin>::all(client.clone());
    for plugin in plugins {
        match api.delete(&plugin.name_any(), &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            deleted => {
                deleted.map_err(plain).with_context(|| format!("Plugin {} was not deleted", plugin.name_any()))?;
            }
        }
    }
    for plugin in plugins {
        let name = plugin.name_any();
        let missing = |now: Option<&Plugin>| {
            Ok(now
                .filter(|now| now.metadata.uid == plugin.metadata.uid)
                .map(|now| format!("{name}: {}", why_not_gone(now))))
        };
        follow(&api, &name, missing).await?;
        out!("deleted Plugin {name}");
    }
    let created = self::plugins(client).await?;
    ensure!(
        created.is_empty(),
        "Plugins were created in the meantime ({}); nothing else was deleted. Run the same command again",
        names(&created)
    );
    Ok(())
}

fn preview(args: &Args, plugins: &[Plugin], installed: &[Installed]) {
    for plugin in plugins {
        if args.delete_plugins {
            out!("would delete Plugin {}", plugin.name_any());
        } else {
            out!("would stop at Plugin {}: delete it first, or set --delete-plugins", plugin.name_any());
        }
    }
    for object in installed {
        out!("would delete {}", describe(&object.target.1));
    }
}

/// Names what stays, and the commands that delete it.
async fn say_left(client: &Client, args: &Args) -> anyhow::Result<()> {
    let namespace = &args.namespace;
    if !args.delete_crd {
        err!("note: CustomResourceDefinition {PLUGIN_CRD} stays; to delete it: kubectl delete crd {PLUGIN_CRD}");
    }
    let labelled = ListParams::default().labels(&format!("{AGGREGATE_LABEL}=true"));
    let roles = Api::<ClusterRole>::all(client.clone()).list_metadata(&labelled).await.map_err(plain)?;
    let roles = roles.items.iter().map(PartialObjectMeta::name_any);
    let roles: Vec<_> = roles.filter(|name| name != "windlass-host").collect();
    if !roles.is_empty() {
        err!("note: roles of plugins stay ({}); to delete them: windlass remove NAME", roles.join(", "));
    }
    err!(
        "note: Namespace {namespace} stays, with the Secrets of the hosts, which a later installation uses again, and with what \
         users created in it; to delete it: kubectl delete namespace {namespace}"
    );
    Ok(())
}
