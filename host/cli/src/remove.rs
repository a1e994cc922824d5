//! `windlass remove`: undoes a push. Deletes a Plugin, waits until the host has finished with it, and deletes the
//! objects that only push wrote.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::{ApiResource, ObjectMeta};
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use serde_json::json;
use windlass_api::{DeletionPolicy, Plugin};
use windlass_core::object::names::{HOST_FINALIZER, LABEL_PLUGIN, plugin_condition};
use windlass_core::value::ids::PluginName;
use windlass_engine::cluster::account::plugin_account;
use windlass_engine::cluster::requests::parse_timeout;
use windlass_engine::command::cluster::ClusterArgs;
use windlass_engine::output::WithCauses;
use windlass_engine::plugins::rbac;

use super::TIMED_OUT;
use super::applied::{api, metadata, named, plugin};
use super::connect::{HostNamespaceArgs, plain};
use super::deleted::{Deletion, DeletionArgs, delete};
use super::pushed::{is_pushs, parts, reason_to_keep};

/// Flags of `windlass remove`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  windlass remove echo --dry-run=client
  windlass remove echo
  windlass remove echo --delete-children

Parents, and the CRD that the component carries, are never deleted. Children stay with their parents, unless \
--delete-children or the Plugin's spec.deletionPolicy deletes them. An object that push did not write, or that \
other field managers have written as well, is kept and named.

Exit codes:
  0  the Plugin and the objects that push wrote for it are deleted (with --dry-run: nothing was changed)
  2  wrong usage
  3  the command failed; the message says why
  4  the host had not finished with the Plugin in time; the message says what it waits for")]
pub struct Args {
    /// Name of the Plugin
    #[arg(value_name = "NAME")]
    name: PluginName,
    /// Also delete the plugin's children (sets spec.deletionPolicy: Delete)
    #[arg(long)]
    delete_children: bool,
    #[command(flatten)]
    deletion: DeletionArgs,
    #[command(flatten)]
    host: HostNamespaceArgs,
    /// How long to wait for the host, as in 90s or 5m; a number alone counts seconds
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_timeout)]
    timeout: Duration,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// The host had not finished with a Plugin in time.
#[derive(Debug, thiserror::Error)]
#[error("Plugin {name} was not gone within {} s, and nothing else was deleted", .timeout.as_secs())]
pub struct NotGone {
    name: PluginName,
    timeout: Duration,
}

/// Removes the Plugin and the pushed objects.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    super::block_on(async {
        let client = args.cluster.client().await?;
        let written = Written::find(&client, &args.name, &args.host.host_namespace).await?;
        if written.plugin.is_none() && written.leftovers.is_empty() {
            bail!("there is no Plugin {}, and nothing that `windlass push` wrote for it", args.name);
        }
        if let Some(plugin) = &written.plugin {
            print_children(args, plugin);
        }
        if args.deletion.dry_run.is_some() {
            written.preview();
            return Ok(ExitCode::SUCCESS);
        }
        match written.delete(&client, args.delete_children, args.timeout, |line| out!("{line}")).await {
            Err(error) if error.is::<NotGone>() => {
                err!("error: {}. Run the same command again to go on", WithCauses(&error));
                Ok(ExitCode::from(TIMED_OUT))
            }
            deleted => deleted.map(|()| ExitCode::SUCCESS),
        }
    })
}

/// A Plugin and the objects that push wrote for it, as far as they exist.
pub struct Written {
    name: PluginName,
    plugin: Option<Plugin>,
    leftovers: Vec<Leftover>,
}

impl Written {
    /// Finds them. `namespace` is that of the host.
    ///
    /// # Errors
    /// If push did not write the Plugin, or an object cannot be read.
    pub async fn find(client: &Client, name: &PluginName, namespace: &str) -> anyhow::Result<Self> {
        let plugin = plugin(client, name).await?;
        if let Some(plugin) = &plugin {
            check_pushed(name.as_str(), &plugin.metadata)?;
        }
        // Listed before the deletion: the Plugin's ConfigMaps are garbage-collected with it.
        let leftovers = leftovers(client, name, namespace, plugin.as_ref()).await?;
        Ok(Self { name: name.clone(), plugin, leftovers })
    }

