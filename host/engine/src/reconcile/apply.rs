//! Sends the writes of a plan: creates, server-side applies and deletes. It decides nothing.

use std::sync::Arc;

use http::Request;
use kube::Client;
use kube::core::ApiResource;
use tracing::Instrument;
use windlass_core::contract::desired::DesiredChild;
use windlass_core::contract::snapshot::Snapshot;
use windlass_core::object::Object;
use windlass_core::object::child::{ChildId, Delete};
use windlass_core::object::managed::CreateEntry;
use windlass_core::object::order::install_rank;
use windlass_core::reconcile::claim::{Claim, claim, marks, may_be_adopted, owner_of};
use windlass_core::reconcile::next_step::finalizers_with;
use windlass_core::reconcile::outcome::WriteProblem;
use windlass_core::reconcile::plan::{Plan, Target, Write};
use windlass_core::value::ids::{Gvk, ObjectKey, Uid};

use super::applied::{Applied, Done, Effect, Failed, WriteResult, id, named};
use super::waves::send_wave;
use crate::cluster::in_time;
use crate::cluster::writer::audit::about;
use crate::cluster::writer::request::{self, Force, Part, To};
use crate::cluster::writer::response::{Ack, already_exists, conflict_of, does_not_fit, is_gone, problem_of};
use crate::cluster::writer::{Subject, Written, send};
use crate::live::Live;
use crate::telemetry::TRACE;

/// The result of setting or removing a finalizer: what the cache must show before the parent's next plan.
#[derive(Debug)]
pub enum FinalizerWrite {
    /// The finalizer was set or removed.
    Done(Written),
    /// The parent is gone.
    Gone(Written),
}

/// Sends writes to the API server.
#[derive(Clone)]
pub struct Applier {
    client: Client,
}

impl Applier {
    /// Sends writes with this client.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Sends the writes in install order, those of one rank in parallel; then, if all succeeded and no object was only marked as a child,
    /// the deletes.
    pub async fn apply(&self, live: &Live, snapshot: &Snapshot, mut plan: Plan) -> Applied {
        let mut applied = Applied::default();
        let prunes = plan.take_due_prunes();
        let mut writes = plan.writes.into_iter().peekable();
        while let Some(first) = writes.next() {
            let rank = rank_of(&first);
            let mut wave = vec![first];
            while let Some(write) = writes.next_if(|write| rank_of(write) == rank) {
                wave.push(write);
            }
            send_wave(&mut applied, wave.into_iter().map(|write| self.write(live, snapshot, write))).await;
            if !applied.problems.is_empty() {
                // Later children depend on the ones that failed.
                return applied;
            }
        }
        if applied.marked {
            // Nothing is pruned before all desired children are there (rule R8).
            return applied;
        }
        for wave in prunes {
            send_wave(
                &mut applied,
                wave.into_iter().map(|delete| self.delete(live, snapshot, delete, Effect::Deleted)),
            )
            .await;
            if !applied.problems.is_empty() {
                // The children that are still there depend on the later ones.
                return applied;
            }
        }
        applied
    }

    /// Sets (`wanted`) or removes the finalizer of a parent.
    ///
    /// # Errors
    /// If the API server rejects the write, or does not respond; [`WriteProblem::Outdated`] if the parent has changed.
    pub async fn set_finalizer(&self, live: &Live, parent: &Object, wanted: bool) -> Result<FinalizerWrite, Failed> {
        let id = ChildId { kind: parent.kind.clone(), key: parent.key.clone() };
        let finalizers = finalizers_with(parent, &live.name, wanted);
        let request = request::finalizers(&live.parents.resource, parent, &finalizers)?;
        let sent = self.send(live, "patch", &id, request).await;
        finalizer_write(sent, &live.parents.resource, parent, wanted)
    }

