//! diff(snapshot, desired) → the writes that lead from one to the other, in order; empty when nothing differs.

mod rolling;

use std::sync::Arc;

use hashbrown::HashMap;

use crate::contract::UpdateStrategy;
use crate::desired::{APPLIED_VERSION, Desired, DesiredChild};
use crate::digest::Digest;
use crate::ids::{GroupKind, Gvk, ObjectKey, Uid};
use crate::json::{self, Map, Value};
use crate::managed::Posted;
use crate::names;
use crate::object::Object;
use crate::order::install_rank;
use crate::snapshot::Snapshot;
use rolling::Rolling;

/// What to write for one parent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Creates and applies, in install order; independent of each other within a rank.
    pub writes: Vec<Write>,
    /// Deletes of what is no longer wanted, in reverse install order, once all writes succeeded (rule R8).
    pub prunes: Vec<Delete>,
    /// Wanted children that are still being deleted: they are made again when they are gone.
    pub terminating: Vec<ChildId>,
    /// Existing children whose change waits until another one of their kind is ready (rule R11).
    pub rolling: Vec<ChildId>,
}

/// One write towards what is desired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// POST: the API server decides whether the name is free.
    Create(Arc<DesiredChild>),
    /// Server-side apply to this very object.
    Apply {
        /// What it should be.
        child: Arc<DesiredChild>,
        /// What is changed.
        target: Target,
    },
    /// Deleted to be created anew when it is gone (`recreate`).
    Replace(Delete),
}

/// The live object that an apply changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its identity: a namesake is never hit.
    pub uid: Uid,
    /// The version that was decided on.
    pub resource_version: u64,
    /// What is to be done about the entry that our POST left in managedFields, if it stands there.
    pub posted: Option<Posted>,
    /// Names the values that are live, if they alone are why it is changed: by its managed fields nobody changed it.
    pub differing: Option<Digest>,
}

/// A delete with the identity as its precondition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delete {
    /// Which child.
    pub child: ChildId,
    /// The object's identity: a namesake is never hit.
    pub uid: Uid,
}

impl Write {
    /// The child that is written.
    pub fn child(&self) -> ChildId {
        match self {
            Self::Create(child) | Self::Apply { child, .. } => {
                ChildId { kind: child.kind.clone(), key: child.key.clone() }
            }
            Self::Replace(delete) => delete.child.clone(),
        }
    }
}

impl Delete {
    /// Of an object that exists.
    pub fn of(live: &Object) -> Self {
        Self { child: ChildId::of(live), uid: live.uid.clone() }
    }
}

/// A child's kind, namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ChildId {
    /// Kind.
    pub kind: Arc<Gvk>,
    /// Namespace and name.
    pub key: ObjectKey,
}

impl ChildId {
    /// Of an object that exists.
    pub fn of(object: &Object) -> Self {
        Self { kind: object.kind.clone(), key: object.key.clone() }
    }
}

impl std::fmt::Display for ChildId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind.kind, self.key)
    }
}

impl Plan {
    /// Whether something wanted must wait until something else is gone; then nothing is pruned yet (rule R8).
    pub fn waits(&self) -> bool {
        !self.terminating.is_empty() || self.writes.iter().any(|write| matches!(write, Write::Replace(_)))
    }

    /// Leaves out the deletes whose time has not come; they are planned again when it has.
    ///
    /// None may go while something wanted must wait for a deletion. While an update rolls, only those of kinds that roll
    /// may, which is a scale-down: children that have not changed yet may lean on everything else that they leaned on.
    pub fn put_off_prunes(&mut self) {
        let Self { prunes, rolling, .. } = self;
        prunes.retain(|delete| rolling.is_empty() || rolling.iter().any(|waiting| waiting.kind == delete.child.kind));
        if self.waits() {
            self.prunes.clear();
        }
    }

