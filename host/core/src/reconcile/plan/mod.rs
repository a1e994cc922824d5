//! Computes the plan: the ordered writes that lead from the snapshot to the desired state. The plan is empty if nothing
//! differs.

mod compare;
mod notes;
mod rolling;
mod stages;

use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::{HashMap, HashSet};

pub use self::compare::{differing, differs_in_metadata};
use self::compare::{has_stage, is_drift, is_of_other_text, is_settled};
pub use self::notes::{Notes, OnceNote};
use self::rolling::Rolling;
pub use self::stages::Staged;
use self::stages::Stages;
use crate::contract::UpdateStrategy;
use crate::contract::desired::{Desired, DesiredChild};
use crate::contract::snapshot::Snapshot;
use crate::guard::breaker::{Breaker, ParentRevision};
use crate::guard::deletions::{Deletions, Stop, Verdict};
use crate::object::Object;
use crate::object::child::{ChildId, Delete};
use crate::object::managed::CreateEntry;
use crate::object::names;
use crate::object::order::install_rank;
use crate::value::digest::Digest;
use crate::value::ids::{GroupKind, Gvk, ObjectKey, Uid};

/// The writes for one parent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Creates, applies and replacing deletes, in install order; independent of each other within a rank.
    pub writes: Vec<Write>,
    /// Deletes of children that are no longer desired, in reverse install order; carried out after all writes succeeded
    /// (rule R8).
    pub prunes: Vec<Delete>,
    /// Deletes that the guard does not allow.
    pub held: Vec<Delete>,
    /// Children that are being deleted, and on whose end the creation of desired ones waits: these themselves, or those that they replace.
    pub terminating: Vec<ChildId>,
    /// Existing children whose change waits until another child of their kind is ready (rule R11).
    pub rolling: Vec<ChildId>,
    /// Children that are no longer desired, if some are on their way out or must be gone before others (rule R23).
    pub leaving: Option<Box<Leaving>>,
    /// Children that wait for those of lower stages (rule R23).
    pub staged: Option<Box<Staged>>,
    /// Existing children that change only once a user deletes them (update strategy `on-delete`).
    pub when_deleted: Vec<ChildId>,
    /// What the parent is to say of children that are created once, if that changes (rule R25).
    pub notes: Option<Box<Notes>>,
}

/// Children that are no longer desired, and go by stage (rule R23).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leaving {
    /// Those that are being deleted already.
    pub deleting: Vec<Delete>,
    /// Those that must be gone before children of lower stages are deleted.
    pub first: Vec<ChildId>,
    /// Those that are not due, and go all the same if they are in the way of others that replace them (rule R10).
    pub room: Vec<Delete>,
}

/// One write towards the desired state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// POST; the API server decides whether the name is free.
    Create(Arc<DesiredChild>),
    /// Server-side apply to exactly this object.
    Apply {
        /// The desired child.
        child: Arc<DesiredChild>,
        /// The object to change.
        target: Target,
    },
    /// Delete; the child is recreated once it is gone (update strategy `recreate`).
    Replace(Delete),
}

/// The live object that an apply changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The object's UID, so that another object of the same name is never written.
    pub uid: Uid,
    /// The resource version on which the plan is based.
    pub resource_version: u64,
    /// What to do about the `managedFields` entry that the host's own POST left; `None` if there is no such entry.
    pub create_entry: Option<CreateEntry>,
    /// Whether the desired state was applied before, so that the apply reverts what another manager changed or removed.
    pub restores: bool,
    /// Hash of the live values, if the values alone are the reason for the change: according to `managedFields`, no
    /// manager changed the object.
    pub differing: Option<Digest>,
}

impl Target {
    /// The target of a child's apply to a live object. `differing`: the hash of its values, if they are the reason.
    pub fn of(live: &Object, child: &DesiredChild, differing: Option<Digest>) -> Self {
        Self {
            uid: live.uid.clone(),
            resource_version: live.resource_version,
            create_entry: live.managed.create_entry(&child.body, live.controller.as_ref()),
            restores: live.marks.get(names::ANNOTATION_APPLIED) == Some(child.applied.as_str())
                && has_stage(live, child),
            differing,
        }
    }
}

impl Write {
    /// Returns the child that is written.
    pub fn child(&self) -> ChildId {
        match self {
            Self::Create(child) | Self::Apply { child, .. } => child.id(),
            Self::Replace(delete) => delete.child.clone(),
        }
    }

    /// Whether this creates a child that replaces this one.
    fn replaces(&self, other: &ChildId) -> bool {
        matches!(self, Self::Create(child) if child.replaces(other))
    }
}