    /// Reads an object after a write that may have been executed, or whose result the cache does not show. Returns the state that the
    /// cache must show now; none if the parent need not wait for it.
    ///
    /// # Errors
    /// If the read fails.
    pub async fn look_up(
        &self,
        live: &Live,
        parent: &ObjectKey,
        of: &Subject,
    ) -> Result<Option<Written>, WriteProblem> {
        match of {
            Subject::Parent => {
                let found = live.parents.read(parent).await.map_err(|error| problem_of(&error))?;
                Ok(match found {
                    Some(found) => Some(Written::Parent { resource_version: found.resource_version }),
                    None => live.parents.store.get(parent).map(|cached| Written::gone(&cached)),
                })
            }
            Subject::Child(child) => Ok(match self.read(live, child, Part::Metadata).await? {
                // An object without the label is in no cache.
                Some(found) if found.plugin().is_none() => None,
                Some(found) => {
                    Some(Written::Child { kind: child.kind.clone(), resource_version: found.resource_version })
                }
                None => {
                    let cached = live.child_watch(&child.kind).and_then(|watch| watch.store.get(&child.key));
                    cached.map(|cached| Written::Gone { child: child.clone(), uid: cached.uid.clone() })
                }
            }),
        }
    }

    /// The object that has a child's name, or this part of it.
    async fn read(&self, live: &Live, child: &ChildId, part: Part) -> Result<Option<Object>, WriteProblem> {
        let to = to(live, &child.kind)?;
        let request = request::get(to, child, part)?;
        match in_time(self.client.request_text(request)).await {
            Ok(text) => Object::from_api(&child.kind, &text).map(Some).map_err(|error| WriteProblem::Unavailable {
                message: format!("it cannot be read: {error}"),
                retry_after: None,
            }),
            Err(error) if is_gone(&error, to.resource, &child.key.name, None) => Ok(None),
            Err(error) => Err(problem_of(&error)),
        }
    }

    async fn write(&self, live: &Live, snapshot: &Snapshot, write: Write) -> Result<Done, (ChildId, Failed)> {
        match write {
            Write::Create(child) => named(id(&child), child.expires(), self.create(live, snapshot, &child).await),
            Write::Apply { child, target } => {
                let outcome = self.change(live, snapshot, &child, &target).await;
                named(id(&child), child.expires(), Self::after_comparing(live, &child, &target, outcome))
            }
            Write::Replace(delete) => self.delete(live, snapshot, delete, Effect::Replaced).await,
        }
    }

    async fn create(&self, live: &Live, snapshot: &Snapshot, child: &Arc<DesiredChild>) -> WriteResult {
        let request = request::create(to(live, &child.kind)?, child)?;
        match self.send(live, "create", &id(child), request).await {
            Ok(ack) => Ok((Effect::Created, Some(ack.child(&child.kind)))),
            Err(error) if already_exists(&error) => self.reclaim(live, snapshot, child).await,
            Err(error) => Err(Failed::of(&error, Subject::Child(id(child)))),
        }
    }

    /// Handles a create that found the child's name taken by an object that the cache did not show. The host does not
    /// write the object's content: at most it adds the labels and ownerReference of a child, and the next reconcile
    /// sees the object.
    async fn reclaim(&self, live: &Live, snapshot: &Snapshot, child: &Arc<DesiredChild>) -> WriteResult {
        // Whether a Secret may be adopted depends on its type.
        let part = if live.adopts && child.kind.is("v1", "Secret") { Part::Whole } else { Part::Metadata };
        let Some(found) = self.read(live, &id(child), part).await? else { return Err(WriteProblem::Outdated.into()) };
        let seen = || Written::Child { kind: child.kind.clone(), resource_version: found.resource_version };
        let adopts = live.adopts && may_be_adopted(&found, child);
        let claim = claim(&found, snapshot, adopts, |plugin| live.inherits(plugin));
        tracing::trace!(?claim);
        match claim {
            Claim::Unseen => Err(Failed { problem: WriteProblem::CacheBehind, awaited: Some(Box::new(seen())) }),
            Claim::Restore => self.mark(live, snapshot, child, &found, Effect::Marked).await,
            // The cache may be behind: the garbage collector would delete a child that is adopted for a parent that is
            // gone.
            Claim::Adopt if !Self::lives(live, snapshot).await? => Err(WriteProblem::Outdated.into()),
            Claim::Adopt => self.mark(live, snapshot, child, &found, Effect::Adopted).await,
            Claim::Orphaned => Ok((Effect::Nothing, None)),
            // The parent may have been deleted with --cascade=orphan, which the cache of parents does not show yet.
            Claim::Foreign
                if found.controller.is_none()
                    && found.labelled.as_ref() == Some(&snapshot.parent.uid)
                    && !Self::lives(live, snapshot).await? =>
            {
                Err(WriteProblem::Outdated.into())
            }
            Claim::Foreign => Err(WriteProblem::Taken { owner: owner_of(&found) }.into()),
        }
    }

