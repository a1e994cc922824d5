//! Notes on the parent about children that are created once (rule R25). Each is written before the child is created, so that no host creates it
//! again, whatever happens to the child and to this host.

use std::sync::Arc;

use super::Reconcile;
use crate::contract::snapshot::Snapshot;
use crate::object::child::ChildId;
use crate::object::once::note;
use crate::reconcile::applied::{Applied, Failed};
use crate::reconcile::carry_out::carry_out;
use crate::reconcile::plan::{Notes, OnceNote, Plan};
use crate::reconcile::world::ApiRequest;
use crate::reconcile::written::Subject;

impl Reconcile<'_> {
    /// Writes the notes of a plan, then sends its writes, and takes back the notes about children that were certainly not created.
    pub(super) async fn carry_out_noted(&self, snapshot: &mut Snapshot, mut plan: Plan) -> Applied {
        if !plan.has_notes() {
            return carry_out(self.world, snapshot, plan).await;
        }
        let begun: Vec<_> = plan.begun().collect();
        let Notes { existing: mut notes, surplus } = *plan.notes.take().unwrap_or_default();
        notes.extend(begun.iter().cloned());
        let mut applied = Applied::default();
        if let Err(Failed { problem, awaited }) = self.write_notes(snapshot, &notes, surplus).await {
            applied.written.extend(awaited.map(|awaited| *awaited));
            applied.problems.push((ChildId::of(&snapshot.parent), problem));
            return applied;
        }
        let mut applied = carry_out(self.world, snapshot, plan).await;
        let is_undone = |note: &&OnceNote| !applied.may_be_created(&note.child);
        let undone: Vec<_> = begun.iter().filter(is_undone).map(|note| (note.once.annotation(), None)).collect();
        if !undone.is_empty()
            && let Err(Failed { problem, awaited }) = self.annotate(snapshot, None, &undone).await
        {
            applied.written.extend(awaited.map(|awaited| *awaited));
            applied.problems.push((ChildId::of(&snapshot.parent), problem));
        }
        applied
    }

    /// Writes notes on the version of the parent that the plan is based on: a newer one may have notes of another host.
    async fn write_notes(
        &self,
        snapshot: &mut Snapshot,
        notes: &[OnceNote],
        surplus: Vec<String>,
    ) -> Result<(), Failed> {
        let now = self.shared.clock.date();
        let of = |OnceNote { child, once, noted }: &OnceNote| {
            (once.annotation(), Some(note(*noted, &self.terms.name, child, now)))
        };
        let annotations: Vec<_> =
            notes.iter().map(of).chain(surplus.into_iter().map(|annotation| (annotation, None))).collect();
        self.world.may_finalize(&snapshot.parent_ref).await?;
        let version = Some(snapshot.parent.resource_version);
        self.annotate(snapshot, version, &annotations).await
    }

    /// Changes annotations of the parent. The snapshot then has the parent's new version, for the status.
    async fn annotate(
        &self,
        snapshot: &mut Snapshot,
        version: Option<u64>,
        annotations: &[(String, Option<String>)],
    ) -> Result<(), Failed> {
        let parent = &*snapshot.parent;
        let sent = self.world.send(ApiRequest::Annotations { parent, version, annotations }).await;
        let ack = sent.map_err(|refused| Failed::of(&refused, Subject::Parent))?;
        self.add_own_writes([ack.parent()]);
        Arc::make_mut(&mut snapshot.parent).resource_version = ack.resource_version();
        Ok(())
    }
}
