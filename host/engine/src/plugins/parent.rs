//! Resolves the parent kind of a plugin: one whose CRD the component carries, or an existing one.

use std::collections::HashSet;
use std::sync::Arc;

use kube::discovery::Scope;
use windlass_core::contract::Descriptor;
use windlass_core::contract::declared_parent::DeclaredParent;
use windlass_core::contract::grant::{Withheld, may_be_parent};
use windlass_core::object::observed_status::StatusShape;
use windlass_core::object::reason::PluginReason;
use windlass_core::value::ids::Gvk;

use super::crd::{self, Install, ParentKind};
use super::grants::look_up;
use super::load::Loading;
use super::problem::{Problem, Step};
use crate::cluster::discovery::Discovery;
use crate::live::CrdOwner;

/// Finds the parent kind. If the component carries its CRD and `spec.installCRD` is set, installs the CRD first; an existing
/// kind must be granted if it is sensitive, or if its objects get a finalizer.
pub(super) async fn resolve(
    Loading { plugins, name, plugin, component, declared }: &Loading<'_>,
) -> Result<ParentKind, Problem> {
    let install = Install::by(&plugin.spec, component.digest());
    let parent = match declared {
        DeclaredParent::Own(carried) => crd::resolve(&plugins.client, name, carried, install).await?,
        DeclaredParent::Existing(kind) => {
            let parent = existing(&plugins.discovery, kind).await?;
            let grants = plugin.spec.grants.spec_grants();
            grants
                .may_reconcile(kind, parent.namespaced, component.descriptor().sets_finalizer())
                .map_err(|why| not_granted(kind, why))?;
            parent
        }
    };
    Ok(ParentKind { selector: component.descriptor().selector.labels().map(str::to_owned), ..parent })
}

/// The problem of a parent kind that the Plugin does not grant.
fn not_granted(kind: &Gvk, why: Withheld) -> Problem {
    let message = format!(
        "the component reconciles {kind}, which {why}. If the plugin may do that, set spec.grants.parent to apiVersion {}, kind {}",
        kind.api_version(),
        kind.kind
    );
    Problem { is_revoked: true, ..Problem::lasting(Step::Granted, PluginReason::NotGranted, message) }
}

/// The groups of all kinds of a component: a missing CRD is of one of these groups.
pub(super) fn groups_of(declared: &DeclaredParent, descriptor: &Descriptor) -> HashSet<Arc<str>> {
    let children = descriptor.children.iter().map(|rule| &rule.kind);
    children.chain(&descriptor.related).chain([declared.kind()]).map(|kind| kind.group.clone()).collect()
}

async fn existing(discovery: &Discovery, kind: &Gvk) -> Result<ParentKind, Problem> {
    if !may_be_parent(kind) {
        let message = format!("{kind} is Windlass' own; a plugin may not reconcile it");
        return Err(Problem::lasting(Step::Granted, PluginReason::NotGranted, message));
    }
    let (resource, capabilities) = look_up(discovery, kind, PluginReason::ParentKindMissing, "reconciles").await?;
    Ok(ParentKind {
        kind: Arc::new(kind.clone()),
        crd_owner: CrdOwner::Others,
        resource,
        namespaced: capabilities.scope == Scope::Namespaced,
        shape: StatusShape::NONE,
        selector: None,
    })
}
