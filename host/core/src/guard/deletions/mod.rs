//! Blocks deletions that no user asked for until a user allows them (rule R9). [`ParentDeletions`] remembers the
//! blocked deletions of one parent, [`Rollout`] counts those of many parents together. A [`Fleet`] has the rollout of
//! the live component, and one rollout for each namespace that the Plugin no longer selects.

mod blocked;
mod fleet;
mod parents;
mod rollout;
mod spec_hash;
mod waiting;

use std::borrow::Cow;
use std::collections::HashSet;

use jiff::Timestamp;

use self::blocked::{SHOWN, mismatch, target};
use crate::contract::Phase;
use crate::contract::snapshot::Snapshot;
use crate::object::Object;
use crate::object::child::Delete;
use crate::object::names;
use crate::object::observed_status::{StatusShape, observed};
use crate::value::digest::Digest;
use crate::value::ids::Uid;
use crate::value::json::Value;

pub use blocked::{BlockReason, BlockedDeletions, blocked_in_status};
pub use fleet::{Fleet, Leavers};
pub use rollout::{Rollout, RolloutDecision, RolloutRecord};
pub use spec_hash::SpecHash;

/// The limits above which deletions are blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeletionGuard {
    /// Largest share of the children (of one parent, or of all parents in a rollout) that may be deleted at once, in
    /// percent.
    pub max_percent: u8,
    /// With fewer children than this, deletions are not blocked.
    pub min_children: usize,
}

impl Default for DeletionGuard {
    fn default() -> Self {
        Self { max_percent: 50, min_children: 4 }
    }
}

/// Tolerated clock skew, in seconds: how far the host's clock may be ahead of the API server's.
const CLOCK_SKEW: i64 = 5;

impl DeletionGuard {
    /// Returns false if `max_percent` is 100, which turns the guard off. Ignores `min_children`: while a child is
    /// recreated, the number of children is lower for a moment, and that must not release blocked deletions.
    fn can_block(self) -> bool {
        self.max_percent < 100
    }

    /// Returns true if `prunes` of `owned` children exceed the limit. The share is computed over `baseline`, the
    /// children that existed before the new version created any.
    fn is_too_many(self, prunes: usize, owned: usize, baseline: usize) -> bool {
        owned >= self.min_children
            && prunes.saturating_mul(100) > baseline.saturating_mul(usize::from(self.max_percent))
    }
}

/// What the guard remembers of one parent's deletions.
///
/// Deletions stay blocked until a user allows them, the plan deletes nothing any more, or the guard is turned off. The
/// creates of the same response are carried out, so at the next reconcile the same deletions are a smaller share.
/// Without a memory, a response that renames all children would delete the old ones at its second attempt. The parent's
/// status carries the block over to the next process.
#[derive(Debug, Default)]
pub struct ParentDeletions {
    blocked: Option<Blocked>,
    allowed: Option<Allowed>,
}

#[derive(Debug)]
struct Blocked {
    uid: Uid,
    because: BlockReason,
}

/// Deletions that a user allowed. They stay recorded until none is left: some of them may fail, and the remaining ones
/// have another hash.
#[derive(Debug)]
struct Allowed {
    /// The value of the parent's annotation; `None` if the deletions were allowed at the Plugin.
    hash: Option<String>,
    children: HashSet<Uid>,
}

impl ParentDeletions {
    /// Returns true if there is nothing to remember.
    pub fn is_empty(&self) -> bool {
        self.blocked.is_none() && self.allowed.is_none()
    }

    /// Notes and returns whether a user allowed these deletions: the parent's annotation matches them, or matched a larger
    /// set that includes them, or they remain from deletions that were allowed at the Plugin.
    fn note_allowed(&mut self, snapshot: &Snapshot, prunes: &[Delete]) -> bool {
        let annotation = snapshot.parent.marks.get(names::ANNOTATION_ALLOW_DELETION);
        if annotation.is_some_and(|annotation| hash_of(prunes).short() == annotation) {
            self.allow(annotation.map(str::to_owned), prunes);
            return true;
        }
        self.allowed.as_ref().is_some_and(|known| {
            (known.hash.is_none() || known.hash.as_deref() == annotation)
                && prunes.iter().all(|left| known.children.contains(&left.uid))
        })
    }

    fn allow(&mut self, hash: Option<String>, prunes: &[Delete]) {
        let children = prunes.iter().map(|delete| delete.uid.clone()).collect();
        self.allowed = Some(Allowed { hash, children });
    }

    /// Why the parent's deletions are blocked already, according to this process or to the parent's status.
    fn blocked(&self, parent: &Object) -> Option<BlockReason> {
        self.blocked_by_last_plan(parent).or_else(|| blocked_in_status(parent))
    }

    /// Why the parent's deletions are blocked, according to the last plan of this process.
    pub fn blocked_by_last_plan(&self, parent: &Object) -> Option<BlockReason> {
        self.blocked.as_ref().filter(|blocked| blocked.uid == parent.uid).map(|blocked| blocked.because)
    }

