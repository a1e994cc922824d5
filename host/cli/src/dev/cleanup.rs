//! Deletes what `windlass dev` has created, and keeps what others use.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, ObjectMeta};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use windlass_api::PLUGIN_CRD;
use windlass_core::contract::declared_parent::DeclaredParent;
use windlass_core::object::names::LABEL_PLUGIN;
use windlass_core::value::ids::PluginName;

use super::cluster::{is_of_dev, names_of};
use super::terminal::{Terminal, Tone};
use super::{FIELD_MANAGER, READY_TIMEOUT, samples};
use crate::applied::{api, metadata};
use crate::connect::plain;
use crate::deleted::{Deletion, delete};
use crate::remove::Written;
use crate::uninstall::plugins;

/// What may be deleted.
pub struct Cleanup<'a> {
    /// The client of the user.
    pub client: &'a Client,
    /// The host's namespace.
    pub namespace: &'a str,
    /// Where the output goes.
    pub terminal: &'a Terminal,
}

impl Cleanup<'_> {
    /// Deletes the samples, the Plugin with its permissions, and the CRD that it installed, unless objects of the kind are
    /// left. The host must still run, because it handles the deletion of parents and Plugin.
    ///
    /// # Errors
    /// If something could not be deleted.
    pub async fn of_plugin(
        &self,
        name: &PluginName,
        declared: &DeclaredParent,
        (files, sample_namespace): (&[PathBuf], &str),
    ) -> anyhow::Result<()> {
        for file in files {
            for object in samples::delete_file(self.client, file, sample_namespace).await? {
                self.print_deleted(&object);
            }
        }
        let written = Written::find(self.client, name, self.namespace).await?;
        // Children stay with parents that the command has not created.
        written.delete(self.client, false, READY_TIMEOUT, |line| self.terminal.print(Tone::Plain, line)).await?;
        let Some(carried) = declared.crd() else { return Ok(()) };
        let crds = Api::<CustomResourceDefinition>::all(self.client.clone());
        let what = format!("CustomResourceDefinition {}", carried.name());
        let Some(found) = metadata(&crds, carried.name(), &what).await? else { return Ok(()) };
        let installer = found.labels.as_ref().and_then(|labels| labels.get(LABEL_PLUGIN));
        if installer.map(String::as_str) != Some(name.as_str()) {
            return Ok(());
        }
        let kind = declared.kind();
        let gvk = GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, &carried.resource().1);
        let left =
            api(self.client, &resource, None).list_metadata(&ListParams::default().limit(1)).await.map_err(plain);
        if left.with_context(|| format!("the objects of {what} could not be listed"))?.items.is_empty() {
            self.delete(&crds, carried.name(), &found, &what).await
        } else {
            self.terminal.print(Tone::Plain, &format!("left {what}: objects of the kind exist"));
            Ok(())
        }
    }

    /// Deletes what is left if no host has started in this run. `begun` is the plugin for which this run wrote objects.
    ///
    /// # Errors
    /// If there are Plugins, with which only a host can finish, or if something could not be deleted.
    pub async fn without_host(&self, begun: Option<&PluginName>) -> anyhow::Result<()> {
        let plugins = plugins(self.client).await?;
        ensure!(
            plugins.is_empty(),
            "nothing was deleted: there are Plugins ({}), and only a host can finish with them, but none has started in this \
             run",
            names_of(&plugins)
        );
        if let Some(name) = begun {
            let written = Written::find(self.client, name, self.namespace).await?;
            written.delete(self.client, false, READY_TIMEOUT, |line| self.terminal.print(Tone::Plain, line)).await?;
        }
        self.of_host().await
    }

    /// Deletes the namespace and the CRD of Plugins, if `windlass dev` created them and no Plugin is left. The host must have
    /// ended, because its Lease is in the namespace.
    ///
    /// # Errors
    /// If something could not be deleted.
    pub async fn of_host(&self) -> anyhow::Result<()> {
        let plugins = plugins(self.client).await?;
        if !plugins.is_empty() {
            let (namespace, names) = (self.namespace, names_of(&plugins));
            let left = format!(
                "left Namespace {namespace} and CustomResourceDefinition {PLUGIN_CRD}: Plugins exist ({names})"
            );
            self.terminal.print(Tone::Plain, &left);
            return Ok(());
        }
        let namespaces = Api::<Namespace>::all(self.client.clone());
        let what = format!("Namespace {}", self.namespace);
        if let Some(found) = metadata(&namespaces, self.namespace, &what).await?.filter(is_of_dev) {
            self.delete(&namespaces, self.namespace, &found, &what).await?;
        }
        let crds = Api::<CustomResourceDefinition>::all(self.client.clone());
        let what = format!("CustomResourceDefinition {PLUGIN_CRD}");
        if let Some(found) = metadata(&crds, PLUGIN_CRD, &what).await?.filter(is_applied_by_dev_alone) {
            self.delete(&crds, PLUGIN_CRD, &found, &what).await?;
        }
        Ok(())
    }

    async fn delete<K>(&self, api: &Api<K>, name: &str, meta: &ObjectMeta, what: &str) -> anyhow::Result<()>
    where
        K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let deletion = delete(api, name, meta.uid.clone(), DeleteParams::default()).await;
        if deletion.with_context(|| format!("{what} was not deleted"))? == Deletion::Accepted {
            self.print_deleted(what);
        }
        Ok(())
    }

    fn print_deleted(&self, what: &str) {
        self.terminal.print(Tone::Plain, &format!("deleted {what}"));
    }
}

/// Whether no other field manager has applied an object since `windlass dev` did.
fn is_applied_by_dev_alone(meta: &ObjectMeta) -> bool {
    let entries = meta.managed_fields.iter().flatten().filter(|entry| entry.subresource.is_none());
    let applied: Vec<_> = entries.filter(|entry| entry.operation.as_deref() == Some("Apply")).collect();
    !applied.is_empty() && applied.iter().all(|entry| entry.manager.as_deref() == Some(FIELD_MANAGER))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn crd_of_plugins_is_deleted_only_if_nobody_else_has_applied_it() {
        let meta = |managers: &[&str]| -> ObjectMeta {
            let entries: Vec<_> =
                managers.iter().map(|manager| json!({"manager": manager, "operation": "Apply"})).collect();
            serde_json::from_value(json!({"managedFields": entries})).expect("metadata")
        };
        assert!(is_applied_by_dev_alone(&meta(&["windlass-dev"])));
        assert!(!is_applied_by_dev_alone(&meta(&["windlass-dev", "windlass-install"])));
        assert!(!is_applied_by_dev_alone(&meta(&["kubectl"])));
        assert!(!is_applied_by_dev_alone(&meta(&[])));
    }
}