    /// Prints what [`delete`](Self::delete) would do.
    fn preview(&self) {
        if self.plugin.is_some() {
            out!("would delete Plugin {}", self.name);
        }
        for leftover in &self.leftovers {
            match &leftover.kept {
                None => out!("would delete {}", leftover.what()),
                Some(why) => out!("would leave {}: {why}", leftover.what()),
            }
        }
    }

    /// Deletes the Plugin, waits until the host has finished with it, and deletes the other objects. Passes a line about each
    /// to `print`.
    ///
    /// # Errors
    /// If something was not deleted. [`NotGone`] if the host had not finished in time.
    pub async fn delete(
        self,
        client: &Client,
        delete_children: bool,
        timeout: Duration,
        print: impl Fn(&str),
    ) -> anyhow::Result<()> {
        let Self { name, plugin, leftovers } = self;
        if let Some(plugin) = plugin {
            let api = Api::<Plugin>::all(client.clone());
            let ended = tokio::time::timeout(timeout, end(&api, name.as_str(), &plugin, delete_children)).await;
            ended.map_err(|_| NotGone { name: name.clone(), timeout })??;
            print(&format!("deleted Plugin {name}"));
        }
        let mut failed = Vec::new();
        for leftover in leftovers {
            let what = leftover.what();
            let Leftover { resource, meta, kept } = leftover;
            if let Some(why) = kept {
                print(&format!("left {what}: {why}"));
                continue;
            }
            let api = api(client, &resource, meta.namespace.as_deref());
            match delete(&api, &meta.name.unwrap_or_default(), meta.uid, DeleteParams::default()).await {
                Ok(Deletion::Accepted) => print(&format!("deleted {what}")),
                // The garbage collector was faster.
                Ok(Deletion::Gone) => {}
                Ok(Deletion::Replaced) => print(&format!("left {what}: another object has this name by now")),
                Err(error) => failed.push(format!("{what}: {}", WithCauses(&error))),
            }
        }
        if !failed.is_empty() {
            bail!("some objects were not deleted; run the same command again: {}", failed.join("; "));
        }
        Ok(())
    }
}

/// Checks that push wrote the Plugin: another tool's Plugin should be deleted with that tool.
fn check_pushed(name: &str, meta: &ObjectMeta) -> anyhow::Result<()> {
    if meta.managed_fields.iter().flatten().any(is_pushs) {
        return Ok(());
    }
    bail!(
        "Plugin {name} was not written by `windlass push`; nothing was deleted. Delete it as it was made, or with: kubectl \
         delete plugins.windlass.dev {name}"
    )
}

fn print_children(args: &Args, plugin: &Plugin) {
    let status = plugin.status.clone().unwrap_or_default();
    // Without a parent kind in the status, no component of the Plugin was ever live.
    let Some(parents) = status.parent_kind else { return };
    let children = status.child_kinds.unwrap_or_default().join(", ");
    if args.delete_children || plugin.spec.deletion_policy == DeletionPolicy::Delete {
        err!("note: the plugin's children ({children}) are deleted; their parents ({parents}) and the CRD stay");
    } else {
        err!(
            "note: children of the plugin ({children}) stay as they are, with their parents ({parents}) and the CRD; --delete-children \
             deletes the children. Users lose the permissions for the parents that the plugin's roles gave them"
        );
    }
}