impl Plan {
    /// The deletes of children that are recreated.
    fn recreated(&self) -> impl Iterator<Item = &Delete> {
        self.writes.iter().filter_map(|write| match write {
            Write::Replace(delete) => Some(delete),
            Write::Create(_) | Write::Apply { .. } => None,
        })
    }

    /// Returns true if a desired child must wait for a deletion; nothing is pruned before that (rule R8).
    pub fn waits(&self) -> bool {
        !self.terminating.is_empty() || self.recreated().next().is_some()
    }

    /// Removes the deletes that are not due; later plans contain them again.
    ///
    /// None is due while a desired child waits for a deletion. While children wait for
    /// lower stages, only deletes of stages below theirs are due. During a rolling update, only deletes of the rolling kinds are due, that
    /// is, a scale-down: children that have not changed yet may depend on all other children that they used. Of several stages, only
    /// deletes of the highest one are due, until its children are gone.
    pub fn put_off_prunes(&mut self) {
        let Self { writes, prunes, rolling, .. } = self;
        let is_replaced = |delete: &&Delete| writes.iter().any(|write| write.replaces(&delete.child));
        let mut room: Vec<_> = prunes.iter().filter(is_replaced).cloned().collect();
        prunes.retain(|delete| rolling.is_empty() || rolling.iter().any(|waiting| waiting.kind == delete.child.kind));
        if self.waits() {
            self.prunes.clear();
        }
        if let Some(staged) = &self.staged {
            self.prunes.retain(|delete| delete.stage < staged.from);
        }
        self.put_off_lower_stages();
        room.retain(|delete| !self.prunes.contains(delete));
        if !room.is_empty() {
            let leaving = self.leaving.get_or_insert_default();
            room.retain(|delete| !leaving.room.contains(delete));
            leaving.room.append(&mut room);
        }
    }

    /// Of several stages, leaves the deletes of the highest one.
    fn put_off_lower_stages(&mut self) {
        let deleting = self.leaving.iter().flat_map(|leaving| &leaving.deleting);
        let Some(highest) = self.prunes.iter().chain(deleting).map(|delete| delete.stage).max() else { return };
        if self.prunes.iter().all(|delete| delete.stage == highest) {
            return;
        }
        let leaving = self.leaving.get_or_insert_default();
        let first = self.prunes.iter().chain(&leaving.deleting).filter(|delete| delete.stage == highest);
        leaving.first = first.map(|delete| delete.child.clone()).collect();
        self.prunes.retain(|delete| delete.stage == highest);
    }

    /// Removes and returns the due deletes, in waves to be carried out one after another (rule R10).
    pub fn take_due_prunes(&mut self) -> Vec<Vec<Delete>> {
        self.put_off_prunes();
        let waves = self.prunes.chunk_by(|a, b| install_rank(&a.child.kind) == install_rank(&b.child.kind));
        let waves = waves.map(<[Delete]>::to_vec).collect();
        self.prunes.clear();
        waves
    }

