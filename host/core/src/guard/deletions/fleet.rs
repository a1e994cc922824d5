//! Guards deletions over all parents of one plugin: deletions that a new version plans, and deletions of children in
//! namespaces that the Plugin no longer selects.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::{BlockedDeletions, Cause, DeletionGuard, Rollout, RolloutDecision, RolloutRecord};
use crate::object::child::Delete;
use crate::value::digest::Digest;
use crate::value::ids::ObjectKey;

/// The rollout of the plugin's version, and one rollout for each namespace that the Plugin no longer selects. A single
/// edit of a namespace's labels deselects all parents in the namespace, each of which may have too few children for a
/// guard of its own.
#[derive(Debug)]
pub struct Fleet {
    rollout: Rollout,
    /// By namespace; an entry stays until all children are deleted or the namespace is selected again.
    leaving: BTreeMap<Arc<str>, Rollout>,
    /// The value of the Plugin's annotation that allows deletions.
    allowed: Option<Box<str>>,
    /// The rollout as the leader has recorded it, if this host has a share of the parents only: it does not decide about
    /// deletions of many parents.
    share_of: Option<RolloutRecord>,
    /// Parents whose deletions only the leader may decide about: as long as there are any, it has all parents.
    for_leader: HashSet<ObjectKey>,
}

/// The parents in a namespace that the Plugin no longer selects.
#[derive(Debug, Default)]
pub struct Leavers {
    /// The parents in the namespace that have children.
    pub parents: Vec<ObjectKey>,
    /// Number of their children in total.
    pub owned: usize,
}

impl Fleet {
    /// Creates the fleet for a new version of the plugin.
    pub fn new(rollout: Rollout) -> Self {
        Self { rollout, leaving: BTreeMap::new(), allowed: None, share_of: None, for_leader: HashSet::new() }
    }

    /// Creates the fleet of a host that has a share of the parents only. The leader has recorded the rollout.
    pub fn of_share(guard: DeletionGuard, version: Digest, rollout: RolloutRecord) -> Self {
        Self { share_of: Some(rollout), ..Self::new(Rollout::begin(guard, version, [], 0, None)) }
    }

    /// See [`Rollout::is_undecided_for`]. Only the leader knows for which parents its rollout is undecided.
    pub fn is_undecided_for(&self, parent: &ObjectKey) -> bool {
        self.share_of.as_ref().map_or_else(|| self.rollout.is_undecided_for(parent), |rollout| !rollout.is_decided)
    }

    /// Returns true if the deletions in the parent's namespace are summed up, because the Plugin no longer selects the
    /// namespace.
    pub(super) fn is_leaving(&self, parent: &ObjectKey) -> bool {
        parent.namespace.as_ref().is_some_and(|namespace| self.leaving.contains_key(namespace))
    }

    /// Records a parent's plan; see [`Rollout::evaluated`]. `has_children` is true if the parent has children that are
    /// not being deleted. `leavers` returns the deselected parents in the parent's namespace.
    pub fn evaluated(
        &mut self,
        guard: DeletionGuard,
        parent: &ObjectKey,
        deletions: &[Delete],
        (is_asked, cause): (bool, Cause),
        has_children: bool,
        leavers: impl FnOnce() -> Leavers,
    ) -> RolloutDecision {
        let has_left = cause == Cause::LeftNamespaces;
        let is_of_many = !is_asked && (has_left || !self.is_decided());
        if self.share_of.is_some() {
            return if is_of_many { RolloutDecision::ForLeader } else { RolloutDecision::Delete };
        }
        if is_of_many {
            self.for_leader.insert(parent.clone());
        } else {
            self.for_leader.remove(parent);
        }
        let decision = self.rollout.evaluated(parent, deletions, is_asked);
        let left = parent.namespace.as_ref().filter(|_| cause == Cause::LeftNamespaces);
        match left {
            // For other decisions the rollout of the version decides: put-off and blocked deletions are not carried out,
            // and allowed deletions are.
            Some(namespace) if decision == RolloutDecision::Delete => {
                if deletions.is_empty() && has_children {
                    // For example, the plugin finalizes first and the children are deleted later.
                    self.leaving.entry(namespace.clone()).and_modify(|rollout| rollout.wants_none_yet(parent));
                    return decision;
                }
                self.evaluated_leaver(guard, namespace, parent, deletions, is_asked, leavers)
            }
            Some(_) => decision,
            None => {
                let leaving = parent.namespace.as_ref().and_then(|namespace| self.leaving.get_mut(namespace));
                if let Some(rollout) = leaving {
                    // The parent is selected again, or has no children to lose.
                    rollout.evaluated(parent, &[], true);
                }
                decision
            }
        }
    }

