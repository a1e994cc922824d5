//! Resolves the kinds that a plugin may own and read: requested by the component, granted by the Plugin, and served by
//! the cluster.

use std::collections::HashMap;
use std::sync::Arc;

use kube::core::ApiResource;
use kube::discovery::{ApiCapabilities, Scope};
use windlass_core::contract::Descriptor;
use windlass_core::contract::desired::{Grant, Grants};
use windlass_core::contract::grant::{self, Presence, SpecGrants};
use windlass_core::contract::related::{ReadGrant, ReadGrants};
use windlass_core::contract::reserved::HostNamespace;
use windlass_core::object::reason::PluginReason;
use windlass_core::value::ids::Gvk;

use super::problem::{Problem, Step};
use crate::cluster::discovery::{Discovery, is_missing};
use crate::cluster::plain;
use crate::live::GrantedReads;

/// The resource of a kind, and what it can do.
type Found = (ApiResource, ApiCapabilities);

/// Kinds of a plugin with their API resources.
pub type Resources = Vec<(Arc<Gvk>, ApiResource)>;

/// The grants of child kinds, with the resources to watch and write.
pub struct Granted {
    /// The grants.
    pub grants: Grants,
    /// The resources of the granted kinds.
    pub resources: Resources,
}

/// Looks up every granted child kind in the cluster.
///
/// # Errors
/// If the cluster does not serve a kind, or a kind has the wrong scope; the problem's message is for users.
pub async fn resolve(
    discovery: &Discovery,
    descriptor: &Descriptor,
    spec_grants: &SpecGrants,
    parent_namespaced: bool,
    host_namespace: &HostNamespace,
) -> Result<Granted, Problem> {
    let mut grants = Vec::new();
    let mut resources = Resources::new();
    for rule in descriptor.children.iter().filter(|rule| spec_grants.may_own(&rule.kind).is_ok()) {
        let kind = Arc::new(rule.kind.clone());
        let (found, presence) = find(discovery, descriptor, &kind, "requests as a child").await?;
        let namespaced = found.as_ref().is_some_and(|(_, capabilities)| capabilities.scope == Scope::Namespaced);
        if found.is_some()
            && let Err(why) = grant::child_scope_fits(parent_namespaced, namespaced)
        {
            return Err(Problem::lasting(Step::Granted, PluginReason::NotGranted, format!("{kind} {why}")));
        }
        let owned = spec_grants.owned(&kind);
        grants.push(Grant {
            kind: kind.clone(),
            namespaced,
            update: rule.update.clone(),
            namespaces: owned.and_then(|owned| owned.namespaces.clone()),
            tokens: owned.is_some_and(|owned| owned.tokens),
            presence,
        });
        resources.extend(found.map(|(resource, _)| (kind, resource)));
    }
    let withheld = descriptor.children.iter().filter_map(|rule| {
        let why = spec_grants.may_own(&rule.kind).err()?;
        Some((rule.kind.clone(), why))
    });
    let grants = Grants::new(host_namespace.clone(), grants).with_withheld(withheld.collect());
    Ok(Granted { grants, resources })
}

/// Looks up the kinds that a plugin requests to read, and determines the namespaces in which it may read them.
///
/// # Errors
/// If the cluster does not serve a kind; the problem's message is for users.
pub async fn resolve_reads(
    discovery: &Discovery,
    descriptor: &Descriptor,
    spec_grants: &SpecGrants,
    host_namespace: &HostNamespace,
) -> Result<GrantedReads, Problem> {
    if descriptor.related.is_empty() {
        return Ok(GrantedReads::default());
    }
    let mut grants = Vec::new();
    let mut resources = HashMap::new();
    for kind in &descriptor.related {
        let (found, presence) = find(discovery, descriptor, kind, "requests to read").await?;
        // Nothing is read of a kind that the cluster does not serve, whatever its scope would be.
        let namespaced = found.as_ref().is_none_or(|(_, capabilities)| capabilities.scope == Scope::Namespaced);
        if let Ok(grant) = spec_grants.may_read(kind, namespaced) {
            resources.extend(found.map(|(resource, _)| (kind.clone(), Arc::new(resource))));
            grants.push(ReadGrant { presence, ..grant });
        }
    }
    Ok(GrantedReads { grants: ReadGrants::new(host_namespace.clone(), grants), resources })
}

/// Looks up a kind that a component declares; none if it is optional and the cluster does not serve it. One whose CRD is being deleted does
/// not count as served: no object of it can be created.
async fn find(
    discovery: &Discovery,
    descriptor: &Descriptor,
    kind: &Gvk,
    does: &str,
) -> Result<(Option<Found>, Presence), Problem> {
    let is_optional = descriptor.optional.contains(kind);
    match look_up(discovery, kind, PluginReason::ChildKindMissing, does).await {
        Ok((_, capabilities)) if is_optional && is_being_deleted(&capabilities) => Ok((None, Presence::Absent)),
        Ok(found) => Ok((Some(found), if is_optional { Presence::Served } else { Presence::Required })),
        Err(problem) if is_optional && problem.reason == PluginReason::ChildKindMissing => Ok((None, Presence::Absent)),
        Err(problem) => Err(problem),
    }
}

/// Whether the CRD of a kind is being deleted: then its objects can be deleted, and none created.
fn is_being_deleted(capabilities: &ApiCapabilities) -> bool {
    capabilities.supports_operation("delete") && !capabilities.supports_operation("create")
}

/// Looks up a kind. `if_missing` is the reason of the problem if the cluster does not serve the kind, and `does` is what the
/// component does with the kind.
pub(super) async fn look_up(
    discovery: &Discovery,
    kind: &Gvk,
    if_missing: PluginReason,
    does: &str,
) -> Result<Found, Problem> {
    discovery.find(kind).await.map_err(|error| {
        let (reason, message) = if is_missing(&error) {
            (if_missing, format!("the cluster does not serve {kind}, which the component {does}"))
        } else {
            (PluginReason::ApiError, format!("{kind} could not be looked up: {}", plain(&error)))
        };
        Problem::new(Step::Granted, reason, message)
    })
}
