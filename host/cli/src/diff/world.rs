//! The cluster, as the world of a preview: what the host would write is sent as dry runs, and what a dry run cannot build on is kept.

use std::collections::HashMap;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use kube::core::ApiResource;
use parking_lot::Mutex;
use serde_json::Value;
use windlass_core::contract::desired::DesiredChild;
use windlass_core::contract::related::{Needs, ReadProblem};
use windlass_core::contract::snapshot::Served;
use windlass_core::contract::{CallFailure, CallReport, Level, Note};
use windlass_core::guard::deletions::BlockedDeletions;
use windlass_core::object::Object;
use windlass_core::object::child::ChildId;
use windlass_core::object::managed::work_out_apply;
use windlass_core::object::parent::ParentRef;
use windlass_core::reconcile::api_response::{Ack, Refused};
use windlass_core::reconcile::outcome::{Rejection, WriteProblem};
use windlass_core::reconcile::world::{
    ApiRequest, Call, Called, Force, Happened, Later, Part, Permit, Prepared, Read, Selected, World, Writing,
};
use windlass_core::value::ids::{ObjectKey, Uid};
use windlass_core::value::json::Map;
use windlass_engine::cluster::writer::dry_run::{self, Built, DryRun};
use windlass_engine::cluster::writer::request::{self, To};
use windlass_engine::telemetry::one_line;
use windlass_sandbox::{Ambient, run_here};

use super::super::fields::object_of;
use super::cluster::Scope;
use super::parents::{Children, Related, object};
use super::preview::Verb;
use super::seen::{Changed, Preparation, Seen, value_of};

/// The world of one parent's preview.
pub struct Dry<'a> {
    pub scope: &'a Arc<Scope>,
    pub related: &'a Related,
    pub children: &'a Children,
    /// The parent as it is.
    pub live: &'a Arc<Object>,
    /// Whether the parent's status is written.
    pub shows_status: bool,
    pub seen: Mutex<Seen>,
    prepared: Mutex<HashMap<ChildId, Preparation>>,
    fresh: Mutex<HashMap<ChildId, Map>>,
    /// Listed objects that were read again, because they have changed since.
    newer: Mutex<HashMap<ChildId, Arc<Object>>>,
}

impl<'a> Dry<'a> {
    /// The world of this parent.
    pub fn new(
        (scope, related, children): (&'a Arc<Scope>, &'a Related, &'a Children),
        live: &'a Arc<Object>,
        (shows_status, seen): (bool, Seen),
    ) -> Self {
        let (prepared, fresh, newer) = Default::default();
        Self { scope, related, children, live, shows_status, seen: Mutex::new(seen), prepared, fresh, newer }
    }

    fn resource(&self, of: &ChildId) -> Result<&'a ApiResource, WriteProblem> {
        self.scope.resource_of(&of.kind).ok_or_else(|| unavailable(format!("{} is not granted", of.kind)))
    }

    async fn dry_run(&self, of: &ChildId, built: Built) -> Result<String, Refused> {
        let mut dry_run = built.map_err(Refused::Unsent)?;
        let warnings = dry_run.warnings();
        let text = dry_run.send(&self.scope.client).await?;
        for warning in warnings.take() {
            self.seen.lock().note(format!("{of}: the API server warns: {}", one_line(&warning)));
        }
        Ok(text)
    }

    /// The object that exists and has the place of a child.
    fn live_child(&self, child: &ChildId) -> Option<Arc<Object>> {
        let parent = self.scope.parent_ref(self.live);
        let is_it = |live: &Arc<Object>| live.key == child.key && live.kind.group_kind() == child.kind.group_kind();
        let listed = self.children.candidates(&parent).into_iter().find(is_it)?;
        let newer = self.newer.lock().get(child).filter(|newer| newer.uid == listed.uid).cloned();
        Some(newer.unwrap_or(listed))
    }