    fn evaluated_leaver(
        &mut self,
        guard: DeletionGuard,
        namespace: &Arc<str>,
        parent: &ObjectKey,
        deletions: &[Delete],
        is_asked: bool,
        leavers: impl FnOnce() -> Leavers,
    ) -> RolloutDecision {
        self.leaving.retain(|_, rollout| !rollout.is_worked_off());
        let is_known = self.leaving.contains_key(namespace);
        if !is_known && (is_asked || deletions.is_empty()) {
            return RolloutDecision::Delete;
        }
        let Self { leaving, allowed, .. } = self;
        let rollout = leaving.entry(namespace.clone()).or_insert_with(|| {
            let Leavers { parents, owned } = leavers();
            let name = Digest::of(format!("leaving\n{namespace}").as_bytes());
            let mut rollout = Rollout::begin(guard, name, parents, owned, None).of_leavers();
            rollout.allow(allowed.as_deref());
            // Some parents may have been reconciled before this rollout began.
            rollout.queue_untried();
            rollout
        });
        rollout.evaluated(parent, deletions, is_asked)
    }

    /// See [`Rollout::unplanned`].
    pub fn unplanned(&mut self, parent: &ObjectKey) {
        self.each(parent, Rollout::unplanned);
    }

    /// See [`Rollout::forget`].
    pub fn forget(&mut self, parent: &ObjectKey) {
        self.each(parent, Rollout::forget);
    }

    fn each(&mut self, parent: &ObjectKey, apply: fn(&mut Rollout, &ObjectKey)) {
        self.for_leader.remove(parent);
        apply(&mut self.rollout, parent);
        if let Some(rollout) = parent.namespace.as_ref().and_then(|namespace| self.leaving.get_mut(namespace)) {
            apply(rollout, parent);
        }
    }

    /// See [`Rollout::allow`].
    pub fn allow(&mut self, annotation: Option<&str>) {
        self.allowed = annotation.map(Into::into);
        self.rollout.allow(annotation);
        self.leaving.values_mut().for_each(|rollout| rollout.allow(annotation));
    }

    /// See [`Rollout::adjust`].
    pub fn adjust(&mut self, guard: DeletionGuard) {
        self.rollout.adjust(guard);
        self.leaving.values_mut().for_each(|rollout| rollout.adjust(guard));
    }

    /// The blocked deletions, for the Plugin's condition. If several rollouts block deletions, the first one counts, so
    /// that the condition is stable.
    pub fn blocked(&self) -> Option<&BlockedDeletions> {
        self.rollout.blocked().or_else(|| self.leaving.values().find_map(Rollout::blocked))
    }

    /// The rollout of the plugin's version.
    pub fn rollout(&self) -> &Rollout {
        &self.rollout
    }

    /// The state of the rollout to persist.
    pub fn record(&self) -> RolloutRecord {
        self.share_of.clone().unwrap_or_else(|| self.rollout.record())
    }

    /// Whether no deletion of many parents is undecided, blocked, or not carried out yet: from now on, each parent's
    /// own guard is enough.
    pub fn is_settled(&self) -> bool {
        self.is_decided()
            && self.rollout.is_settled()
            && self.leaving.values().all(Rollout::is_worked_off)
            && self.for_leader.is_empty()
    }

    fn is_decided(&self) -> bool {
        self.share_of.as_ref().map_or_else(|| self.rollout.is_decided(), |rollout| rollout.is_decided)
    }

    /// See [`Rollout::take_to_queue`].
    pub fn take_to_queue(&mut self) -> Vec<ObjectKey> {
        let mut parents = self.rollout.take_to_queue();
        for rollout in self.leaving.values_mut() {
            parents.extend(rollout.take_to_queue());
        }
        parents
    }
}
