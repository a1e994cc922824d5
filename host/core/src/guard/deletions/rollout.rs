//! Sums up the deletions of a plugin's new version over all parents before any of them is carried out.
//!
//! A faulty version may stay below the limit for each single parent and still delete a large part of all children. So
//! the deletions of a new version wait until each parent was evaluated once. Then all of them are carried out, or all
//! are blocked.

use jiff::Timestamp;

use super::parents::{ParentState, Parents, ReleasedBy};
use super::{BlockReason, BlockedDeletions, DeletionGuard, hash_of, mismatch};
use crate::object::child::Delete;
use crate::value::digest::Digest;
use crate::value::ids::ObjectKey;

/// The deletions that a plugin's new version plans, as far as the reconciles of the parents have planned them.
///
/// The reconciles report to the rollout; the rollout's owner serializes the reports. A starting process begins a
/// rollout too, since it does not know the deletions that an earlier process blocked. A rollout may be dropped when it
/// is [complete](Self::is_complete).
#[derive(Debug)]
pub struct Rollout {
    guard: DeletionGuard,
    version: Digest,
    /// Whether this version differs from the one that the parents' statuses refer to.
    is_new: bool,
    because: BlockReason,
    owned: usize,
    /// Number of children that existed when the first of the consecutive undecided rollouts began; at most `owned`.
    baseline: usize,
    /// Time at which the first of the consecutive undecided rollouts began; this rollout may be the first.
    since: Timestamp,
    /// Whether an undecided rollout preceded this one.
    is_resumed: bool,
    /// The hash of deletions that were blocked before this rollout; while it is set, all waiting deletions are blocked.
    was_blocked: Option<Box<str>>,
    /// Parents whose deletions are undecided, and parents whose released deletions were not carried out yet.
    parents: Parents,
    /// Number of released deletions that no user asked for.
    released: usize,
    /// The value of the Plugin's annotation that allows deletions.
    allowed: Option<Box<str>>,
    /// `None` until all parents were evaluated.
    decision: Option<Decision>,
    /// Parents to queue again, to carry out the decision or to report it.
    to_queue: Vec<ObjectKey>,
}

/// The state of a rollout that is persisted before the rollout begins. A later rollout, by another process or of
/// another version, reads it to exclude the children that this rollout created from its baseline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutRecord {
    /// Hash that identifies the version.
    pub hash: String,
    /// Whether all parents were evaluated and nothing is blocked.
    pub is_decided: bool,
    /// The number of children when the rollout began, and the time at which it began; `None` if deletions are decided,
    /// or if only parents without a plan are undecided.
    pub began: Option<(usize, Timestamp)>,
}

#[derive(Debug)]
enum Decision {
    Released,
    Blocked(BlockedDeletions),
}

/// What happens to the deletions of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RolloutDecision {
    /// The deletions may be carried out, if the parent's own guard permits it.
    Delete,
    /// A user allowed exactly these deletions at the Plugin, so they may be carried out.
    Allowed,
    /// The deletions wait until all parents were evaluated. Then the parent is queued again.
    PutOff,
    /// The deletions are blocked until a user allows them at the Plugin. Then the parent is queued again.
    Blocked(BlockedDeletions),
    /// The deletions are for the leader to decide: this host has a share of the parents only.
    ForLeader,
}

impl Rollout {
    /// Begins a rollout of this version (the digest of component, config, grants, limits and selectors) over these
    /// parents, which own `owned` children in total (retained children excluded).
    ///
    /// `was_blocked` is the result of [`blocked_hash`](Self::blocked_hash) for the preceding version, or for this
    /// version in another process. Children created since then would make the same deletions a smaller share, so
    /// blocked deletions stay blocked.
    pub fn begin(
        guard: DeletionGuard,
        version: Digest,
        parents: impl IntoIterator<Item = ObjectKey>,
        owned: usize,
        was_blocked: Option<&str>,
    ) -> Self {
        let was_blocked = was_blocked.filter(|_| guard.can_block());
        // Deletions that cannot be blocked need not wait.
        let can_be_blocked = was_blocked.is_some() || guard.is_too_many(owned, owned, owned);
        let parents = Parents::untried(parents.into_iter().filter(|_| can_be_blocked));
        let mut rollout = Self {
            guard,
            version,
            is_new: true,
            because: BlockReason::NewComponent,
            owned,
            baseline: owned,
            since: Timestamp::MAX,
            is_resumed: false,
            was_blocked: was_blocked.map(Into::into),
            parents,
            released: 0,
            allowed: None,
            decision: None,
            to_queue: Vec::new(),
        };
        rollout.decide(false);
        rollout
    }