    /// A child that does not exist yet.
    async fn created(&self, child: &DesiredChild) -> Result<Ack, Refused> {
        let id = child.id();
        let is_recreated = self.seen.lock().changed(&id).is_some_and(Changed::is_recreated);
        let made_room = self.seen.lock().made_room_for(child);
        // An object that only looks like a child is not taken for one: the API server says that its name is taken.
        let live = self.live_child(&id).filter(|live| is_recreated || live.deleting);
        let is_beside_live = live.is_some();
        let after = if is_beside_live {
            self.recreated(child).await?
        } else {
            let built = self.resource(&id).and_then(|of| DryRun::of(request::create(To::own(of), child)));
            match self.dry_run(&id, built).await {
                Ok(text) => parsed(&text)?,
                Err(refused) if self.is_for_want_of_created(&refused) => object_of(&child.body),
                Err(refused) if made_room => self.beside_live(child, refused)?,
                Err(refused) => return Err(refused),
            }
        };
        let ack = ack(&after);
        let verb = if is_beside_live { Verb::Recreate } else { Verb::Create };
        self.seen.lock().change(&id, verb, live, (after, Some(&child.applied)));
        Ok(ack)
    }

    /// A child that takes the place of a live one, as the API server would store it.
    pub async fn recreated(&self, child: &DesiredChild) -> Result<Value, Refused> {
        match self.fresh(child).await {
            Ok(mut fresh) => {
                if let Some(meta) = fresh.object_mut("metadata") {
                    // The new object has another UID, which is not known.
                    meta.remove("uid");
                }
                Ok(object_of(&fresh))
            }
            Err(refused) => self.beside_live(child, refused),
        }
    }

    /// A child as the plugin returned it, because the API server rejects it beside a live one that the host deletes first.
    fn beside_live(&self, child: &DesiredChild, refused: Refused) -> Result<Value, Refused> {
        let note = note_beside_live(&refused.problem()).ok_or(refused)?;
        self.seen.lock().note(format!("{}: {note}", child.id()));
        Ok(object_of(&child.body))
    }

    /// Whether the API server refuses a create because it does not know an object that was created before.
    fn is_for_want_of_created(&self, refused: &Refused) -> bool {
        refused
            .missing()
            .is_some_and(|(plural, name)| self.seen.lock().has_created(name, |id| self.plural(id) == plural))
    }

    /// A child after an apply.
    async fn applied(&self, child: &DesiredChild, uid: &Uid, force: Force) -> Result<Ack, Refused> {
        let id = child.id();
        let before = {
            let seen = self.seen.lock();
            if let Some(after) = seen.written(child) {
                return Ok(ack(after));
            }
            match seen.changed(&id) {
                // It does not exist while the API server decides about the dry run.
                Some(changed) if changed.is_recreated() => None,
                // None for one that a dry run created.
                Some(changed) => changed.before.clone(),
                None => self.live_child(&id),
            }
        };
        let Some(live) = before else { return self.created(child).await };
        let built = self
            .resource(&id)
            .and_then(|resource| DryRun::of(request::apply(To::own(resource), child, uid, None, force, Part::Whole)));
        let text = self.worked_out(child, &live, self.dry_run(&id, built).await).await?;
        let after: Value = parsed(&text)?;
        let ack = ack(&after);
        self.seen.lock().change(&id, Verb::Update, Some(live), (after, Some(&child.applied)));
        Ok(ack)
    }

    /// The object after an apply before which the host changes its entries: a dry run cannot build on another. The host's apply is worked
    /// out here; the API server validates the result, and sets defaults.
    async fn worked_out(
        &self,
        child: &DesiredChild,
        live: &Object,
        sent: Result<String, Refused>,
    ) -> Result<String, Refused> {
        let id = child.id();
        let preparation = self.prepared.lock().get(&id).cloned();
        // Only an object that is not valid may be valid once the entries are changed.
        let is_invalid = |refused: &Refused| matches!(refused.problem(), WriteProblem::Rejected { code: 422, .. });
        let stays = sent.as_ref().is_err_and(|refused| !is_invalid(refused));
        let (Some(Preparation { entry, taken }), Some(now), false) = (preparation, live.values(), stays) else {
            return sent;
        };
        let fresh = self.fresh.lock().get(&id).cloned().unwrap_or_else(|| child.body.clone());
        let after = work_out_apply(&now, (&child.body, &fresh), (entry.as_ref(), &taken), &live.managed);
        self.replaced(live, &after).await
    }