    /// Whether the parent exists and is not being deleted, as the API server has it now.
    async fn lives(live: &Live, snapshot: &Snapshot) -> Result<bool, Failed> {
        let parent = live.parents.read(&snapshot.parent.key).await.map_err(|error| problem_of(&error))?;
        Ok(parent.is_some_and(|parent| parent.uid == snapshot.parent.uid && !parent.deleting))
    }

    async fn mark(
        &self,
        live: &Live,
        snapshot: &Snapshot,
        child: &DesiredChild,
        found: &Object,
        effect: Effect,
    ) -> WriteResult {
        let marks = marks(found, child, &snapshot.parent_ref, effect == Effect::Adopted);
        let request = request::mark(to(live, &child.kind)?, child, &marks)?;
        match self.send(live, "patch", &id(child), request).await {
            Ok(ack) => Ok((effect, Some(ack.child(&child.kind)))),
            Err(error) => Err(Failed::of(&error, Subject::Child(id(child)))),
        }
    }

    async fn change(&self, live: &Live, snapshot: &Snapshot, child: &DesiredChild, target: &Target) -> WriteResult {
        let failed = |error: &kube::Error| Failed::of(error, Subject::Child(id(child)));
        let mut version = self.prepare(live, child, target).await?;
        let apply = async |version, force, effect| {
            let request = request::apply(to(live, &child.kind)?, child, &target.uid, Some(version), force)?;
            let sent = self.send(live, "apply", &id(child), request).await;
            Ok::<_, WriteProblem>(sent.map(|ack| (effect, Some(ack.child(&child.kind)))))
        };
        // Another manager may have removed a field, which is no conflict.
        let expected = if target.restores { Effect::Restored } else { Effect::Updated };
        let force = match target.create_entry {
            // The fields in the way are the host's own.
            Some(CreateEntry::Harmless) => Force::Yes,
            Some(CreateEntry::MustGo { .. }) | None => Force::No,
        };
        let mut first = apply(version, force, expected).await?;
        if first.as_ref().is_err_and(is_outdated) {
            // Another manager may have taken a field: without force, the response says which.
            version = self.current_version(live, snapshot, &id(child), &target.uid).await?;
            first = apply(version, Force::No, expected).await?;
        }
        let error = match first {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let effect = match conflict_of(&error) {
            Some(conflict) if conflict.only_ours => expected,
            // Another manager changed fields of the child in place: restore them.
            Some(conflict) if conflict.only_drift => Effect::Restored,
            Some(_) if child.force_ownership => Effect::TakenOver,
            Some(conflict) => return Err(WriteProblem::FieldConflict { conflicts: conflict.causes }.into()),
            None => return Err(failed(&error)),
        };
        apply(version, Force::Yes, effect).await?.map_err(|error| failed(&error))
    }

    /// Removes what an apply would leave of the host's POST and of earlier hosts. Returns the child's version after that.
    async fn prepare(&self, live: &Live, child: &DesiredChild, target: &Target) -> Result<u64, Failed> {
        let failed = |error: &kube::Error| Failed::of(error, Subject::Child(id(child)));
        let mut resource_version = target.resource_version;
        if let Some(CreateEntry::MustGo { index, removal }) = target.create_entry {
            let request = request::migrate(to(live, &child.kind)?, child, resource_version, index, removal)?;
            let sent = self.send(live, "patch", &id(child), request).await.map_err(|error| {
                // Another write moved the host's entry in managedFields.
                if does_not_fit(&error) { WriteProblem::Outdated.into() } else { failed(&error) }
            })?;
            resource_version = sent.resource_version();
        }
        if !target.leftover_data.is_empty() {
            let version = (&target.uid, resource_version);
            let request = request::remove_data(to(live, &child.kind)?, child, version, &target.leftover_data)?;
            let sent = self.send(live, "patch", &id(child), request).await.map_err(|error| failed(&error))?;
            resource_version = sent.resource_version();
        }
        Ok(resource_version)
    }

    /// The version that a child has by now, after a write met another version than the plan is based on: its status may have changed. The
    /// write is not repeated if the object is no child any more, because a user or the garbage collector released it
    /// (`--cascade=orphan`).
    async fn current_version(
        &self,
        live: &Live,
        snapshot: &Snapshot,
        child: &ChildId,
        uid: &Uid,
    ) -> Result<u64, WriteProblem> {
        let found = self.read(live, child, Part::Metadata).await?;
        let inherits = |plugin: &str| live.inherits(plugin);
        let is_child = |found: &Object| found.uid == *uid && found.is_child_of(&snapshot.parent_ref, inherits);
        found.filter(is_child).map(|found| found.resource_version).ok_or(WriteProblem::Outdated)
    }

    /// The result of an apply that was sent because live values differ from the desired ones. If it changed nothing, or
    /// is invalid, the next apply would have the same result, so the values are left. A 403 is different: permissions,
    /// quotas and admission policies change without a change of the child.
    fn after_comparing(live: &Live, child: &DesiredChild, target: &Target, outcome: WriteResult) -> WriteResult {
        let Some(values) = target.differing else { return outcome };
        match outcome {
            Ok((_, Some(Written::Child { resource_version, .. }))) if resource_version == target.resource_version => {
                live.records.kept_values.keep(&target.uid, &child.applied, values);
                Ok((Effect::Nothing, None))
            }
            Ok((_, written)) => Ok((Effect::Restored, written)),
            Err(Failed { problem: WriteProblem::Rejected { code: 400 | 422 | 500, message, .. }, .. }) => {
                live.records.kept_values.keep(&target.uid, &child.applied, values);
                tracing::warn!(plugin = %live.name, object = %id(child), message, "live values differ from what is desired, and cannot be changed");
                Ok((Effect::Nothing, None))
            }
            outcome => outcome,
        }
    }

    async fn delete(
        &self,
        live: &Live,
        snapshot: &Snapshot,
        delete: Delete,
        effect: Effect,
    ) -> Result<Done, (ChildId, Failed)> {
        let outcome = self.send_delete(live, snapshot, delete.clone(), effect).await;
        named(delete.child, false, outcome)
    }

    async fn send_delete(&self, live: &Live, snapshot: &Snapshot, mut delete: Delete, effect: Effect) -> WriteResult {
        let to = to(live, &delete.child.kind)?;
        let send = async |delete: &Delete| {
            let request = request::delete(to, delete)?;
            Ok::<_, WriteProblem>(self.send(live, "delete", &delete.child, request).await)
        };
        let mut response = send(&delete).await?;
        if response.as_ref().is_err_and(is_outdated) {
            delete.resource_version = self.current_version(live, snapshot, &delete.child, &delete.uid).await?;
            response = send(&delete).await?;
        }
        match response {
            Ok(ack) => Ok((effect, Some(ack.deleted(delete)))),
            Err(error) if is_gone(&error, to.resource, &delete.child.key.name, Some(&delete.uid)) => {
                Ok((Effect::Nothing, Some(Written::Gone { child: delete.child, uid: delete.uid })))
            }
            Err(error) => Err(Failed::of(&error, Subject::Child(delete.child))),
        }
    }

    async fn send(
        &self,
        live: &Live,
        verb: &'static str,
        child: &ChildId,
        request: Request<Vec<u8>>,
    ) -> Result<Ack, kube::Error> {
        let span = tracing::debug_span!(
            target: TRACE,
            "write",
            otel.name = verb,
            windlass.verb = verb,
            k8s.object.kind = &*child.kind.kind,
            k8s.object.name = &*child.key.name,
            http.response.status_code = tracing::field::Empty,
        );
        let request = about(request, &live.name, Some(live.digest()), child);
        send(&self.client, request).instrument(span).await
    }
}

/// The result of a write of a parent's finalizers.
fn finalizer_write(
    response: Result<Ack, kube::Error>,
    resource: &ApiResource,
    parent: &Object,
    wanted: bool,
) -> Result<FinalizerWrite, Failed> {
    match response {
        Ok(ack) if wanted => Ok(FinalizerWrite::Done(ack.parent())),
        // If it was the last finalizer of a parent that is being deleted, the response has the version from before the write.
        Ok(_) => Ok(FinalizerWrite::Done(Written::past(parent))),
        Err(error) if is_gone(&error, resource, &parent.key.name, Some(&parent.uid)) => {
            Ok(FinalizerWrite::Gone(Written::gone(parent)))
        }
        Err(error) => {
            let failed = Failed::of(&error, Subject::Parent);
            let is_outdated = failed.problem == WriteProblem::Outdated;
            let awaited = is_outdated.then(|| Box::new(Written::past(parent))).or(failed.awaited);
            Err(Failed { problem: failed.problem, awaited })
        }
    }
}

/// The resource of a child kind, and the account that writes the children.
fn to<'a>(live: &'a Live, kind: &Gvk) -> Result<To<'a>, WriteProblem> {
    let unwatched = || WriteProblem::Unavailable { message: format!("{kind} is not watched"), retry_after: None };
    let watch = live.child_watch(kind).ok_or_else(unwatched)?;
    Ok(To { resource: &watch.resource, account: Some(&live.account) })
}