    /// Takes out the deletes whose time has come, in waves to be carried out one after the other (rule R10).
    pub fn take_due_prunes(&mut self) -> Vec<Vec<Delete>> {
        self.put_off_prunes();
        let waves = self.prunes.chunk_by(|a, b| install_rank(&a.child.kind) == install_rank(&b.child.kind));
        let waves = waves.map(<[Delete]>::to_vec).collect();
        self.prunes.clear();
        waves
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.prunes.is_empty()
    }

    /// Leaves out the writes of children that the plugin was not shown ([`Snapshot::left_out`]): it decided without them.
    pub fn keep_left_out(&mut self, snapshot: &Snapshot) {
        if snapshot.left_out.is_empty() {
            return;
        }
        self.writes.retain(|write| {
            let ChildId { kind, key } = write.child();
            let is_it = |child: &Arc<Object>| child.key == key && child.kind.group_kind() == kind.group_kind();
            !snapshot.left_out.iter().any(is_it)
        });
    }

    /// Leaves out all deletes, for when the children outlive their parent.
    pub fn keep_children(&mut self) {
        self.prunes.clear();
        self.writes.retain(|write| !matches!(write, Write::Replace(_)));
    }

    /// Leaves out the writes of children that their parent controls, for when it is about to go.
    pub fn keep_retained_writes(&mut self) {
        self.writes.retain(|write| match write {
            Write::Create(child) | Write::Apply { child, .. } => child.owner.is_none(),
            Write::Replace(_) => false,
        });
    }

    /// Leaves out the creates whose names are held by what is on its way out: they would be refused.
    pub fn put_off_creates(&mut self, is_leaving: impl Fn(&DesiredChild) -> bool) {
        let Self { writes, terminating, .. } = self;
        writes.retain(|write| match write {
            Write::Create(child) if is_leaving(child) => {
                terminating.push(ChildId { kind: child.kind.clone(), key: child.key.clone() });
                false
            }
            _ => true,
        });
    }

    /// How many creates, updates and deletes it has.
    pub fn counts(&self) -> (usize, usize, usize) {
        let count = |test: fn(&Write) -> bool| self.writes.iter().filter(|write| test(write)).count();
        let replaced = count(|write| matches!(write, Write::Replace(_)));
        (
            count(|write| matches!(write, Write::Create(_))),
            count(|write| matches!(write, Write::Apply { .. })),
            self.prunes.len() + replaced,
        )
    }
}

/// Plans what leads from what is to what is wanted.
pub fn plan(snapshot: &Snapshot, desired: &Desired) -> Plan {
    plan_comparing(snapshot, desired, |_, _| None)
}

/// The same, where `differing` is asked about each child that nobody changed by its managed fields: it answers with the name
/// of the live values if they are to be changed nevertheless (see [`differing`]).
pub fn plan_comparing(
    snapshot: &Snapshot,
    desired: &Desired,
    differing: impl Fn(&Object, &DesiredChild) -> Option<Digest>,
) -> Plan {
    let mut existing: HashMap<(GroupKind, &ObjectKey), &Arc<Object>> =
        snapshot.children.iter().map(|child| ((child.kind.group_kind(), &child.key), child)).collect();
    let mut plan = Plan::default();
    let mut rolling = Rolling::default();
    for child in &desired.children {
        match existing.remove(&(child.kind.group_kind(), &child.key)) {
            None => {
                rolling.in_progress(child);
                plan.writes.push(Write::Create(child.clone()));
            }
            Some(live) if live.deleting => {
                rolling.in_progress(child);
                plan.terminating.push(ChildId::of(live));
            }
            Some(live) if is_settled(live, child) => match differing(live, child) {
                None => rolling.settled(live, child),
                Some(values) => {
                    rolling.in_progress(child);
                    plan.writes.extend(put_back(live, child, Some(values)));
                }
            },
            Some(live) if is_drift(live, child) => {
                rolling.in_progress(child);
                plan.writes.extend(put_back(live, child, None));
            }
            Some(live) if rolling.change(live, child, plan.writes.len()) => {}
            Some(live) => plan.writes.extend(update(live, child)),
        }
    }
    rolling.plan_into(&mut plan);
    plan.prunes = existing
        .into_values()
        .filter(|live| !live.deleting && live.is_owned_by(&snapshot.parent.uid))
        .map(|live| Delete::of(live))
        .collect();
    plan.prunes.sort_by(|a, b| install_order(b).cmp(&install_order(a)));
    plan
}