    /// The response to the dry run of a replacement.
    async fn replaced(&self, live: &Object, after: &Map) -> Result<String, Refused> {
        let id = ChildId::of(live);
        let built = self.resource(&id).and_then(|resource| DryRun::replace(To::own(resource), live, after));
        self.dry_run(&id, built).await
    }

    /// The parent after a write of this field.
    async fn parent_written(&self, built: Built, path: &[&str]) -> Result<Ack, Refused> {
        let mut written: Value = parsed(&self.dry_run(&ChildId::of(self.live), built).await?)?;
        let ack = ack(&written);
        let mut seen = self.seen.lock();
        // The rest is as it was, or as another dry run has changed it.
        let mut after = seen.parent_after.clone().unwrap_or_else(|| value_of(self.live));
        let pointer = format!("/{}", path.join("/"));
        let of_field = written.pointer_mut(&pointer).map(Value::take).unwrap_or_default();
        let nested = |value| path.iter().rev().fold(value, |inner, field| serde_json::json!({ *field: inner }));
        json_patch::merge(&mut after, &nested(Value::Null));
        json_patch::merge(&mut after, &nested(of_field));
        written = after;
        let parent =
            Object::from_api(&self.scope.offline.described.kind, &self.scope.with_defaults(&written).0.to_string());
        let parent = parent.map_err(|error| Refused::Unsent(unavailable(error.to_string())))?;
        seen.change_parent(Arc::new(parent), written);
        Ok(ack)
    }

    async fn sent(&self, request: ApiRequest<'_>) -> Result<Ack, Refused> {
        let of = request.object();
        if self.seen.lock().has_failed(&of) {
            // What follows is shown as well.
            return Ok(Ack::default());
        }
        match request {
            ApiRequest::Create(child) => return self.created(child).await,
            ApiRequest::Apply { child, uid, force, resource_version: _, returns: _ } => {
                return self.applied(child, uid, force).await;
            }
            ApiRequest::Finalizers { finalizers, .. } => {
                let built = DryRun::of(request::finalizers(&self.scope.parents, self.live, finalizers));
                if let Err(refused) = self.parent_written(built, &["metadata", "finalizers"]).await {
                    let mut seen = self.seen.lock();
                    seen.fail_parent(&refused.problem());
                    // The children are shown as if it had them.
                    let mut parent = Object::clone(&seen.parent);
                    parent.finalizers = finalizers.iter().map(|name| name.as_str().into()).collect();
                    seen.replace_parent(Arc::new(parent));
                }
            }
            ApiRequest::Annotations { annotations, .. } => {
                let built = DryRun::of(request::annotations(&self.scope.parents, self.live, None, annotations));
                return self.parent_written(built, &["metadata", "annotations"]).await;
            }
            ApiRequest::Status { status, .. } => {
                if self.shows_status && self.seen.lock().has_status() {
                    let built = DryRun::of(request::status(To::own(&self.scope.parents), self.live, None, status));
                    match self.parent_written(built, &["status"]).await {
                        Err(refused) if matches!(refused.problem(), WriteProblem::Rejected { code: 400 | 422, .. }) => {
                            // The host writes it without the plugin's part.
                            return Err(refused);
                        }
                        Err(refused) => self.seen.lock().fail_parent(&refused.problem()),
                        Ok(ack) => return Ok(ack),
                    }
                }
            }
            ApiRequest::Mark { found, marks, .. } => {
                let mut after = value_of(found);
                json_patch::merge(&mut after, &object_of(marks));
                self.seen.lock().change(&of, Verb::Adopt, Some(Arc::new(found.clone())), (after, None));
            }
            ApiRequest::Prepare { prepared: Prepared { own, taken, .. }, resource_version, .. } => {
                let is_live = self.seen.lock().changed(&of).is_none_or(Changed::is_marked_alone);
                let mut prepared = self.prepared.lock();
                let preparation = prepared.entry(of).or_default();
                // Each apply is one to the live object, so that what was removed once is removed again. Maps that are emptied are worked
                // out with it.
                preparation.entry = own.cloned().or_else(|| preparation.entry.take());
                // The object that a dry run has returned has other entries.
                if is_live {
                    preparation.taken = taken.to_vec();
                }
                // After a refused apply, the entries are looked at again.
                return Ok(ack(&serde_json::json!({"metadata": {"resourceVersion": resource_version.to_string()}})));
            }
            ApiRequest::Delete(delete) => self.seen.lock().delete(&delete.child, self.live_child(&delete.child)),
        }
        Ok(Ack::default())
    }
}