    /// Sets the time at which the rollout began to `now`, and applies the last persisted record, which may be of
    /// another process or another version.
    ///
    /// If the record is of the same version and decided, the `observedGeneration` in the parents' statuses refers to
    /// this version. If the record is undecided, children created since the recorded time do not count towards the
    /// baseline.
    #[must_use]
    pub fn after(mut self, before: Option<&RolloutRecord>, now: Timestamp) -> Self {
        self.since = now;
        match before {
            Some(RolloutRecord { hash, is_decided: true, .. }) if *hash == self.version.short() => {
                (self.is_new, self.because) = (false, BlockReason::Inputs);
            }
            Some(RolloutRecord { is_decided: false, began: Some((children, since)), .. }) => {
                self.baseline = self.owned.min(*children);
                self.since = now.min(*since);
                self.is_resumed = true;
            }
            Some(_) | None => {}
        }
        self
    }

    /// Whether every parent was evaluated and nothing is blocked, now or in an earlier rollout of this version.
    pub(super) fn is_decided(&self) -> bool {
        !self.is_new || self.is_complete()
    }

    /// The state to persist.
    pub fn record(&self) -> RolloutRecord {
        let is_decided = self.is_decided();
        let matters = !is_decided && (self.parents.untried > 0 || self.blocked().is_some());
        RolloutRecord { hash: self.version.short(), is_decided, began: matters.then_some((self.baseline, self.since)) }
    }

    /// The time since which a version whose deletions are undecided may have created children of the parent; such
    /// children do not count towards the baseline. `None` if all children count.
    pub(super) fn created_since(&self, parent: &ObjectKey) -> Option<Timestamp> {
        (self.is_resumed && self.is_undecided_for(parent)).then_some(self.since)
    }

    /// Turns this into a rollout over parents that the Plugin no longer selects.
    #[must_use]
    pub(super) fn of_leavers(self) -> Self {
        Self { is_new: false, because: BlockReason::Left, ..self }
    }

    /// Returns true if a new version may be the cause of a parent's deletions, even if a user changed the parent's
    /// spec: the version is new, and the deletions of this parent are undecided.
    pub fn is_undecided_for(&self, parent: &ObjectKey) -> bool {
        self.is_new && self.parents.get(parent).is_some_and(|state| !matches!(state, ParentState::Released { .. }))
    }

    /// Records a parent's plan and decides about its deletions. `prunes` has all deletions of the plan, including those
    /// that the parent's own guard blocks. `is_asked` is true if a user asked for the deletions, or if there are none.
    pub fn evaluated(&mut self, parent: &ObjectKey, prunes: &[Delete], is_asked: bool) -> RolloutDecision {
        let known = self.parents.get(parent);
        if let Some(ParentState::Released { hash, by }) = known {
            let is_allowed = *by == ReleasedBy::User && !is_asked && *hash == hash_of(prunes);
            if self.is_complete() {
                // The return value reports the decision to the parent, so its entry is no longer needed.
                self.parents.set(parent, None);
            }
            return if is_allowed { RolloutDecision::Allowed } else { RolloutDecision::Delete };
        }
        if self.is_complete() {
            return RolloutDecision::Delete;
        }
        if prunes.is_empty() || is_asked {
            self.parents.set(parent, None);
            self.decide(false);
            return RolloutDecision::Delete;
        }
        let waits = ParentState::Waits { prunes: prunes.len(), hash: hash_of(prunes) };
        let has_grown = known != Some(&waits);
        self.parents.set(parent, Some(waits));
        self.decide(has_grown);
        // The return value reports the decision to this parent, so it need not be queued.
        self.to_queue.retain(|key| key != parent);
        match &self.decision {
            None => RolloutDecision::PutOff,
            Some(Decision::Blocked(blocked)) => RolloutDecision::Blocked(blocked.clone()),
            Some(Decision::Released) => match self.parents.get(parent) {
                Some(ParentState::Released { by: ReleasedBy::User, .. }) => self.evaluated(parent, prunes, is_asked),
                Some(
                    ParentState::Untried
                    | ParentState::Unplanned
                    | ParentState::Waits { .. }
                    | ParentState::Released { by: ReleasedBy::Limit, .. },
                )
                | None => RolloutDecision::Delete,
            },
        }
    }

    /// Records that a parent's reconcile ended without a plan, because the call failed or the parent is suspended. The
    /// rollout no longer waits for this parent, but counts the deletions that the parent plans later.
    pub fn unplanned(&mut self, parent: &ObjectKey) {
        if self.parents.get(parent) == Some(&ParentState::Untried) {
            self.parents.set(parent, Some(ParentState::Unplanned));
            self.decide(false);
        }
    }

    /// Records that a parent plans no deletions yet, but has children that it may delete later; later deletions count.
    pub(super) fn wants_none_yet(&mut self, parent: &ObjectKey) {
        if let Some(ParentState::Untried | ParentState::Waits { .. }) = self.parents.get(parent) {
            self.parents.set(parent, Some(ParentState::Unplanned));
            self.decide(false);
        }
    }

    /// Removes a parent that no longer exists or is being deleted.
    pub fn forget(&mut self, parent: &ObjectKey) {
        let is_released = matches!(self.parents.get(parent), Some(ParentState::Released { .. }));
        if !is_released {
            self.parents.set(parent, None);
            self.decide(false);
        } else if self.is_complete() {
            self.parents.set(parent, None);
        }
    }

