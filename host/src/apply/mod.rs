//! plan → creates, server-side applies and deletes → what was written. Decides nothing.

mod answer;
mod request;

use std::sync::Arc;

use futures::StreamExt;
use http::Request;
use kube::Client;
use tracing::Instrument;
use windlass_core::desired::DesiredChild;
use windlass_core::events::Changes;
use windlass_core::managed::Posted;
use windlass_core::object::Object;
use windlass_core::order::install_rank;
use windlass_core::outcome::WriteProblem;
use windlass_core::plan::{ChildId, Delete, Plan, Target, Write, reclaim};
use windlass_core::stance::finalizers_with;

use crate::live::Live;
use crate::pending::Written;
use crate::rights::signer;
pub use answer::{in_time, problem_of, send};
use request::Force;
pub use request::{Built, delete_as as delete_request, finalizers as finalizers_request, status as status_request};

/// Writes of one parent that are under way at once: enough to hide the round trip, few enough that one parent with a
/// thousand children leaves room for others.
const PARALLEL_WRITES: usize = 8;

/// Proof of what was sent: status may only speak of this.
#[derive(Debug, Default)]
pub struct Applied {
    /// What the API server acknowledged.
    pub written: Vec<Written>,
    /// The same in words for people: what was done to which children.
    pub changes: Changes,
    /// What did not succeed.
    pub problems: Vec<(ChildId, WriteProblem)>,
}

/// What a write did to its child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Created,
    Updated,
    /// Put back after an edit by hand.
    Restored,
    TakenOver,
    /// Nobody's until now.
    Adopted,
    /// Deleted, to be made anew.
    Replaced,
    Deleted,
    /// Nothing: it was gone already.
    Nothing,
}

/// A write that succeeded.
struct Done {
    deed: Deed,
    child: ChildId,
    written: Written,
}

impl Applied {
    fn add(&mut self, done: Done) {
        let Done { deed, child, written } = done;
        self.written.push(written);
        let changes = &mut self.changes;
        match deed {
            Deed::Created => changes.created.push(child),
            Deed::Updated => changes.updated.push(child),
            Deed::Restored => changes.restored.push(child),
            Deed::TakenOver => changes.taken_over.push(child),
            Deed::Adopted => changes.adopted.push(child),
            Deed::Replaced => changes.replaced.push(child),
            Deed::Deleted => changes.deleted.push(child),
            Deed::Nothing => {}
        }
    }
}

/// Writes to the API server.
#[derive(Clone)]
pub struct Applier {
    client: Client,
}

impl Applier {
    /// Writes with this client.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Carries out a plan: writes in install order, independent ones at once; deletes when all of them succeeded.
    pub async fn apply(&self, live: &Live, mut plan: Plan) -> Applied {
        let mut applied = Applied::default();
        let prunes = plan.take_due_prunes();
        let mut writes = plan.writes.into_iter().peekable();
        while let Some(first) = writes.next() {
            let rank = rank_of(&first);
            let mut wave = vec![first];
            while let Some(write) = writes.next_if(|write| rank_of(write) == rank) {
                wave.push(write);
            }
            self.wave(&mut applied, wave.into_iter().map(|write| self.write(live, write))).await;
            if !applied.problems.is_empty() {
                // What comes later in the order leans on what failed.
                return applied;
            }
        }
        for wave in prunes {
            self.wave(&mut applied, wave.into_iter().map(|delete| self.delete(live, delete, Deed::Deleted))).await;
            if !applied.problems.is_empty() {
                // What comes later was leaned on by what still stands.
                return applied;
            }
        }
        applied
    }

    /// Sets or removes a parent's finalizer. None written: the parent is gone or has changed, and its event follows.
    ///
    /// # Errors
    /// The API server's refusal.
    pub async fn set_finalizer(
        &self,
        live: &Live,
        parent: &Object,
        wanted: bool,
    ) -> Result<Option<Written>, (ChildId, WriteProblem)> {
        let id = ChildId { kind: parent.kind.clone(), key: parent.key.clone() };
        let finalizers = finalizers_with(parent, &live.name, wanted);
        let request = match request::finalizers(&live.parents.resource, parent, &finalizers) {
            Ok(request) => request,
            Err(problem) => return Err((id, problem)),
        };
        match self.send(live, "patch", &id, request).await {
            Ok(ack) => Ok(Some(ack.parent())),
            Err(error) if answer::not_found(&error) => Ok(None),
            Err(error) => match problem_of(&error) {
                WriteProblem::Outdated => Ok(None),
                problem => Err((id, problem)),
            },
        }
    }

    async fn wave<F>(&self, applied: &mut Applied, writes: impl Iterator<Item = F>)
    where
        F: Future<Output = Result<Done, (ChildId, WriteProblem)>>,
    {
        let mut results = futures::stream::iter(writes).buffer_unordered(PARALLEL_WRITES);
        while let Some(result) = results.next().await {
            match result {
                Ok(done) => applied.add(done),
                Err(problem) => applied.problems.push(problem),
            }
        }
    }

    async fn write(&self, live: &Live, write: Write) -> Result<Done, (ChildId, WriteProblem)> {
        match write {
            Write::Create(child) => named(&child, self.create(live, &child).await),
            Write::Apply { child, target } => named(&child, self.change(live, &child, &target).await),
            Write::Replace(delete) => self.delete(live, delete, Deed::Replaced).await,
        }
    }