/// Deletes the Plugin and waits until it is gone: the host removes its finalizers from the parents, and deletes the
/// children if requested.
async fn end(api: &Api<Plugin>, name: &str, plugin: &Plugin, delete_children: bool) -> anyhow::Result<()> {
    let is_deleting = plugin.metadata.deletion_timestamp.is_some();
    let was_live = plugin.status.as_ref().is_some_and(|status| status.parent_kind.is_some());
    let has_ended = is_deleting && !has_host_finalizer(plugin);
    if has_ended && delete_children && was_live && plugin.spec.deletion_policy != DeletionPolicy::Delete {
        bail!(
            "Plugin {name} is being deleted already, and the host has left its children as they are; delete them with \
             kubectl, by their label {LABEL_PLUGIN}={name}"
        );
    }
    if delete_children && was_live && !has_ended {
        let patch = Patch::Merge(json!({"spec": {"deletionPolicy": "Delete"}}));
        let written = api.patch(name, &PatchParams::default(), &patch).await.map_err(plain);
        written.context("spec.deletionPolicy was not written")?;
        // Without the finalizer the Plugin would be gone before the host handles its deletion.
        follow(api, name, |plugin| match plugin {
            Some(plugin) if has_host_finalizer(plugin) => Ok(None),
            Some(_) => Ok(Some(format!(
                "the host has not taken notice of spec.deletionPolicy yet ({HOST_FINALIZER} is missing); is it running?"
            ))),
            None => bail!("Plugin {name} was deleted by another client; its children may still exist"),
        })
        .await?;
    }
    let uid = plugin.metadata.uid.as_deref();
    // The objects of the removed Plugin belong to the new one now.
    let replaced = || anyhow!("another client created Plugin {name} again; it and its objects were left alone");
    let deletion = delete(api, name, plugin.metadata.uid.clone(), DeleteParams::default()).await;
    match deletion.with_context(|| format!("Plugin {name} was not deleted"))? {
        Deletion::Accepted => {}
        Deletion::Gone => return Ok(()),
        Deletion::Replaced => return Err(replaced()),
    }
    follow(api, name, |now| match now {
        None => Ok(None),
        Some(now) if now.metadata.uid.as_deref() == uid => Ok(Some(why_not_gone(now))),
        Some(_) => Err(replaced()),
    })
    .await
}

fn has_host_finalizer(plugin: &Plugin) -> bool {
    plugin.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == HOST_FINALIZER)
}

/// The reason why a Plugin still exists, for the user.
pub fn why_not_gone(plugin: &Plugin) -> String {
    let conditions = plugin.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let terminating = conditions
        .iter()
        .find(|one| one.type_ == plugin_condition::READY && one.reason == "Terminating")
        .map(|one| one.message.clone());
    terminating.unwrap_or_else(|| {
        let finalizers = plugin.metadata.finalizers.clone().unwrap_or_default().join(", ");
        format!("the Plugin is being deleted; its finalizers are: {finalizers}")
    })
}

/// Watches a Plugin until `missing` returns none. Prints each new line that `missing` returns.
pub async fn follow(
    api: &Api<Plugin>,
    name: &str,
    missing: impl Fn(Option<&Plugin>) -> anyhow::Result<Option<String>>,
) -> anyhow::Result<()> {
    let mut last = None;
    let mut plugins = std::pin::pin!(watch_object(api.clone(), name));
    while let Some(plugin) = plugins.next().await {
        let plugin = plugin.context("the Plugin could not be watched")?;
        let Some(line) = missing(plugin.as_ref())? else { return Ok(()) };
        if last.as_ref() != Some(&line) {
            err!("waiting: {line}");
            last = Some(line);
        }
    }
    bail!("the watch of Plugin {name} ended")
}

/// An object that push writes in addition to the Plugin.
struct Leftover {
    resource: ApiResource,
    meta: ObjectMeta,
    /// Why the object must be kept; none if it may be deleted.
    kept: Option<String>,
}

impl Leftover {
    fn what(&self) -> String {
        named(&self.resource.kind, &self.meta)
    }
}