    /// Returns the deletions as blocked if they are not allowed and exceed the limit, or did before.
    fn block(
        &mut self,
        guard: DeletionGuard,
        snapshot: &Snapshot,
        is_allowed: bool,
        because: BlockReason,
        created_since: Option<Timestamp>,
        prunes: &[Delete],
    ) -> Option<BlockedDeletions> {
        let parent = &snapshot.parent;
        if prunes.is_empty() {
            self.allowed = None;
        }
        if is_allowed || prunes.is_empty() {
            self.blocked = None;
            return None;
        }
        let children = snapshot.children.iter().filter(|child| !child.deleting && child.is_owned_by(&parent.uid));
        let owned = children.clone().count();
        let baseline = created_since.map_or(owned, |since| children.filter(|child| existed(child, since)).count());
        let was_blocked = self.blocked(parent);
        let is_blocked = guard.is_too_many(prunes.len(), owned, baseline) || was_blocked.is_some() && guard.can_block();
        if !is_blocked {
            self.blocked = None;
            return None;
        }
        // Deletions that a new component caused keep that reason, even after the component was called for all other
        // parents.
        let because = was_blocked.filter(|was| *was == BlockReason::NewComponent).unwrap_or(because);
        self.blocked = Some(Blocked { uid: parent.uid.clone(), because });
        let hash = hash_of(prunes).short();
        let mismatch = mismatch(parent.marks.get(names::ANNOTATION_ALLOW_DELETION), &hash);
        Some(BlockedDeletions {
            hash,
            deletions: prunes.len(),
            children_total: owned,
            children: prunes.iter().take(SHOWN).map(|delete| delete.child.clone()).collect(),
            because,
            target: target(&snapshot.parent_ref),
            mismatch,
        })
    }
}

/// The deletions of one parent's plan.
#[derive(Debug, Clone)]
pub struct Deletions<'a> {
    /// The children that are no longer desired.
    pub pruned: &'a [Delete],
    /// The children that are deleted to be recreated.
    pub recreated: Vec<Delete>,
}

impl Deletions<'_> {
    /// Returns true if no child is deleted.
    pub fn is_empty(&self) -> bool {
        self.pruned.is_empty() && self.recreated.is_empty()
    }

    /// The deletions that count; with `with_recreated`, including children that are recreated.
    fn counted(&self, with_recreated: bool) -> Cow<'_, [Delete]> {
        if with_recreated && !self.recreated.is_empty() {
            self.pruned.iter().chain(&self.recreated).cloned().collect()
        } else {
            Cow::Borrowed(self.pruned)
        }
    }
}

/// What may not be carried out of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Why no child may be pruned.
    pub stop: Stop,
    /// Whether no child may be recreated, either.
    pub keeps_recreated: bool,
}

/// Why the deletions of a plan may not be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// Deletions are delayed until the new component was called for all parents; then the parent is queued again.
    PutOff,
    /// Deletions are blocked for this parent.
    AtParent(BlockedDeletions),
    /// Deletions are blocked at the Plugin: for this parent, together with those of other parents.
    AtPlugin(BlockedDeletions),
    /// Deletions wait for the leader, which must reconcile the parent: this host has a share of the parents only.
    ForLeader,
}

/// What happened to a parent, as far as it shows whether a user asked for the plan's deletions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The parent is being deleted: a user asked.
    Deleted,
    /// The parent's spec changed since its last reconcile: a user asked, unless the component is new as well.
    SpecChanged,
    /// Nothing happened: no user asked.
    Unchanged,
    /// The parent no longer matches the label selector: no user asked.
    LeftSelector,
    /// The Plugin no longer selects the parent's namespace, and so none of the parents in it: no user asked.
    LeftNamespaces,
}

/// Determines the cause for a parent that its Plugin selects.
///
/// The spec changed if `metadata.generation` is greater than `status.observedGeneration`. While the status of a parent has no
/// `observedGeneration`, the change cannot be detected, so deletions count as not asked for: the status may have been wiped, or the schema
/// may have only just got the field. As a consequence, scaling down a parent is blocked until its first success (some of its children may
/// exist by then).
///
/// Without a status of the host, as that of a kind that exists without the plugin, the spec changed if it is another one than when the
/// parent was last as desired, or stalled, in this process (`observed`); none if it was not yet.
pub fn cause(snapshot: &Snapshot, phase: Phase, shape: StatusShape, observed: Option<SpecHash>) -> Cause {
    if phase == Phase::Finalize && snapshot.parent.deleting {
        Cause::Deleted
    } else if spec_changed(&snapshot.parent, shape, observed) {
        Cause::SpecChanged
    } else {
        Cause::Unchanged
    }
}

fn spec_changed(parent: &Object, shape: StatusShape, before: Option<SpecHash>) -> bool {
    if !shape.has_generation() {
        return before.is_some_and(|before| before != SpecHash::of(parent));
    }
    let observed = match observed(parent).get("observedGeneration") {
        Some(Value::Number(number)) => number.as_i64(),
        _ => None,
    };
    matches!((parent.generation, observed), (Some(now), Some(observed)) if now > observed)
}