/// Whether a write failed because the object has another version, or because another object has the name.
fn is_outdated(error: &kube::Error) -> bool {
    conflict_of(error).is_none() && matches!(problem_of(error), WriteProblem::Outdated)
}

fn rank_of(write: &Write) -> u8 {
    let kind: &Arc<_> = match write {
        Write::Create(child) | Write::Apply { child, .. } => &child.kind,
        Write::Replace(delete) => &delete.child.kind,
    };
    install_rank(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r03_every_write_of_a_finalizer_is_awaited_and_a_removal_beyond_the_version_in_its_response() {
        let gvk = kube::core::GroupVersionKind::gvk("my-operator.dev", "v1", "Echo");
        let echoes = ApiResource::from_gvk_with_plural(&gvk, "echoes");
        let kind = Arc::new(Gvk::from_api_version("my-operator.dev/v1", "Echo"));
        let text = r#"{"metadata":{"name":"web","uid":"1","resourceVersion":"5"}}"#;
        let web = Object::from_api(&kind, text).expect("an object");
        let result = |response: &str, wanted| {
            let response = serde_json::from_str::<Ack>(response).map_err(kube::Error::SerdeError);
            match finalizer_write(response, &echoes, &web, wanted) {
                Ok(FinalizerWrite::Done(written) | FinalizerWrite::Gone(written)) => Some(written),
                Err(failed) => failed.awaited.map(|awaited| *awaited),
            }
        };
        let failed = |status: &str| {
            let error = kube::Error::Api(Box::new(serde_json::from_str(status).expect("a status")));
            match finalizer_write(Err(error), &echoes, &web, false) {
                Ok(FinalizerWrite::Done(written) | FinalizerWrite::Gone(written)) => Some(written),
                Err(failed) => failed.awaited.map(|awaited| *awaited),
            }
        };
        assert_eq!(
            result(r#"{"metadata":{"resourceVersion":"6"}}"#, true),
            Some(Written::Parent { resource_version: 6 })
        );
        // The API server deletes the object, and responds with the version that it had.
        assert_eq!(result(r#"{"metadata":{"resourceVersion":"5"}}"#, false), Some(Written::past(&web)));
        let gone = r#"{"code":404,"reason":"NotFound","message":"no","details":{"name":"web","kind":"echoes"}}"#;
        assert_eq!(failed(gone), Some(Written::gone(&web)));
        let changed = r#"{"code":409,"reason":"Conflict","message":"the object has been modified"}"#;
        assert_eq!(failed(changed), Some(Written::past(&web)), "the cache shows a version that exists no more");
        assert_eq!(failed(r#"{"code":500,"message":"timeout"}"#), Some(Written::Unknown(Subject::Parent)));
        assert_eq!(failed(r#"{"code":403,"message":"no"}"#), None, "nothing was written");
    }
}
