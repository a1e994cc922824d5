//! Notes on the parent about children that are created once (rule R25). Each is written before the child is created, so that no host creates it
//! again, whatever happens to the child and to this host.

use std::sync::Arc;
use std::time::Duration;

use super::Reconcile;
use super::ending::Ending;
use crate::contract::snapshot::Snapshot;
use crate::object::child::ChildId;
use crate::object::once;
use crate::reconcile::applied::{Applied, Failed};
use crate::reconcile::carry_out::carry_out;
use crate::reconcile::outcome::{Requeue, UNAVAILABLE};
use crate::reconcile::plan::{Notes, OnceNote, Plan};
use crate::reconcile::record::Record;
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
        let now = self.shared.clock.date();
        let value = |note: &OnceNote| once::note(note.noted, &self.terms.name, &note.child, now);
        let written = |note: &OnceNote| (note.once.annotation(), Some(value(note)));
        let annotations: Vec<_> =
            notes.iter().map(written).chain(surplus.into_iter().map(|annotation| (annotation, None))).collect();
        let keep_untaken = |notes: &[&OnceNote]| {
            let untaken = notes.iter().map(|note| (note.once.annotation(), value(note)));
            self.record(|record| record.put_untaken_notes(untaken));
        };
        if let Err(Failed { problem, awaited }) = self.write_notes(snapshot, &annotations).await {
            // It may have been executed, and nothing is created.
            keep_untaken(&begun.iter().collect::<Vec<_>>());
            let written = awaited.map(|awaited| *awaited).into_iter().collect();
            let problems = vec![(ChildId::of(&snapshot.parent), problem)];
            return Applied { written, problems, ..Applied::default() };
        }
        let mut applied = carry_out(self.world, snapshot, plan).await;
        let undone: Vec<_> = begun.iter().filter(|note| !applied.may_be_created(&note.child)).collect();
        let annotations: Vec<_> = undone.iter().map(|note| (note.once.annotation(), None)).collect();
        if !undone.is_empty()
            && let Err(Failed { problem, awaited }) = self.annotate(snapshot, None, &annotations).await
        {
            keep_untaken(&undone);
            applied.written.extend(awaited.map(|awaited| *awaited));
            applied.problems.push((ChildId::of(&snapshot.parent), problem));
        }
        applied
    }

    /// Takes back the notes that an earlier reconcile could not take back, and ends this one then. A note with another value is another
    /// host's.
    pub(super) async fn take_back_notes(&self, snapshot: &mut Snapshot) -> Option<Ending> {
        let untaken = self.record(Record::take_untaken_notes).into_iter();
        let has = |(name, value): &(String, String)| snapshot.parent.marks.get(name) == Some(value);
        let untaken: Vec<_> = untaken.filter(has).collect();
        if untaken.is_empty() {
            return None;
        }
        let annotations: Vec<_> = untaken.iter().map(|(name, _)| (name.clone(), None)).collect();
        let version = Some(snapshot.parent.resource_version);
        Some(match self.annotate(snapshot, version, &annotations).await {
            Ok(()) => Ending::waits("notes_taken_back", Requeue::Pause(Duration::ZERO)),
            Err(Failed { awaited, .. }) => {
                self.record(|record| record.put_untaken_notes(untaken.into_iter()));
                self.add_own_writes(awaited.map(|awaited| *awaited));
                Ending::waits("notes_not_taken_back", UNAVAILABLE)
            }
        })
    }

    /// Writes notes on the version of the parent that the plan is based on: a newer one may have notes of another host.
    async fn write_notes(
        &self,
        snapshot: &mut Snapshot,
        annotations: &[(String, Option<String>)],
    ) -> Result<(), Failed> {
        self.world.may_finalize(&snapshot.parent_ref).await?;
        let version = Some(snapshot.parent.resource_version);
        self.annotate(snapshot, version, annotations).await
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