    async fn create(&self, live: &Live, child: &Arc<DesiredChild>) -> Result<(Deed, Written), WriteProblem> {
        let request = request::create(live, child)?;
        match self.send(live, "create", &id(child), request).await {
            Ok(ack) => Ok((Deed::Created, ack.child(&child.kind))),
            Err(error) if answer::already_exists(&error) => self.reclaim(live, child).await,
            Err(error) => Err(problem_of(&error)),
        }
    }

    /// The name is taken by something that no cache shows: ours without our labels, or somebody else's.
    async fn reclaim(&self, live: &Live, child: &Arc<DesiredChild>) -> Result<(Deed, Written), WriteProblem> {
        let request = request::get(live, child)?;
        let text = in_time(self.client.request_text(request)).await.map_err(|error| problem_of(&error))?;
        let found = Object::from_api(&child.kind, &text).ok();
        let reclaimed =
            |found: Object| Some((reclaim(&found, child, &live.name, live.adopts)?, found.controller.is_some()));
        match found.and_then(reclaimed) {
            Some((Write::Apply { child, target }, had_owner)) => {
                let (deed, written) = self.change(live, &child, &target).await?;
                Ok((if had_owner { deed } else { Deed::Adopted }, written))
            }
            _ => Err(WriteProblem::Taken),
        }
    }

    async fn change(
        &self,
        live: &Live,
        child: &DesiredChild,
        target: &Target,
    ) -> Result<(Deed, Written), WriteProblem> {
        let force = match target.posted {
            // Whose fields it takes is known: our own.
            Some(Posted::Within) => Force::Of { resource_version: target.resource_version },
            Some(Posted::InTheWay { entry, exit }) => {
                let request = request::migrate(live, child, target.resource_version, entry, exit)?;
                self.send(live, "patch", &id(child), request).await.map_err(|error| {
                    // Somebody else's write moved our entry.
                    if answer::does_not_fit(&error) { WriteProblem::Outdated } else { problem_of(&error) }
                })?;
                Force::No
            }
            None => Force::No,
        };
        let apply = async |force, deed| {
            let sent = self.send(live, "apply", &id(child), request::apply(live, child, &target.uid, force)?).await;
            Ok(sent.map(|ack| (deed, ack.child(&child.kind))))
        };
        let mut first = apply(force, Deed::Updated).await?;
        if first.as_ref().is_err_and(|error| matches!(force, Force::Of { .. }) && is_outdated(error)) {
            // A status moved it, or somebody took a field: the API server says which.
            first = apply(Force::No, Deed::Updated).await?;
        }
        let error = match first {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let deed = match answer::conflict_of(&error) {
            Some(conflict) if conflict.only_ours => Deed::Updated,
            // Somebody edited by hand what is the plugin's: put it back.
            Some(conflict) if conflict.only_drift => Deed::Restored,
            Some(_) if child.take_over => Deed::TakenOver,
            Some(conflict) => return Err(WriteProblem::FieldConflict { conflicts: conflict.causes }),
            None => return Err(problem_of(&error)),
        };
        apply(Force::Yes, deed).await?.map_err(|error| problem_of(&error))
    }

    async fn delete(&self, live: &Live, delete: Delete, deed: Deed) -> Result<Done, (ChildId, WriteProblem)> {
        let child = delete.child.clone();
        let request = match request::delete(live, &delete) {
            Ok(request) => request,
            Err(problem) => return Err((child, problem)),
        };
        match self.send(live, "delete", &child, request).await {
            Ok(ack) => Ok(Done { deed, child, written: ack.deleted(delete) }),
            Err(error) if answer::not_found(&error) => {
                let written = Written::Gone { child: delete.child, uid: delete.uid };
                Ok(Done { deed: Deed::Nothing, child, written })
            }
            Err(error) => Err((child, problem_of(&error))),
        }
    }

    async fn send(
        &self,
        live: &Live,
        verb: &'static str,
        child: &ChildId,
        request: Request<Vec<u8>>,
    ) -> Result<answer::Ack, kube::Error> {
        let span = tracing::debug_span!(
            target: crate::telemetry::TRACE,
            "write",
            otel.name = verb,
            windlass.verb = verb,
            k8s.object.kind = &*child.kind.kind,
            k8s.object.name = &*child.key.name,
            http.response.status_code = tracing::field::Empty,
        );
        let impersonated_user = signer(&request).map(str::to_owned);
        let result = send(&self.client, request).instrument(span.clone()).await;
        let code = answer::status_code(verb, &result);
        span.record("http.response.status_code", i64::from(code));
        // The audit line: one for each write that was tried.
        tracing::info!(
            target: crate::telemetry::AUDIT,
            plugin = %live.name,
            digest = %live.digest().short(),
            impersonated_user,
            verb,
            object = %child,
            code,
            "write"
        );
        result
    }
}

/// Whether an apply by force came too late for its version.
fn is_outdated(error: &kube::Error) -> bool {
    matches!(problem_of(error), WriteProblem::Outdated)
}

fn id(child: &DesiredChild) -> ChildId {
    ChildId { kind: child.kind.clone(), key: child.key.clone() }
}

/// The end of a write with the child that it was for.
fn named(child: &DesiredChild, result: Result<(Deed, Written), WriteProblem>) -> Result<Done, (ChildId, WriteProblem)> {
    match result {
        Ok((deed, written)) => Ok(Done { deed, child: id(child), written }),
        Err(problem) => Err((id(child), problem)),
    }
}

fn rank_of(write: &Write) -> u8 {
    let kind: &Arc<_> = match write {
        Write::Create(child) | Write::Apply { child, .. } => &child.kind,
        Write::Replace(delete) => &delete.child.kind,
    };
    install_rank(kind)
}