/// Applies rule R9 to the deletions of one plan: says whether they may be carried out now.
///
/// In a rollout, a changed spec does not count as a user's request until the deletions of this parent are decided: the
/// user may have changed the spec together with the component. Also, `observedGeneration` lags behind if reconciles
/// have failed since the last change, which looks like a changed spec. Children that the plan replaces count as
/// deleted.
///
/// Each parent is checked on its own as well, even while all deletions of its plugin wait: the creates of the same
/// response are carried out meanwhile, and would make the deletions a smaller share.
///
/// `leavers` returns the parents that left the Plugin together with a parent that
/// [left the Plugin's namespaces](Cause::LeftNamespaces).
pub fn judge(
    fleet: &mut Fleet,
    own: &mut ParentDeletions,
    guard: DeletionGuard,
    snapshot: &Snapshot,
    cause: impl FnOnce() -> Cause,
    leavers: impl FnOnce() -> Leavers,
    deletions: &Deletions<'_>,
) -> Option<Verdict> {
    let parent = &snapshot.parent.key;
    let created_since = fleet.rollout().created_since(parent);
    // Most plans delete nothing, so the parent's status need not be parsed.
    let own_block = if deletions.is_empty() { None } else { own.blocked(&snapshot.parent) };
    let may_be_by_component = fleet.is_undecided_for(parent) || own_block == Some(BlockReason::NewComponent);
    let deletions = deletions.counted(may_be_by_component);
    let cause = if deletions.is_empty() && !fleet.is_leaving(parent) { Cause::Unchanged } else { cause() };
    let (is_asked, because) = asked(own, snapshot, cause, may_be_by_component, &deletions);
    let leaves_children = cause == Cause::LeftNamespaces && has_children(snapshot);
    let decision = fleet.evaluated(guard, parent, &deletions, (is_asked, cause), leaves_children, leavers);
    if decision == RolloutDecision::Allowed {
        own.allow(None, &deletions);
    }
    let is_allowed = is_asked || decision == RolloutDecision::Allowed;
    let blocked = own.block(guard, snapshot, is_allowed, because, created_since, &deletions);
    let stop = match decision {
        RolloutDecision::Delete | RolloutDecision::Allowed => blocked.map(Stop::AtParent),
        RolloutDecision::PutOff => Some(Stop::PutOff),
        RolloutDecision::Blocked(blocked) => Some(Stop::AtPlugin(blocked)),
        RolloutDecision::ForLeader => Some(Stop::ForLeader),
    };
    stop.map(|stop| Verdict { stop, keeps_recreated: may_be_by_component })
}

/// Whether a user asked for these deletions of a parent's children, and why they are blocked if nobody did.
fn asked(
    own: &mut ParentDeletions,
    snapshot: &Snapshot,
    cause: Cause,
    may_be_by_component: bool,
    deletions: &[Delete],
) -> (bool, BlockReason) {
    let by_user = match cause {
        Cause::Deleted => true,
        Cause::SpecChanged => !may_be_by_component,
        Cause::Unchanged | Cause::LeftSelector | Cause::LeftNamespaces => false,
    };
    let because = match cause {
        Cause::LeftSelector | Cause::LeftNamespaces => BlockReason::Left,
        Cause::Deleted | Cause::SpecChanged | Cause::Unchanged if may_be_by_component => BlockReason::NewComponent,
        Cause::Deleted | Cause::SpecChanged | Cause::Unchanged => BlockReason::Inputs,
    };
    (deletions.is_empty() || by_user || own.note_allowed(snapshot, deletions), because)
}

/// Returns true if the parent has children that are not being deleted.
fn has_children(snapshot: &Snapshot) -> bool {
    let uid = &snapshot.parent.uid;
    snapshot.children.iter().chain(&snapshot.left_out).any(|child| !child.deleting && child.is_owned_by(uid))
}

/// Returns true if the child was created before `since`, by the API server's clock, which may differ a little from the
/// host's.
fn existed(child: &Object, since: Timestamp) -> bool {
    let created =
        child.field("metadata").and_then(|meta| meta.at(&["creationTimestamp"])?.as_str()?.parse::<Timestamp>().ok());
    created.is_some_and(|created| created.as_second().saturating_add(CLOCK_SKEW) < since.as_second())
}

/// Hashes a set of deletions over kind, namespace, name and UID, independent of their order.
fn hash_of(prunes: &[Delete]) -> Digest {
    let mut lines: Vec<String> = prunes
        .iter()
        .map(|Delete { child, uid, .. }| format!("{}\n{}\n{}\n{uid}\n", child.kind.group, child.kind.kind, child.key))
        .collect();
    lines.sort();
    Digest::of(lines.concat().as_bytes())
}

#[cfg(test)]
mod tests;
