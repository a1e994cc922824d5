//! Applies the objects that a command writes, by the API that serves their kind, and reads what is there.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::Context as _;
use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, ObjectMeta};
use kube::{Api, Client, discovery};
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_api::Plugin;
use windlass_core::value::ids::PluginName;
use windlass_engine::cluster::requests::parse_timeout;

use super::connect::plain;
use super::output::DryRun;

/// Flags of a command that writes objects and waits for their effect.
#[derive(Debug, clap::Args)]
pub struct WriteArgs {
    /// Print what would be written, and write nothing; with server, the API server validates it first
    #[arg(long, value_name = "WHERE", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub dry_run: Option<DryRun>,
    /// Do not wait
    // Each command replaces this text by what it waits for.
    #[arg(long)]
    pub no_wait: bool,
    /// How long to wait, as in 90s or 5m; a number alone counts seconds
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_timeout)]
    pub timeout: Duration,
}

/// An object to write, with its API.
pub type Target = (Api<DynamicObject>, DynamicObject);

/// The object as it is in the cluster; none if it does not exist.
pub async fn found(client: &Client, object: &Value) -> anyhow::Result<Option<Value>> {
    let (api, object) = target(client, object).await?;
    let found = api.get_opt(object.metadata.name.as_deref().unwrap_or_default()).await;
    let found = found.map_err(plain).with_context(|| format!("{} could not be read", describe(&object)))?;
    Ok(found.map(serde_json::to_value).transpose()?)
}

/// The metadata of an object, which the error calls `what`; none if it does not exist.
pub async fn metadata<K>(api: &Api<K>, name: &str, what: &str) -> anyhow::Result<Option<ObjectMeta>>
where
    K: Clone + Debug + DeserializeOwned,
{
    let found = api.get_metadata_opt(name).await.map_err(plain);
    Ok(found.with_context(|| format!("{what} could not be read"))?.map(|found| found.metadata))
}

/// The Plugin of this name; none if it does not exist.
pub async fn plugin(client: &Client, name: &PluginName) -> anyhow::Result<Option<Plugin>> {
    let found = Api::<Plugin>::all(client.clone()).get_opt(name.as_str()).await.map_err(plain);
    found.with_context(|| format!("Plugin {name}"))
}

/// Finds the API of an object's kind.
pub async fn target(client: &Client, object: &Value) -> anyhow::Result<Target> {
    let object: DynamicObject = serde_json::from_value(object.clone())?;
    let gvk = GroupVersionKind::try_from(object.types.clone().unwrap_or_default())?;
    let what = describe(&object);
    let hint = match gvk.kind.as_str() {
        "Plugin" => "; install it with `windlass install`",
        "ValidatingAdmissionPolicy" => "; Windlass needs Kubernetes 1.30 or newer",
        _ => "",
    };
    let (resource, _) = discovery::pinned_kind(client, &gvk)
        .await
        .map_err(plain)
        .with_context(|| format!("{what}: the cluster does not serve {}{hint}", gvk.kind))?;
    Ok((api(client, &resource, object.metadata.namespace.as_deref()), object))
}

/// The API of a kind, in a namespace or for cluster-scoped objects.
pub fn api(client: &Client, resource: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    }
}

/// The name of an object in messages.
pub fn describe(object: &DynamicObject) -> String {
    named(object.types.as_ref().map_or("", |types| types.kind.as_str()), &object.metadata)
}

/// The name of an object of this kind in messages.
pub fn named(kind: &str, meta: &ObjectMeta) -> String {
    let name = meta.name.as_deref().unwrap_or_default();
    match &meta.namespace {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

/// Applies an object strictly: a field that an older CRD does not know must not be dropped silently. Returns its uid.
pub async fn apply((api, object): &Target, params: PatchParams) -> anyhow::Result<String> {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let written = api.patch_metadata(name, &params.validation_strict(), &Patch::Apply(object)).await.map_err(plain);
    let written = written.with_context(|| format!("{} was not written", describe(object)))?;
    Ok(written.metadata.uid.unwrap_or_default())
}
