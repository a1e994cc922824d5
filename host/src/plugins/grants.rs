//! What a plugin may own and read: what it asks for, what its Plugin grants, what the cluster serves.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use kube::core::ApiResource;
use kube::discovery::{ApiCapabilities, Scope};
use serde::Deserialize;
use windlass_core::contract::Descriptor;
use windlass_core::desired::{Grant, Grants};
use windlass_core::grant;
use windlass_core::ids::{Gvk, PluginName};
use windlass_core::names::plugin_reason as reason;
use windlass_core::object::Object;
use windlass_core::related::ReadGrants;

use super::Plugins;
use super::discovery::{Discovery, is_missing};
use super::load::{Problem, Resources, Step};
use crate::api::Plugin;
use crate::related::Reads;

/// The grants, with the resources to watch and write.
pub(super) struct Granted {
    pub grants: Grants,
    pub resources: Resources,
}

/// Kinds that the descriptor asks for and the Plugin withholds.
pub(super) fn withheld(descriptor: &Descriptor, plugin: &Plugin) -> Vec<Gvk> {
    let allowance = plugin.spec.allowance();
    descriptor.children.iter().map(|rule| &rule.kind).filter(|kind| allowance.may_own(kind).is_err()).cloned().collect()
}

/// Looks every granted kind up in the cluster.
pub(super) async fn resolve(
    discovery: &Discovery,
    descriptor: &Descriptor,
    plugin: &Plugin,
    parent_namespaced: bool,
) -> Result<Granted, Problem> {
    let allowance = plugin.spec.allowance();
    let mut grants = Vec::new();
    let mut resources = Resources::new();
    for rule in descriptor.children.iter().filter(|rule| allowance.may_own(&rule.kind).is_ok()) {
        let kind = Arc::new(rule.kind.clone());
        let (resource, capabilities) = look_up(discovery, &kind, "as a child").await?;
        let namespaced = capabilities.scope == Scope::Namespaced;
        if let Err(why) = grant::fits(parent_namespaced, namespaced) {
            return Err(Problem::lasting(Step::Granted, reason::NOT_GRANTED, format!("{kind} {why}")));
        }
        grants.push(Grant { kind: kind.clone(), namespaced, update: rule.update.clone() });
        resources.push((kind, resource));
    }
    Ok(Granted { grants: Grants::new(grants), resources })
}

/// Looks the kinds up that a plugin asks to read, and settles where it may read them.
pub(super) async fn resolve_reads(
    discovery: &Discovery,
    descriptor: &Descriptor,
    plugin: &Plugin,
) -> Result<Reads, Problem> {
    if descriptor.related.is_empty() {
        return Ok(Reads::default());
    }
    let allowance = plugin.spec.allowance();
    let mut grants = Vec::new();
    let mut resources = HashMap::new();
    for kind in &descriptor.related {
        let (resource, capabilities) = look_up(discovery, kind, "to read").await?;
        if let Ok(grant) = allowance.may_read(kind, capabilities.scope == Scope::Namespaced) {
            resources.insert(kind.clone(), Arc::new(resource));
            grants.push(grant);
        }
    }
    Ok(Reads { grants: ReadGrants::new(grants), resources })
}

async fn look_up(discovery: &Discovery, kind: &Gvk, wish: &str) -> Result<(ApiResource, ApiCapabilities), Problem> {
    discovery.find(kind).await.map_err(|error| missing(kind, wish, &error))
}

fn missing(kind: &Gvk, wish: &str, error: &kube::Error) -> Problem {
    if is_missing(error) {
        let message = format!("the cluster does not serve {kind}, which the component wants {wish}");
        Problem::new(Step::Granted, reason::CHILD_KIND_MISSING, message)
    } else {
        Problem::new(Step::Granted, reason::API_ERROR, format!("{kind} could not be looked up: {error}"))
    }
}

/// A custom kind has one Plugin: the older one wins. Answers with the younger ones that have to go.
///
/// Asked while the registry is held for writing, so that of two Plugins that load at once only one goes live.
pub(super) fn claim(
    plugins: &Plugins,
    name: &PluginName,
    object: &Object,
    parent: &Gvk,
) -> Result<Vec<PluginName>, Problem> {
    let mut younger = Vec::new();
    for key in plugins.own.store.keys() {
        let (Ok(other), Some(rival)) = (key.name.parse::<PluginName>(), plugins.own.store.get(&key)) else { continue };
        let live = plugins.registry.get(&other);
        let holds = live
            .as_ref()
            .is_some_and(|live| live.owns_kind() && live.parents.id.kind.group_kind() == parent.group_kind());
        // One that held the kind before the host started still does, though it may load later than this one.
        let held = live.is_none() && held_before(&rival, parent);
        if other == *name || rival.deleting || !(holds || held) {
            continue;
        }
        if age(&rival) <= age(object) {
            let message = format!("Plugin {other}, which is older, reconciles {parent} already; delete one of them");
            return Err(Problem::new(Step::Granted, reason::PARENT_KIND_TAKEN, message));
        }
        if holds {
            younger.push(other);
        }
    }
    Ok(younger)
}

/// Whether a Plugin's status says that the kind was its own. Each Plugin that loads asks this of all others.
fn held_before(rival: &Object, parent: &Gvk) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Status<'a> {
        #[serde(borrow)]
        parent_kind: Option<Cow<'a, str>>,
        #[serde(default)]
        decorates: bool,
    }
    let status = rival.field("status");
    let status = status.as_ref().and_then(|status| serde_json::from_str::<Status<'_>>(status.get()).ok());
    status
        .is_some_and(|status| !status.decorates && status.parent_kind.is_some_and(|kind| *kind == *parent.to_string()))
}

/// Creation time, then name: an order that every start of the host finds again.
fn age(object: &Object) -> (String, Arc<str>) {
    let created = object
        .field("metadata")
        .and_then(|meta| serde_json::from_str::<serde_json::Value>(meta.get()).ok())
        .and_then(|meta| Some(meta.get("creationTimestamp")?.as_str()?.to_owned()));
    (created.unwrap_or_default(), object.key.name.clone())
}
