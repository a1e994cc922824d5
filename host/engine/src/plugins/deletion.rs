//! Handles the deletion of a Plugin: removes its finalizers from its parents, and keeps or deletes its children
//! according to `spec.deletionPolicy`. The kinds come from the Plugin's status, so no component is needed: it may be
//! broken, or gone.

use std::cmp::Reverse;
use std::sync::Arc;

use futures::stream::{self, StreamExt};
use kube::Client;
use kube::core::ApiResource;
use windlass_api::{DeletionPolicy, Plugin, PluginStatus};
use windlass_core::object::Object;
use windlass_core::object::child::Delete;
use windlass_core::object::names::{ANNOTATION_SKIP_FINALIZE, HOST_FINALIZER};
use windlass_core::object::order::install_rank;
use windlass_core::object::reason::PluginReason;
use windlass_core::reconcile::api_response::Refused;
use windlass_core::reconcile::next_step::{FinalizerChange, finalizers_with, has_finalizer};
use windlass_core::value::ids::Gvk;

use super::leftovers::Leftovers;
use super::problem::{Problem, Step};
use crate::cluster::account::{Account, AccountError};
use crate::cluster::writer::audit::about;
use crate::cluster::writer::request::{self, Built, To};
use crate::cluster::writer::send;

/// Number of concurrent writes.
const PARALLEL: usize = 8;

/// Whether the host must act before a deleted Plugin may be gone.
pub(super) fn is_wanted(plugin: &Plugin, finalizes: bool) -> bool {
    finalizes || plugin.spec.deletion_policy == DeletionPolicy::Delete
}

/// Whether the Plugin has the host's finalizer.
pub(super) fn is_awaited(object: &Object) -> bool {
    object.finalizers.iter().any(|finalizer| **finalizer == *HOST_FINALIZER)
}

/// Sets or removes the host's finalizer on a Plugin. Other finalizers are kept.
pub(super) async fn set_awaited(
    client: &Client,
    resource: &ApiResource,
    object: &Object,
    wanted: bool,
) -> Result<(), Problem> {
    let others = object.finalizers.iter().filter(|name| ***name != *HOST_FINALIZER).map(ToString::to_string);
    let finalizers: Vec<_> = others.chain(wanted.then(|| HOST_FINALIZER.to_owned())).collect();
    let unwritten = |why: &str| {
        let message = format!("the Plugin's finalizer {HOST_FINALIZER} could not be written: {why}");
        Problem::new(Step::Granted, PluginReason::ApiError, message)
    };
    let request = request::finalizers(resource, object, &finalizers);
    match send(client, request.map_err(|problem| unwritten(&problem.to_string()))?).await {
        Ok(_) => Ok(()),
        // The Plugin is gone already.
        Err(refused) if !wanted && is_gone(&refused, resource, object) => Ok(()),
        Err(refused) => Err(unwritten(&refused.to_string())),
    }
}

/// The dependencies of a deletion.
pub(super) struct Deletion<'a> {
    pub leftovers: Leftovers<'a>,
    pub account: Result<Account, AccountError>,
}