impl Writing for Dry<'_> {
    fn adopts(&self) -> bool {
        self.scope.terms.settings.adopts
    }

    fn inherits(&self, plugin: &str) -> bool {
        self.children.gone.contains(plugin)
    }

    fn cached_parent(&self, _key: &ObjectKey) -> Option<Arc<Object>> {
        Some(self.seen.lock().parent.clone())
    }

    fn cached_child(&self, _child: &ChildId) -> Option<Arc<Object>> {
        None
    }

    fn plural(&self, of: &ChildId) -> &str {
        self.scope.resource_of(&of.kind).map_or("", |resource| &resource.plural)
    }

    fn read<'a>(&'a self, what: Read<'a>) -> Later<'a, Result<Option<Object>, Refused>> {
        Box::pin(async move {
            let (kind, key, resource) = match what {
                Read::Parent(key) | Read::FormerParent(key) => {
                    (&self.scope.offline.described.kind, key, &self.scope.parents)
                }
                Read::Child(child, _) => (&child.kind, &child.key, self.resource(child).map_err(Refused::Unsent)?),
            };
            let found = object(&self.scope.client, (kind, resource), key).await;
            let found = found.map_err(|error| Refused::Unsent(unavailable(format!("{error:#}"))))?;
            if let (Read::Child(child, Part::Whole), Some(found)) = (what, &found) {
                self.newer.lock().insert(child.clone(), found.clone());
            }
            Ok(found.map(Arc::unwrap_or_clone))
        })
    }

    fn fresh<'a>(&'a self, child: &'a DesiredChild) -> Later<'a, Result<Map, Refused>> {
        Box::pin(async move {
            let resource = self.resource(&child.id()).map_err(Refused::Unsent)?;
            let fresh = dry_run::fresh(&self.scope.client, To::own(resource), child).await?;
            self.fresh.lock().insert(child.id(), fresh.clone());
            Ok(fresh)
        })
    }

    fn try_out<'a>(&'a self, live: &'a Object, after: &'a Map) -> Later<'a, Result<(), Refused>> {
        Box::pin(async move { self.replaced(live, after).await.map(drop) })
    }

    fn send<'a>(&'a self, request: ApiRequest<'a>) -> Later<'a, Result<Ack, Refused>> {
        Box::pin(self.sent(request))
    }

    fn pause(&self, _time: Duration) -> Later<'_, ()> {
        // What a dry run creates never appears.
        Box::pin(ready(()))
    }
}

