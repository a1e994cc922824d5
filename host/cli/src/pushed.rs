//! Finds and recognizes objects that `windlass push` wrote.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta, OwnerReference};
use kube::Api;
use kube::api::ListParams;
use windlass_core::value::ids::PluginName;

use super::connect::plain;
use super::output::list_of_names;

/// Field manager of pushes, different from the host's.
pub const FIELD_MANAGER: &str = "windlass-push";
/// Label on the parts of a component and on permissions: the Plugin that they belong to.
pub const PART_OF_LABEL: &str = "windlass.dev/part-of";

/// The parts of a Plugin's component and of earlier ones, among the ConfigMaps of a namespace.
pub async fn parts(maps: &Api<ConfigMap>, plugin: &PluginName) -> anyhow::Result<Vec<ObjectMeta>> {
    let labelled = ListParams::default().labels(&format!("{PART_OF_LABEL}={plugin}"));
    let parts = maps.list_metadata(&labelled).await.map_err(plain)?;
    Ok(parts.items.into_iter().map(|part| part.metadata).collect())
}

/// The name of the Plugin for which an object was pushed, by its label or its ownerReference; none if it has neither.
pub fn plugin_of(metadata: &ObjectMeta) -> Option<&str> {
    let label = metadata.labels.as_ref().and_then(|labels| labels.get(PART_OF_LABEL)).map(String::as_str);
    let owners = metadata.owner_references.iter().flatten();
    let is_plugin = |owner: &&OwnerReference| owner.kind == "Plugin" && owner.api_version.starts_with("windlass.dev/");
    label.or_else(|| owners.into_iter().find(is_plugin).map(|owner| owner.name.as_str()))
}

/// Why an object must not be deleted with this Plugin: it belongs to another Plugin, has no fields that push wrote, or
/// has fields that others wrote as well. None if it may be deleted.
pub fn reason_to_keep(plugin: &PluginName, meta: &ObjectMeta) -> Option<String> {
    if let Some(of) = plugin_of(meta).filter(|of| *of != plugin.as_str()) {
        return Some(format!("it belongs to Plugin {of}"));
    }
    let entries = || meta.managed_fields.iter().flatten();
    if !entries().any(is_pushs) {
        return Some("it was not written by `windlass push`".to_owned());
    }
    let others = list_of_names(entries().filter(|entry| !is_pushs(entry)).filter_map(|entry| entry.manager.as_deref()));
    others.map(|others| format!("it was also written by {others}; delete it by hand"))
}

/// Whether a push wrote this entry of managedFields.
pub fn is_pushs(entry: &ManagedFieldsEntry) -> bool {
    entry.manager.as_deref() == Some(FIELD_MANAGER)
}

/// Metadata of an object that these field managers wrote.
#[cfg(test)]
pub fn written_by(managers: &[&str]) -> ObjectMeta {
    let entry = |manager: &&str| ManagedFieldsEntry {
        manager: Some((*manager).to_owned()),
        operation: Some("Apply".to_owned()),
        ..ManagedFieldsEntry::default()
    };
    ObjectMeta { managed_fields: Some(managers.iter().map(entry).collect()), ..ObjectMeta::default() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn only_objects_written_by_push_alone_are_deleted_and_others_are_kept_with_a_reason() {
        let echo: PluginName = "echo".parse().expect("a name");
        let kept = |meta: &ObjectMeta| reason_to_keep(&echo, meta);
        assert_eq!(kept(&written_by(&["windlass-push"])), None);
        assert_eq!(kept(&written_by(&[])).as_deref(), Some("it was not written by `windlass push`"));
        assert_eq!(kept(&written_by(&["kubectl"])).as_deref(), Some("it was not written by `windlass push`"));
        let both = kept(&written_by(&["kubectl-edit", "windlass-push", "kubectl-edit"]));
        assert_eq!(both.as_deref(), Some("it was also written by kubectl-edit; delete it by hand"));
        let labels = BTreeMap::from([(PART_OF_LABEL.to_owned(), "other".to_owned())]);
        let others = ObjectMeta { labels: Some(labels), ..written_by(&["windlass-push"]) };
        assert_eq!(kept(&others).as_deref(), Some("it belongs to Plugin other"));
    }
}
