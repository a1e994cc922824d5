//! Checks a new component before its CRD replaces the installed one: if the new CRD has another storage version, the
//! live component is unpublished and cannot be restored.

use std::sync::Arc;

use futures::future::join_all;
use windlass_api::Plugin;
use windlass_core::contract::Descriptor;
use windlass_core::contract::declared_parent::DeclaredParent;
use windlass_core::object::names::LABEL_PLUGIN;
use windlass_core::value::ids::Gvk;

use super::kinds::Concern;
use super::permissions::{self, Lacking};
use super::problem::Problem;
use super::shared::Plugins;
use super::{caches, grants};
use crate::cluster::account::Account;
use crate::cluster::watch::Watch;
use crate::live::Live;

/// Runs the steps of a new component that do not need its own CRD; does nothing if the host would not install a CRD.
/// The leased watches are kept, and added to the dependencies of the Plugin.
///
/// # Errors
/// If a problem would keep the component from going live; the first one is returned.
pub(super) async fn check(
    plugins: &Plugins,
    plugin: &Plugin,
    (declared, descriptor): (&DeclaredParent, &Descriptor),
    (live, account): (&Live, &Account),
    waiting: &mut Concern,
) -> Result<(), Problem> {
    let Some(own) = declared.crd().filter(|_| plugin.spec.install_crd) else { return Ok(()) };
    let is_anothers = |kind: &Gvk| kind.group_kind() != own.kind().group_kind();
    let others = Descriptor {
        children: descriptor.children.iter().filter(|rule| is_anothers(&rule.kind)).cloned().collect(),
        related: descriptor.related.iter().filter(|kind| is_anothers(kind)).cloned().collect(),
        ..descriptor.clone()
    };
    let (discovery, spec_grants, host_namespace) =
        (&plugins.discovery, plugin.spec.spec_grants(), account.host_namespace());
    let granted = grants::resolve(discovery, &others, &spec_grants, own.is_namespaced(), &host_namespace).await?;
    grants::resolve_reads(discovery, &others, &spec_grants, &host_namespace).await?;
    let watches: Vec<Arc<Watch>> = granted
        .resources
        .iter()
        .map(|(kind, resource)| plugins.watches.lease(kind, resource, Some(LABEL_PLUGIN)))
        .collect();
    waiting.watches.extend(watches.iter().map(|watch| watch.id.clone()));
    plugins.kinds.follow(&live.terms.name, waiting.clone());
    plugins.keep_watches(&live.terms.name, watches.clone());
    for result in join_all(watches.iter().map(|watch| caches::synced(watch, false))).await {
        result?;
    }
    let lacking =
        permissions::review_children(&plugins.ask, account, &|| live.caches.parent_namespaces(), &granted).await?;
    lacking.as_ref().and_then(Lacking::vital).map_or(Ok(()), Err)
}