impl Deletion<'_> {
    /// Deletes the children, if the deletion policy is `Delete` and the annotation does not skip it (`is_given_up`),
    /// and removes the finalizers. Repeating it after success does nothing.
    pub(super) async fn run(&self, plugin: &Plugin, is_given_up: bool) -> Result<(), Problem> {
        let status = plugin.status.clone().unwrap_or_default();
        let Some(parents) = status.parent_kind.as_deref().and_then(parse) else { return Ok(()) };
        let is_wanted = plugin.spec.deletion_policy == DeletionPolicy::Delete && !is_given_up;
        let pruned = if is_wanted { self.prune_all(&status, &parents).await } else { Ok(()) };
        // Done even if deleting the children failed: parents that are being deleted must not wait for this Plugin.
        let released = self.release(&parents).await;
        pruned.and(released)
    }

    async fn prune_all(&self, status: &PluginStatus, parents: &Gvk) -> Result<(), Problem> {
        let account = self.account.as_ref().map_err(|error| failed(&error.to_string()))?;
        // Includes the children that earlier components or grants left.
        let kinds = status.child_kinds.iter().chain(&status.former_child_kinds).flatten();
        let mut kinds: Vec<_> = kinds.filter_map(|kind| parse(kind)).collect();
        kinds.sort_by_key(|kind| Reverse(install_rank(kind)));
        let mut pruned = Ok(());
        for kind in kinds {
            pruned = pruned.and(self.prune(&kind, parents, account).await);
        }
        pruned
    }

    /// Deletes the children of one kind.
    async fn prune(&self, kind: &Arc<Gvk>, parents: &Gvk, account: &Account) -> Result<(), Problem> {
        let Some(resource) = self.resource(kind).await? else { return Ok(()) };
        let children = self.leftovers.children(kind, &resource, parents).await.map_err(|why| failed(&why))?;
        let resource = &resource;
        let deletes = children.into_iter().map(|child| {
            let request = request::delete(To { resource, account: Some(account) }, &Delete::of(&child));
            async move { self.write("delete", &child, resource, request).await }
        });
        all(deletes).await
    }

    /// Removes the Plugin's finalizers from all parents, including those that the selectors no longer match.
    async fn release(&self, parents: &Arc<Gvk>) -> Result<(), Problem> {
        let Some(resource) = self.resource(parents).await? else { return Ok(()) };
        let held = self.leftovers.list(parents, &resource, None).await.map_err(|why| failed(&why))?.into_iter();
        let held = held.filter(|parent| has_finalizer(parent, self.leftovers.name));
        let resource = &resource;
        let releases = held.map(|parent| {
            let left = finalizers_with(&parent, self.leftovers.name, FinalizerChange::Remove);
            let request = request::finalizers(resource, &parent, &left);
            async move { self.write("patch", &parent, resource, request).await }
        });
        all(releases).await
    }

    async fn resource(&self, kind: &Gvk) -> Result<Option<ApiResource>, Problem> {
        self.leftovers.resource(kind).await.map_err(|why| failed(&why))
    }

    /// Sends a write; an object that is gone is a success.
    async fn write(
        &self,
        verb: &'static str,
        object: &Object,
        resource: &ApiResource,
        request: Built,
    ) -> Result<(), Problem> {
        let what = format!("{} {}", object.kind.kind, object.key);
        let request = request.map_err(|problem| failed(&format!("{what}: {problem}")))?;
        match send(self.leftovers.client, about(request, self.leftovers.name, None, &what)).await {
            Ok(_) => Ok(()),
            Err(refused) if is_gone(&refused, resource, object) => Ok(()),
            Err(refused) => Err(failed(&format!("{verb} {what}: {refused}"))),
        }
    }
}

/// Whether the object of a write is gone.
fn is_gone(refused: &Refused, resource: &ApiResource, object: &Object) -> bool {
    refused.is_gone((&resource.kind, &resource.plural), &object.key.name, Some(&object.uid))
}

/// Runs all writes even if some fail; returns the first failure.
async fn all(writes: impl Iterator<Item = impl Future<Output = Result<(), Problem>>>) -> Result<(), Problem> {
    let results: Vec<_> = stream::iter(writes).buffer_unordered(PARALLEL).collect().await;
    results.into_iter().collect()
}

/// Whether the Plugin has the annotation that skips its cleanup.
pub(super) fn is_given_up(object: &Object) -> bool {
    object.marks.is_true(ANNOTATION_SKIP_FINALIZE)
}

/// The problem that blocks a Plugin's deletion; the message says how to skip the step.
fn failed(what: &str) -> Problem {
    let message = format!(
        "The deletion of the Plugin is blocked: {what}. The host retries. To skip this step, set the annotation \
         {ANNOTATION_SKIP_FINALIZE}=\"true\" on the Plugin"
    );
    Problem::new(Step::Granted, PluginReason::Terminating, message)
}

/// Parses a kind as the status has it.
fn parse(kind: &str) -> Option<Arc<Gvk>> {
    kind.parse().ok().map(Arc::new)
}