impl World for Dry<'_> {
    fn children(&self, of: &ParentRef) -> Vec<Arc<Object>> {
        self.seen.lock().children(self.children.candidates(of))
    }

    fn serve<'a>(&'a self, _parent: &'a ParentRef, needs: &'a Needs) -> Later<'a, Result<Selected, ReadProblem>> {
        Box::pin(async move {
            let mut objects = Vec::new();
            for need in needs.iter() {
                let found = self.related.find(self.scope, need).await.map_err(|error| {
                    self.seen.lock().error(one_line(&format!("required objects: {error:#}")).into_owned());
                    ReadProblem::Unsettled
                })?;
                objects.push(found);
            }
            Ok(Selected { objects: Served::of(needs, objects), took: Duration::ZERO })
        })
    }

    fn call<'a>(&'a self, _permit: &'a Permit<'_>, call: Call<'a>) -> Later<'a, Called> {
        Box::pin(async move {
            let (scope, request) = (self.scope.clone(), call.snapshot.request(call.phase));
            // On a thread of its own: a call keeps its thread busy.
            let called = tokio::task::spawn_blocking(move || {
                let component = &scope.offline.component;
                run_here(component.reconcile(&request, &scope.terms.limits, Ambient::now([0; 32])))
            });
            let (result, report) =
                called.await.unwrap_or_else(|error| (Err(CallFailure::Host(error.to_string())), CallReport::default()));
            let mut seen = self.seen.lock();
            for warning in warnings_of(&report) {
                seen.note(warning);
            }
            // Parents are previewed although calls for others fail: as a failure of the host, it leads to no quarantine.
            let result = result.map_err(|failure| CallFailure::Host(failure.to_string()));
            Called { result, is_pure: false }
        })
    }

    fn note(&self, happened: Happened<'_>) {
        match happened {
            Happened::Planned(snapshot, desired, plan) => self.seen.lock().plan(snapshot, desired, plan),
            Happened::Ended(ended) => {
                // What is blocked at the Plugin is said once, for all parents.
                let is_told = ended.message == BlockedDeletions::message_for_parents(&self.scope.plugin);
                self.seen.lock().end(ended, is_told);
            }
            Happened::Seen(_) | Happened::CallSkipped => {}
        }
    }
}

/// The response to a write after which an object is like this.
fn ack(after: &Value) -> Ack {
    serde_json::from_value(after.clone()).unwrap_or_default()
}

/// A value from the API server's response.
///
/// # Errors
/// If the response is not JSON.
fn parsed(text: &str) -> Result<Value, Refused> {
    serde_json::from_str(text)
        .map_err(|error| Refused::Unsent(unavailable(format!("the API server's response is not valid JSON: {error}"))))
}

fn unavailable(message: String) -> WriteProblem {
    WriteProblem::Unavailable { message, retry_after: None }
}

/// The warnings and errors in the plugin's log.
fn warnings_of(report: &CallReport) -> Vec<String> {
    let warning = |note: &Note| {
        let Note::Log { level, message, .. } = note else { return None };
        let is_warning = matches!(level, Level::Warn | Level::Error);
        is_warning.then(|| format!("plugin {}: {}", format!("{level:?}").to_lowercase(), one_line(message)))
    };
    report.notes.iter().filter_map(warning).collect()
}

/// The note about the successor of a live child, if the API server rejects it while the live child exists: both together
/// may exceed a quota or need the same port. The host deletes the live child first.
fn note_beside_live(problem: &WriteProblem) -> Option<String> {
    let WriteProblem::Rejected { message, rejection: Rejection::Other, .. } = problem else { return None };
    Some(format!(
        "it is shown as the plugin returned it, because the API server rejects it beside the live object ({}); the host \
         deletes the live object first",
        one_line(message)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(code: u16, rejection: Rejection) -> WriteProblem {
        WriteProblem::Rejected { code, message: "exceeded quota: pods".to_owned(), rejection }
    }

    #[test]
    fn successor_that_the_api_server_rejects_beside_the_live_child_is_a_note() {
        let note = note_beside_live(&rejected(403, Rejection::Other)).expect("a note");
        assert!(note.contains("exceeded quota: pods"), "{note}");
        assert_eq!(note_beside_live(&rejected(403, Rejection::Permission)), None, "the user lacks a permission");
        assert_eq!(note_beside_live(&WriteProblem::Outdated), None);
    }
}
