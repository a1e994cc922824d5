//! Checks a new component before its CRD replaces the installed one: if the new CRD has another storage version, the
//! live component is unpublished and cannot be restored.

use std::sync::Arc;

use kube::core::ApiResource;
use windlass_core::contract::Descriptor;
use windlass_core::object::names::LABEL_PLUGIN;
use windlass_core::value::ids::Gvk;

use super::grants;
use super::kinds::Concern;
use super::load::Loading;
use super::permissions::{self, Lacking};
use super::problem::Problem;
use crate::cluster::account::Account;
use crate::live::Live;

impl Loading<'_> {
    /// Runs the steps of a new component that do not need its own CRD; does nothing if the host would not install a CRD.
    /// The leased watches are kept, and added to the dependencies of the Plugin.
    ///
    /// # Errors
    /// If a problem would keep the component from going live; the first one is returned.
    pub(super) async fn preflight(&self, live: &Live, account: &Account, waiting: &mut Concern) -> Result<(), Problem> {
        let Self { plugins, plugin, component, declared, .. } = self;
        let Some(own) = declared.crd().filter(|_| plugin.spec.install_crd) else { return Ok(()) };
        let (descriptor, spec_grants, host_namespace) =
            (component.descriptor(), plugin.spec.grants.spec_grants(), account.host_namespace());
        let is_anothers = |kind: &Gvk| kind.group_kind() != own.kind().group_kind();
        let others = Descriptor {
            children: descriptor.children.iter().filter(|rule| is_anothers(&rule.kind)).cloned().collect(),
            related: descriptor.related.iter().filter(|kind| is_anothers(kind)).cloned().collect(),
            ..descriptor.clone()
        };
        let discovery = &plugins.discovery;
        let granted = grants::resolve(discovery, &others, &spec_grants, own.is_namespaced(), &host_namespace).await?;
        grants::resolve_reads(discovery, &others, &spec_grants, &host_namespace).await?;
        let lease =
            |(kind, resource): &(Arc<Gvk>, ApiResource)| plugins.watches.lease(kind, resource, Some(LABEL_PLUGIN));
        self.keep_and_fill(granted.resources.iter().map(lease).collect(), None, waiting).await?;
        let lacking =
            permissions::review_children(&plugins.ask, account, &|| live.caches.parent_namespaces(), &granted).await?;
        lacking.as_ref().and_then(Lacking::vital).map_or(Ok(()), Err)
    }
}
