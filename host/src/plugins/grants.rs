//! What a plugin may own: what it asks for, what its Plugin grants, what the cluster serves.

use std::sync::Arc;

use kube::Client;
use kube::core::GroupVersionKind;
use kube::discovery::{self, Scope};
use windlass_core::contract::Descriptor;
use windlass_core::desired::{Grant, Grants};
use windlass_core::ids::{Gvk, PluginName};
use windlass_core::json::Value;
use windlass_core::names::plugin_reason as reason;
use windlass_core::object::Object;
use windlass_core::status::observed;

use super::Plugins;
use super::load::{Problem, Resources, Step};
use crate::api::Plugin;

/// The grants, with the resources to watch and write.
pub(super) struct Granted {
    pub grants: Grants,
    pub resources: Resources,
}

/// Kinds that the descriptor asks for and the Plugin withholds.
pub(super) fn withheld(descriptor: &Descriptor, plugin: &Plugin) -> Vec<Gvk> {
    descriptor.children.iter().map(|rule| &rule.kind).filter(|kind| !is_granted(kind, plugin)).cloned().collect()
}

fn is_granted(kind: &Gvk, plugin: &Plugin) -> bool {
    match &plugin.spec.children {
        Some(kinds) => kinds.iter().any(|granted| granted.gvk() == *kind),
        None => !must_be_named(kind),
    }
}

/// Kinds by which a plugin could widen its own rights: only the Plugin resource itself can grant them, in so many
/// words.
fn must_be_named(kind: &Gvk) -> bool {
    matches!(
        (&*kind.group, &*kind.kind),
        ("rbac.authorization.k8s.io" | "admissionregistration.k8s.io" | "apiextensions.k8s.io" | "windlass.dev", _)
            | ("", "Namespace")
    )
}

/// Looks every granted kind up in the cluster.
pub(super) async fn resolve(
    client: &Client,
    descriptor: &Descriptor,
    plugin: &Plugin,
    parent_namespaced: bool,
) -> Result<Granted, Problem> {
    let mut grants = Vec::new();
    let mut resources = Resources::new();
    for rule in descriptor.children.iter().filter(|rule| is_granted(&rule.kind, plugin)) {
        let kind = Arc::new(rule.kind.clone());
        let wanted = GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
        let (resource, capabilities) =
            discovery::pinned_kind(client, &wanted).await.map_err(|error| missing(&kind, &error))?;
        let namespaced = capabilities.scope == Scope::Namespaced;
        if parent_namespaced && !namespaced {
            let message = format!("{kind} is cluster-scoped and cannot be the child of a namespaced parent");
            return Err(Problem::lasting(Step::Granted, reason::NOT_GRANTED, message));
        }
        grants.push(Grant { kind: kind.clone(), namespaced, update: rule.update.clone() });
        resources.push((kind, resource));
    }
    Ok(Granted { grants: Grants::new(grants), resources })
}

fn missing(kind: &Gvk, error: &kube::Error) -> Problem {
    let known_missing = match error {
        kube::Error::Discovery(_) => true,
        kube::Error::Api(status) => status.code == 404,
        _ => false,
    };
    if known_missing {
        let message = format!("the cluster does not serve {kind}, which the component wants as a child");
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
        let holds = live.as_ref().is_some_and(|live| live.parents.id.kind.group_kind() == parent.group_kind());
        // One that held the kind before the host started still does, though it may load later than this one.
        let held =
            live.is_none() && observed(&rival).get("parentKind").and_then(Value::as_str) == Some(&parent.to_string());
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

/// Creation time, then name: an order that every start of the host finds again.
fn age(object: &Object) -> (String, Arc<str>) {
    let created = object
        .field("metadata")
        .and_then(|meta| serde_json::from_str::<serde_json::Value>(meta.get()).ok())
        .and_then(|meta| Some(meta.get("creationTimestamp")?.as_str()?.to_owned()));
    (created.unwrap_or_default(), object.key.name.clone())
}