/// The existing objects that push may have written for this Plugin.
async fn leftovers(
    client: &Client,
    plugin_name: &PluginName,
    host_namespace: &str,
    plugin: Option<&Plugin>,
) -> anyhow::Result<Vec<Leftover>> {
    let name = plugin_name.as_str();
    let (account_role, source_role) = (rbac::account_role(name), rbac::source_role(name));
    let source = plugin.and_then(|plugin| plugin.spec.source.config_map.clone());
    let (map_namespace, map_name) =
        source.map_or_else(|| (host_namespace.to_owned(), name.to_owned()), |source| (source.namespace, source.name));
    let maps = ApiResource::erase::<ConfigMap>(&());
    let parts = parts(&Api::namespaced(client.clone(), &map_namespace), plugin_name)
        .await
        .with_context(|| format!("the ConfigMaps of namespace {map_namespace} could not be listed"))?;
    let parts = parts.into_iter().filter_map(|part| part.name);
    let in_namespace = Some(host_namespace);
    let mut wanted = vec![(maps.clone(), Some(map_namespace.as_str()), map_name)];
    wanted.extend(parts.map(|part| (maps.clone(), Some(map_namespace.as_str()), part)));
    // Bindings before roles, and the ServiceAccount last, so that no permission outlives its reason.
    wanted.extend([
        (ApiResource::erase::<ClusterRoleBinding>(&()), None, account_role.clone()),
        (ApiResource::erase::<ClusterRole>(&()), None, account_role),
        (ApiResource::erase::<ClusterRole>(&()), None, rbac::host_role(name)),
        (ApiResource::erase::<ClusterRole>(&()), None, rbac::view_role(name)),
        (ApiResource::erase::<ClusterRole>(&()), None, rbac::edit_role(name)),
        (ApiResource::erase::<RoleBinding>(&()), in_namespace, source_role.clone()),
        (ApiResource::erase::<Role>(&()), in_namespace, source_role),
        (ApiResource::erase::<ServiceAccount>(&()), in_namespace, plugin_account(name)),
    ]);
    let mut found = Vec::new();
    for (resource, namespace, name) in wanted {
        let what = format!("{} {name}", resource.kind);
        if let Some(meta) = metadata(&api(client, &resource, namespace), &name, &what).await? {
            found.push(Leftover { kept: reason_to_keep(plugin_name, &meta), resource, meta });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;

    use super::super::pushed::written_by;
    use super::*;

    /// Deletes Plugin `echo` by an API server that responds in this way; returns the error.
    async fn not_deleted<R>(respond: impl Fn() -> R + Send + 'static) -> anyhow::Error
    where
        R: Future<Output = std::io::Result<Response<Body>>> + Send + 'static,
    {
        let client = Client::new(tower::service_fn(move |_: Request<Body>| respond()), "default");
        let plugin = json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "Plugin", "metadata": {"name": "echo", "uid": "1"},
            "spec": {"source": {"configMap": {"namespace": "windlass-system", "name": "echo"}}, "serviceAccountName": "echo"},
        });
        let plugin = Some(serde_json::from_value(plugin).expect("a Plugin"));
        let written = Written { name: "echo".parse().expect("a name"), plugin, leftovers: Vec::new() };
        written.delete(&client, false, Duration::from_mins(1), |line| panic!("{line}")).await.expect_err("not deleted")
    }

    #[tokio::test(start_paused = true)]
    async fn plugin_that_is_not_gone_in_time_is_an_error_of_its_own() {
        let error = not_deleted(std::future::pending).await;
        assert!(error.is::<NotGone>(), "{error:#}");
    }

    #[tokio::test]
    async fn plugin_that_was_created_again_is_left_alone() {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Conflict", "code": 409,
            "message": "the UID in the precondition does not match",
        });
        let error = not_deleted(move || {
            let body = Body::from(status.to_string().into_bytes());
            std::future::ready(Ok(Response::builder().status(409).body(body).expect("a response")))
        })
        .await;
        assert!(format!("{error:#}").contains("created Plugin echo again"), "{error:#}");
    }

    #[test]
    fn plugin_not_written_by_push_is_rejected_with_the_kubectl_command_that_deletes_it() {
        assert!(
            check_pushed("echo", &written_by(&["windlass-push", "windlass"])).is_ok(),
            "the host may write the status"
        );
        let refused = check_pushed("echo", &written_by(&["kubectl"])).expect_err("written by kubectl").to_string();
        assert!(
            refused.contains("Plugin echo") && refused.contains("kubectl delete plugins.windlass.dev echo"),
            "{refused}"
        );
    }
}