    /// Returns true if the plan writes and deletes nothing.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.prunes.is_empty() && self.notes.is_none()
    }

    /// Removes everything that the plan writes and deletes.
    pub fn clear(&mut self) {
        self.writes.clear();
        self.prunes.clear();
        self.notes = None;
    }

    /// Forgets which children wait for others: those others are not written any more, so that nothing would end the wait.
    pub fn wait_for_none(&mut self) {
        self.rolling.clear();
        self.staged = None;
    }

    /// Removes all deletes, because the children outlive their parent.
    pub fn keep_children(&mut self) {
        self.prunes.clear();
        self.writes.retain(|write| !matches!(write, Write::Replace(_)));
    }

    /// Removes the writes of children that their parent controls, because the parent is about to be deleted; writes of
    /// retained children stay.
    pub fn keep_retained_writes(&mut self) {
        self.writes.retain(|write| match write {
            Write::Create(child) | Write::Apply { child, .. } => child.owner.is_none(),
            Write::Replace(_) => false,
        });
    }

    /// Removes creates whose names belong to objects that are being deleted: the API server would reject them.
    pub fn put_off_creates(&mut self, is_leaving: impl Fn(&DesiredChild) -> bool) {
        let Self { writes, terminating, .. } = self;
        writes.retain(|write| match write {
            Write::Create(child) if is_leaving(child) => {
                terminating.push(child.id());
                false
            }
            _ => true,
        });
    }

    /// The deletions that the guard must allow.
    pub fn deletions(&self) -> Deletions<'_> {
        Deletions { pruned: &self.prunes, recreated: self.recreated().cloned().collect() }
    }

    /// Removes what the guard does not allow. Creates and updates stay, unless the leader must decide: with new children, the deletions
    /// would be a smaller share when it counts them.
    pub fn obey(&mut self, verdict: &Verdict) {
        self.held = std::mem::take(&mut self.prunes);
        let Self { writes, held, .. } = self;
        // What the guard holds may be in the way of these: the parent says what a user must allow.
        writes.retain(|write| !held.iter().any(|delete| write.replaces(&delete.child)));
        if verdict.stop == Stop::ForLeader {
            self.writes.clear();
        }
        if verdict.keeps_recreated {
            self.writes.retain(|write| !matches!(write, Write::Replace(_)));
        }
    }

    /// Counts the writes and deletes in the breaker, and removes those that must wait. Returns the removed ones with their waits. While a
    /// write waits, nothing is pruned (rule R8). Only operations that are carried out may be counted, so deletes that are not due are
    /// removed as well.
    pub fn admit(&mut self, breaker: &mut Breaker, revision: ParentRevision, now: Instant) -> Vec<(ChildId, Duration)> {
        self.put_off_prunes();
        let mut waiting = Vec::new();
        let writes = self.writes.len();
        for child in self.renamed(|child| breaker.was_just_written(revision, child, now)) {
            if let Err(wait) = breaker.admit_renames(revision, &child.kind, now) {
                self.writes.retain(|write| !matches!(write, Write::Create(_)) || write.child().kind != child.kind);
                waiting.push((child, wait));
            }
        }
        let mut passes = |child: ChildId| match breaker.admit(revision, &child.kind, &child.key, now) {
            Ok(()) => true,
            Err(wait) => {
                waiting.push((child, wait));
                false
            }
        };
        self.writes.retain(|write| passes(write.child()));
        if self.writes.len() < writes {
            self.prunes.clear();
        }
        self.prunes.retain(|delete| passes(delete.child.clone()));
        if let Some(leaving) = &mut self.leaving {
            leaving.room.retain(|delete| passes(delete.child.clone()));
        }
        waiting
    }

    /// Of each kind of which children are created while others of it that were just written are (or, but for the guard, would be) deleted:
    /// one of those others.
    fn renamed(&self, was_just_written: impl Fn(&ChildId) -> bool) -> Vec<ChildId> {
        let created: HashSet<&Gvk> = self
            .writes
            .iter()
            .filter_map(|write| if let Write::Create(child) = write { Some(&*child.kind) } else { None })
            .collect();
        let mut renamed = Vec::<ChildId>::new();
        let room = self.leaving.iter().flat_map(|leaving| &leaving.room);
        for Delete { child, .. } in self.prunes.iter().chain(&self.held).chain(room) {
            let is_known = renamed.iter().any(|known| known.kind == child.kind);
            if !is_known && created.contains(&&*child.kind) && was_just_written(child) {
                renamed.push(child.clone());
            }
        }
        renamed
    }

    /// Children whose deletion must end before the desired ones can take their place, or before others are deleted.
    pub fn being_deleted(&self) -> Vec<ChildId> {
        let recreated = self.recreated().map(|delete| &delete.child);
        let first = self.leaving.iter().flat_map(|leaving| &leaving.first);
        self.terminating.iter().chain(recreated).chain(first).cloned().collect()
    }

    /// Returns the number of creates, updates and deletes.
    pub fn counts(&self) -> (usize, usize, usize) {
        let creates = self.writes.iter().filter(|write| matches!(write, Write::Create(_))).count();
        let replaced = self.recreated().count();
        (creates, self.writes.len() - creates - replaced, self.prunes.len() + replaced)
    }
}

/// Plans the writes that lead from the snapshot to the desired state. Calls `differing` for each child that is unchanged according to its
/// managed fields; it returns the hash of the live values if they must be changed nevertheless (see [`differing`]).
pub fn plan_comparing(
    snapshot: &Snapshot,
    desired: &Desired,
    differing: impl Fn(&Object, &DesiredChild) -> Option<Digest>,
) -> Plan {
    let mut existing: HashMap<(GroupKind, &ObjectKey), &Arc<Object>> =
        snapshot.children.iter().map(|child| ((child.kind.group_kind(), &child.key), child)).collect();
    let stages = Stages::new(desired.children.last().is_some_and(|child| child.stage > 0));
    let mut planning = Planning { stages, ..Planning::default() };
    for child in &desired.children {
        match existing.remove(&(child.kind.group_kind(), &child.key)) {
            None => planning.missing(child, snapshot),
            Some(live) => {
                planning.existing(live, child, &snapshot.parent, &differing);
                planning.note(live, child, &snapshot.parent);
            }
        }
    }
    let mut plan = planning.finish();
    let undesired =
        existing.into_values().filter(|live| live.is_owned_by(&snapshot.parent.uid) && !desired.kept.has(live));
    let (deleting, pruned): (Vec<_>, Vec<_>) =
        undesired.map(|live| (live.deleting, Delete::of(live))).partition(|(is, _)| *is);
    let [deleting, pruned] =
        [deleting, pruned].map(|all| all.into_iter().map(|(_, delete)| delete).collect::<Vec<_>>());
    plan.leaving = (!deleting.is_empty()).then(|| Box::new(Leaving { deleting, ..Leaving::default() }));
    plan.prunes = pruned;
    plan.prunes.sort_by(|a, b| install_order(b).cmp(&install_order(a)));
    plan.drop_surplus_notes(snapshot, desired);
    plan
}