fn install_order(delete: &Delete) -> (u8, &ObjectKey, &Gvk) {
    (install_rank(&delete.child.kind), &delete.child.key, &delete.child.kind)
}

/// Whether a child is what was applied last, and nobody changed what we own since (rule R7).
fn is_settled(live: &Object, child: &DesiredChild) -> bool {
    let applied = live.marks.get(names::ANNOTATION_APPLIED);
    let as_applied = match applied {
        Some(mark) if mark.starts_with(APPLIED_VERSION) => mark == child.applied,
        // Written by a version of Windlass that hashes in another way: changing it must write nothing.
        Some(_) => holds(live, &child.body),
        None => false,
    };
    as_applied && live.managed.cover(&child.body, &live.json, live.controller.as_ref())
}

/// Whether a live object has every field of a body, the annotation of what was applied aside.
fn holds(live: &Object, body: &Map) -> bool {
    let Ok(live) = json::parse(&live.json.bytes(), usize::from(u8::MAX)) else { return false };
    let mut body = body.clone();
    if let Some(annotations) = body.object_mut("metadata").and_then(|meta| meta.object_mut("annotations")) {
        annotations.remove(names::ANNOTATION_APPLIED);
    }
    live.holds(&Value::Object(body))
}

/// Names the values of a live child if they are not what is desired, whoever its managed fields say changed them. Its status
/// is its own controller's.
pub fn differing(live: &Object, child: &DesiredChild) -> Option<Digest> {
    let Ok(Value::Object(mut values)) = json::parse(&live.json.bytes(), usize::from(u8::MAX)) else { return None };
    if !live.managed.differs(&child.body, &values, live.controller.as_ref()) {
        return None;
    }
    values.remove("status");
    if let Some(meta) = values.object_mut("metadata") {
        meta.remove("resourceVersion");
        meta.remove("generation");
    }
    Some(Digest::of(Value::Object(values).to_string().as_bytes()))
}

fn apply(live: &Object, child: &Arc<DesiredChild>, differing: Option<Digest>) -> Write {
    let posted = live.managed.posted(&child.body, live.controller.as_ref());
    let target = Target { uid: live.uid.clone(), resource_version: live.resource_version, posted, differing };
    Write::Apply { child: child.clone(), target }
}

/// A delete, for the child to be made anew. What outlives its parent is never deleted: it is changed in place, and what
/// cannot be changed the API server refuses.
fn replace(live: &Object, child: &Arc<DesiredChild>) -> Write {
    if live.controller.is_some() { Write::Replace(Delete::of(live)) } else { apply(live, child, None) }
}

/// Whether what is wanted is what was wanted: then somebody edited the child. So did who took the mark of it away; or it was
/// adopted and nothing was applied to it yet. Neither is a reason to delete it.
fn is_drift(live: &Object, child: &DesiredChild) -> bool {
    live.marks.get(names::ANNOTATION_APPLIED).is_none_or(|applied| applied == child.applied)
}

/// What to do about an edit: an apply undoes it, whatever the strategy, since nothing need restart for it.
fn put_back(live: &Object, child: &Arc<DesiredChild>, differing: Option<Digest>) -> Option<Write> {
    match child.update {
        UpdateStrategy::OnDelete => None,
        UpdateStrategy::Apply | UpdateStrategy::Recreate | UpdateStrategy::Rolling { .. } => {
            Some(apply(live, child, differing))
        }
    }
}

/// What to do about a child that is to be other than it was wanted so far; see [`Rolling`] for those that wait.
fn update(live: &Object, child: &Arc<DesiredChild>) -> Option<Write> {
    match child.update {
        UpdateStrategy::OnDelete | UpdateStrategy::Rolling { .. } => None,
        UpdateStrategy::Recreate => Some(replace(live, child)),
        UpdateStrategy::Apply => Some(apply(live, child, None)),
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