    /// Sets the present value of the Plugin's annotation [`crate::object::names::ANNOTATION_ALLOW_DELETION`].
    pub fn allow(&mut self, annotation: Option<&str>) {
        self.allowed = annotation.map(Into::into);
        self.decide(false);
        if let Some(Decision::Blocked(blocked)) = &mut self.decision {
            blocked.mismatch = mismatch(annotation, &blocked.hash);
        }
    }

    /// Sets new limits. Deletions that are blocked already are released only if the new limits can block nothing.
    pub fn adjust(&mut self, guard: DeletionGuard) {
        self.guard = guard;
        self.was_blocked.take_if(|_| !guard.can_block());
        self.decide(false);
    }

    /// The blocked deletions, for the Plugin's condition.
    pub fn blocked(&self) -> Option<&BlockedDeletions> {
        match &self.decision {
            Some(Decision::Blocked(blocked)) => Some(blocked),
            Some(Decision::Released) | None => None,
        }
    }

    /// The hash of the deletions that are blocked now, or were blocked before and are undecided. The next rollout, by
    /// another process or of another version, must begin with it.
    pub fn blocked_hash(&self) -> Option<&str> {
        match self.blocked() {
            Some(blocked) => Some(&blocked.hash),
            None if self.is_complete() => None,
            None => self.was_blocked.as_deref(),
        }
    }

    /// Removes and returns the parents to queue again, because their deletions were decided. Call this method after
    /// every other method that takes `&mut self`.
    pub fn take_to_queue(&mut self) -> Vec<ObjectKey> {
        std::mem::take(&mut self.to_queue)
    }

    /// The parents that were not evaluated yet; the decision waits for them.
    pub fn untried(&self) -> impl Iterator<Item = &ObjectKey> {
        self.parents.all_untried()
    }

    /// Queues all parents that were not evaluated yet.
    pub(super) fn queue_untried(&mut self) {
        self.to_queue.extend(self.parents.all_untried().cloned());
    }

    /// Returns true if every parent was evaluated with a plan and no deletion is blocked, so nothing is left to decide.
    pub fn is_complete(&self) -> bool {
        self.parents.untried == 0 && self.parents.unplanned == 0 && matches!(self.decision, Some(Decision::Released))
    }

    /// Returns true if every parent was evaluated, with a plan or without, and no deletion waits, is blocked, or was
    /// released and not carried out yet.
    pub(super) fn is_settled(&self) -> bool {
        self.parents.only_unplanned()
            && (self.was_blocked.is_none() || self.is_complete())
            && matches!(self.decision, Some(Decision::Released))
    }

    /// Returns true if the rollout is complete and the decision was reported to all parents with released deletions.
    pub(super) fn is_worked_off(&self) -> bool {
        self.is_complete() && self.parents.is_empty()
    }

    /// Decides once all parents were evaluated. `has_grown` is true if more or other deletions wait than at the last
    /// decision.
    fn decide(&mut self, has_grown: bool) {
        if self.parents.untried > 0 {
            return;
        }
        let waiting = self.parents.deletions;
        // Blocked deletions stay blocked when users delete some of the parents or raise the limit: no user has asked for
        // the remaining deletions.
        let stays_blocked = self.was_blocked.is_some() || self.blocked().is_some() && self.guard.can_block();
        let is_too_many = self.guard.is_too_many(self.released + waiting, self.owned, self.baseline);
        if waiting == 0 || !(stays_blocked || is_too_many) {
            return self.release(ReleasedBy::Limit);
        }
        match &mut self.decision {
            // The hash stays while the set only shrinks because parents disappear: a user may be about to type it.
            Some(Decision::Blocked(blocked)) if !has_grown => blocked.deletions = waiting,
            _ => {
                if self.blocked().is_none() {
                    self.queue_waiting();
                }
                let hash = self.parents.waits.hash_with(self.version);
                let mismatch = mismatch(self.allowed.as_deref(), &hash);
                self.decision = Some(Decision::Blocked(BlockedDeletions {
                    hash,
                    deletions: waiting,
                    children_total: self.owned,
                    children: Vec::new(),
                    because: self.because,
                    target: String::new(),
                    mismatch,
                }));
            }
        }
        if self.blocked().is_some_and(|blocked| self.allowed.as_deref() == Some(&blocked.hash)) {
            // A user allowed these deletions, so they do not count towards the limit for later deletions of other
            // parents.
            let released = self.released;
            self.release(ReleasedBy::User);
            (self.released, self.was_blocked) = (released, None);
        }
    }

    fn release(&mut self, by: ReleasedBy) {
        if self.parents.deletions > 0 {
            self.queue_waiting();
            self.released += self.parents.release(by);
        }
        self.decision = Some(Decision::Released);
    }

    fn queue_waiting(&mut self) {
        self.to_queue.extend(self.parents.all_waiting().cloned());
    }
}