/// A plan that is being made, child by child.
#[derive(Default)]
struct Planning<'a> {
    plan: Plan,
    rolling: Rolling<'a>,
    stages: Stages<'a>,
}

impl<'a> Planning<'a> {
    /// Plans a child that the snapshot does not show. One that was left out of the request stays as it is: the plugin decided without it.
    fn missing(&mut self, child: &'a Arc<DesiredChild>, snapshot: &Snapshot) {
        if snapshot.is_left_out(child) {
            self.busy(child, "it was left out of the request");
        } else if let Some(noted) = child.once.as_ref().and_then(|once| once.noted(&snapshot.parent)) {
            self.stages.gone(child, noted);
        } else if !self.stages.waits(child) {
            self.busy(child, "it does not exist yet");
            match snapshot.children.iter().find(|live| live.deleting && child.replaces(&ChildId::of(live))) {
                Some(live) => self.plan.terminating.push(ChildId::of(live)),
                None => self.plan.writes.push(Write::Create(child.clone())),
            }
        }
    }

    fn existing(
        &mut self,
        live: &'a Arc<Object>,
        child: &'a Arc<DesiredChild>,
        parent: &Object,
        differing: impl Fn(&Object, &DesiredChild) -> Option<Digest>,
    ) {
        // A child that is created once is not created again.
        let is_left = child.update == UpdateStrategy::OnDelete || child.once.is_some() && child.update.recreates();
        if live.deleting {
            self.busy(child, "it is being deleted");
            self.plan.terminating.push(ChildId::of(live));
        } else if is_of_other_text(live, child, parent) {
            if !self.stages.waits(child) {
                self.busy(child, "it is being replaced");
                self.plan.writes.push(replace(live, child));
            }
        } else if is_settled(live, child) {
            match differing(live, child) {
                None => {
                    self.rolling.settled(live, child);
                    self.stages.unchanged(live, child);
                }
                Some(_) if child.update == UpdateStrategy::OnDelete => self.stages.unchanged(live, child),
                Some(values) => self.restore(live, child, Some(values)),
            }
        } else if child.update != UpdateStrategy::OnDelete && is_drift(live, child) {
            // An edit is reverted in place, also with the strategies that recreate children: the child need not restart.
            self.restore(live, child, None);
        } else if is_left {
            self.plan.when_deleted.push(ChildId::of(live));
            self.stages.unchanged(live, child);
        } else if !self.stages.waits(child) {
            self.change(live, child);
        }
    }

    /// Plans a child whose desired state was applied before, and that others have changed.
    fn restore(&mut self, live: &Object, child: &'a Arc<DesiredChild>, differing: Option<Digest>) {
        self.busy(child, "it is being changed");
        self.plan.writes.push(apply(live, child, differing));
    }

    /// Plans a child whose desired state has changed.
    fn change(&mut self, live: &'a Arc<Object>, child: &'a Arc<DesiredChild>) {
        self.stages.busy(child, "it is being changed");
        if !self.rolling.change(live, child, self.plan.writes.len()) {
            let is_recreated = child.update == UpdateStrategy::Recreate;
            self.plan.writes.push(if is_recreated { replace(live, child) } else { apply(live, child, None) });
        }
    }

    /// Records a child on which the host is still working.
    fn busy(&mut self, child: &'a DesiredChild, why: &'static str) {
        self.rolling.in_progress(child);
        self.stages.busy(child, why);
    }

    fn finish(self) -> Plan {
        let Self { mut plan, rolling, stages } = self;
        rolling.plan_into(&mut plan);
        stages.plan_into(&mut plan);
        plan
    }
}

fn install_order(delete: &Delete) -> (u8, &ObjectKey, &Gvk) {
    (install_rank(&delete.child.kind), &delete.child.key, &delete.child.kind)
}

fn apply(live: &Object, child: &Arc<DesiredChild>, differing: Option<Digest>) -> Write {
    Write::Apply { child: child.clone(), target: Target::of(live, child, differing) }
}

/// Plans the recreation of a child. A retained child, which has no controller, is applied in place instead.
fn replace(live: &Object, child: &Arc<DesiredChild>) -> Write {
    if live.controller.is_some() { Write::Replace(Delete::of(live)) } else { apply(live, child, None) }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
