//! Decides which Plugin keeps a custom kind that several Plugins claim.

use std::sync::Arc;

use windlass_core::object::Object;
use windlass_core::object::observed_status::observed;
use windlass_core::object::reason::PluginReason;
use windlass_core::value::ids::{Gvk, PluginName};
use windlass_core::value::json::Value;

use super::problem::{Problem, Step};
use super::shared::Plugins;
use crate::live::Live;

/// Claims a parent kind. A custom kind has one Plugin: the Plugin that has the kind keeps it, and of several that had
/// it, the one that has had it longest. Returns the other live Plugins of the kind, which must be unpublished.
///
/// A Plugin that has another kind, or none, comes last, however old it is: a component chooses its parent kind, and
/// must not take the kind of another Plugin. The status records the kind of a Plugin, so every start of the host finds
/// the same order.
///
/// A caller that publishes holds the publisher's lock, so that of two Plugins that load at once only one goes live.
pub(super) fn claim(
    plugins: &Plugins,
    name: &PluginName,
    object: &Object,
    parent: &Gvk,
) -> Result<Vec<PluginName>, Problem> {
    let holds = |name: &PluginName, object: &Object| {
        let is_live = |live: &Arc<Live>| live.terms.owns_kind && live.terms.parents.group_kind() == parent.group_kind();
        let live_with_it = plugins.registry.get(name).as_ref().map(is_live);
        let is_live = live_with_it.unwrap_or_default();
        rank_of_holder(live_with_it, object, parent).map(|rank| (rank, is_live))
    };
    let own = holds(name, object).map(|(rank, _)| rank);
    let mut others = Vec::new();
    for key in plugins.own.store.keys() {
        let (Ok(other), Some(rival)) = (key.name.parse::<PluginName>(), plugins.own.store.get(&key)) else { continue };
        let Some((rank, is_live)) = holds(&other, &rival).filter(|_| other != *name && !rival.deleting) else {
            continue;
        };
        if own.as_ref().is_none_or(|own| rank < *own) {
            let message = format!(
                "Plugin {other} reconciles {parent} already; delete it, or give it a component of another kind, first"
            );
            return Err(Problem::new(Step::Granted, PluginReason::ParentKindTaken, message));
        }
        if is_live {
            others.push(other);
        }
    }
    Ok(others)
}

/// Order in which Plugins keep a kind: the smallest keeps it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// Whether the Plugin's status does not record the kind yet.
    is_new: bool,
    since: String,
    created: String,
    name: Arc<str>,
}

impl Rank {
    fn of(since: Option<String>, plugin: &Object) -> Self {
        let created = created(plugin);
        Self { is_new: since.is_none(), since: since.unwrap_or_default(), created, name: plugin.key.name.clone() }
    }
}

/// The rank of a Plugin that has the kind, by its live component, or by its status if no component is live; otherwise
/// none. `live_with_it`: whether the live component has the kind; none if no component is live.
fn rank_of_holder(live_with_it: Option<bool>, plugin: &Object, parent: &Gvk) -> Option<Rank> {
    let since = held_since(plugin, parent);
    match live_with_it {
        Some(true) => Some(Rank::of(since, plugin)),
        // A live component with another kind supersedes the status from before the start.
        Some(false) => None,
        None => since.map(|since| Rank::of(Some(since), plugin)),
    }
}

/// Time since which a Plugin has the kind, by its status, or its creation time if the status has no time. None if the
/// status does not record the kind.
fn held_since(plugin: &Object, parent: &Gvk) -> Option<String> {
    let status = observed(plugin);
    if !matches!(status.get("decorates"), None | Some(Value::Bool(false))) {
        return None;
    }
    let kind = status.get("parentKind")?.as_str()?.parse::<Gvk>().ok()?;
    let since = || match status.get("parentKindSince") {
        None | Some(Value::Null) => Some(created(plugin)),
        Some(since) => since.as_str().map(str::to_owned),
    };
    (kind.group_kind() == parent.group_kind()).then(since).flatten()
}

/// Creation time of a Plugin, as the API server formats it: the order of these texts is that of the times.
pub(super) fn created(plugin: &Object) -> String {
    let created = plugin.field("metadata").and_then(|meta| Some(meta.at(&["creationTimestamp"])?.as_str()?.to_owned()));
    created.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn plugin(name: &str, created: &str, status: &Value) -> Object {
        let plugin = json!({
            "metadata": {"name": name, "uid": name, "resourceVersion": "1", "creationTimestamp": created},
            "status": status,
        });
        Object::from_api(&Arc::new(windlass_api::plugin_kind()), &plugin.to_string()).expect("a Plugin")
    }

    fn rank(plugin: &Object) -> Option<Rank> {
        let kind = "Echo.v2.my-operator.dev".parse().expect("a kind");
        held_since(plugin, &kind).map(|since| Rank::of(Some(since), plugin))
    }

    #[test]
    fn s04_plugin_holds_the_kind_of_its_live_component_or_before_that_the_one_in_its_status() {
        let kind: Gvk = "Echo.v1.my-operator.dev".parse().expect("a kind");
        let had = plugin(
            "had",
            "2026-01-01T00:00:00Z",
            &json!({"parentKind": "Echo.v1.my-operator.dev", "parentKindSince": "t"}),
        );
        let never = plugin("never", "2026-01-01T00:00:00Z", &json!({}));
        let has = |live_with_it, plugin| rank_of_holder(live_with_it, plugin, &kind).is_some();
        assert!(has(None, &had), "the host has just started");
        assert!(has(Some(true), &had));
        assert!(!has(Some(false), &had), "its live component has another kind");
        assert!(!has(None, &never));
        assert!(has(Some(true), &never), "its status does not name the kind yet");
    }

    #[test]
    fn plugin_that_serves_a_kind_keeps_it_even_if_another_plugin_is_older() {
        let echo = "Echo.v1.my-operator.dev";
        let serves = |since: &str| json!({"parentKind": echo, "parentKindSince": since});
        let young = plugin("young", "2026-03-01T00:00:00Z", &serves("2026-03-01T00:00:01Z"));
        let old = |status: &Value| plugin("old", "2026-01-01T00:00:00Z", status);
        assert_eq!(rank(&old(&json!({"parentKind": "Other.v1.my-operator.dev"}))), None, "the Plugin has another kind");
        assert_eq!(rank(&old(&json!({}))), None, "the Plugin has no kind");
        assert_eq!(
            rank(&old(&json!({"parentKind": echo, "decorates": true}))),
            None,
            "the kind is not the Plugin's own"
        );
        assert!(
            rank(&young) < rank(&old(&serves("2026-04-01T00:00:00Z"))),
            "a Plugin that changed to the kind later ranks lower"
        );
        assert!(
            rank(&old(&json!({"parentKind": echo}))) < rank(&young),
            "a status without the time counts from creation"
        );
        let unwritten = Rank::of(None, &old(&json!({})));
        assert!(rank(&young).is_some_and(|rank| rank < unwritten));
    }
}
