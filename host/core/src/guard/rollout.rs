//! Sums up the deletions of a plugin's new version over all parents before any of them is carried out.
//!
//! A faulty version may stay below the limit for each single parent and still delete a large part of all children. So
//! its deletions wait until each parent was evaluated once. Then they are carried out, or are blocked for the whole
//! plugin.

use jiff::Timestamp;

use super::parents::{By, Parent, Parents};
use super::{Because, BlockedDeletions, DeletionGuard, hash_of, mismatch};
use crate::digest::Digest;
use crate::ids::ObjectKey;
use crate::plan::Delete;

/// The deletions that a plugin's new version plans, as far as they are known.
///
/// The parents' reconciles report to it; its owner serialises them. A starting process begins a rollout too, since it
/// does not know what an earlier process blocked. It may be dropped when it is [complete](Self::is_complete).
#[derive(Debug)]
pub struct Rollout {
    guard: DeletionGuard,
    logic: Digest,
    /// Whether this version differs from the one that the parents' statuses refer to.
    is_new: bool,
    because: Because,
    owned: usize,
    /// Number of children, without those created since the first undecided rollout began; at most `owned`.
    baseline: usize,
    /// When the first of the consecutive undecided rollouts began, this one included.
    since: Timestamp,
    /// Whether an undecided rollout preceded this one.
    is_resumed: bool,
    /// The hash of deletions that were blocked before this rollout; if set, all waiting deletions are blocked.
    was_blocked: Option<Box<str>>,
    /// Parents that are not decided yet, and parents whose deletions count. Parents without deletions are removed.
    parents: Parents,
    /// Number of released deletions that no user asked for.
    released: usize,
    allowed: Option<Box<str>>,
    decision: Option<Decision>,
    /// Parents to queue again, to carry out the decision or to report it.
    to_queue: Vec<ObjectKey>,
}

/// The state that is persisted before a rollout begins. With it a later rollout, by another process or of another
/// version, does not count children that this one creates as children that existed before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Identifies the version.
    pub hash: String,
    /// Whether all parents were evaluated and nothing is blocked.
    pub is_decided: bool,
    /// The number of children when the rollout began, and the time of its beginning; `None` once they are of no use.
    pub began: Option<(usize, Timestamp)>,
}

#[derive(Debug)]
enum Decision {
    Released,
    Blocked(BlockedDeletions),
}

/// What happens to the deletions of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ruling {
    /// They may be carried out, if the guard of the parent itself permits it.
    Delete,
    /// A user allowed exactly these deletions at the Plugin: they may be carried out.
    Allowed,
    /// They wait until all parents were evaluated. The parent is queued again then.
    PutOff,
    /// They are blocked until a user allows them at the Plugin. The parent is queued again then.
    Blocked(BlockedDeletions),
}

impl Rollout {
    /// Begins a rollout of the version that `logic` identifies (component, config and grants) over these parents, which
    /// own `owned` children in total (retained children excluded).
    ///
    /// `was_blocked` is the result of [`blocked_hash`](Self::blocked_hash) for the preceding version, or for this version in another
    /// process. Children were created since, so the same deletions would be a smaller share.
    pub fn begin(
        guard: DeletionGuard,
        logic: Digest,
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
            logic,
            is_new: true,
            because: Because::NewComponent,
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

    /// Sets the beginning of the rollout to `now` and applies the last persisted record, which another process or
    /// another version may have written.
    ///
    /// If the record is of the same version and decided, the `observedGeneration` of the parents' statuses refers to
    /// this version. If it is undecided, children created since it began are not counted.
    #[must_use]
    pub fn after(mut self, before: Option<&Record>, now: Timestamp) -> Self {
        self.since = now;
        match before {
            Some(Record { hash, is_decided: true, .. }) if *hash == self.logic.short() => {
                (self.is_new, self.because) = (false, Because::Inputs);
            }
            Some(Record { is_decided: false, began: Some((children, since)), .. }) => {
                self.baseline = self.owned.min(*children);
                self.since = now.min(*since);
                self.is_resumed = true;
            }
            Some(_) | None => {}
        }
        self
    }

    /// The state to persist.
    pub fn record(&self) -> Record {
        let is_decided = !self.is_new || self.is_complete();
        let matters = !is_decided && (self.parents.count_untried() > 0 || self.blocked().is_some());
        Record { hash: self.logic.short(), is_decided, began: matters.then_some((self.baseline, self.since)) }
    }

    /// The time since which children may have been created by a version whose deletions are undecided; such children do
    /// not count towards the baseline.
    pub(super) fn created_since(&self, parent: &ObjectKey) -> Option<Timestamp> {
        (self.is_resumed && self.doubts(parent)).then_some(self.since)
    }

    /// Turns this into a rollout over parents that all left the Plugin.
    #[must_use]
    pub(super) fn of_leavers(self) -> Self {
        Self { is_new: false, because: Because::Left, ..self }
    }

    /// Returns true if a parent's deletions may be due to a new version, whatever its user changed: the version is new,
    /// and the deletions of this parent are undecided.
    pub fn doubts(&self, parent: &ObjectKey) -> bool {
        self.is_new
            && match self.parents.get(parent) {
                Some(Parent::Untried | Parent::Unplanned | Parent::Waits { .. }) => true,
                Some(Parent::Released { .. }) | None => false,
            }
    }

    /// Records a parent's plan and decides about its deletions. `is_asked`: a user asked for the deletions, or there
    /// are none. `prunes`: all deletions of the plan, including those that the guard of the parent itself blocks.
    pub fn evaluated(&mut self, parent: &ObjectKey, prunes: &[Delete], is_asked: bool) -> Ruling {
        let known = self.parents.get(parent);
        if let Some(Parent::Released { hash, by }) = known {
            let is_allowed = *by == By::User && !is_asked && *hash == hash_of(prunes);
            if self.is_complete() {
                // The parent learns about the decision now, so its entry is no longer needed.
                self.parents.set(parent, None);
            }
            return if is_allowed { Ruling::Allowed } else { Ruling::Delete };
        }
        if self.is_complete() {
            return Ruling::Delete;
        }
        if prunes.is_empty() || is_asked {
            self.parents.set(parent, None);
            self.decide(false);
            return Ruling::Delete;
        }
        let waits = Parent::Waits { prunes: prunes.len(), hash: hash_of(prunes) };
        let has_grown = known != Some(&waits);
        self.parents.set(parent, Some(waits));
        self.decide(has_grown);
        // The return value reports the decision to this parent, so it need not be queued.
        self.to_queue.retain(|key| key != parent);
        match &self.decision {
            None => Ruling::PutOff,
            Some(Decision::Blocked(blocked)) => Ruling::Blocked(blocked.clone()),
            Some(Decision::Released) => match self.parents.get(parent) {
                Some(Parent::Released { by: By::User, .. }) => self.evaluated(parent, prunes, is_asked),
                Some(
                    Parent::Untried | Parent::Unplanned | Parent::Waits { .. } | Parent::Released { by: By::Limit, .. },
                )
                | None => Ruling::Delete,
            },
        }
    }

    /// Records that a parent's reconcile ended without a plan, because the call failed or the parent is suspended. The
    /// rollout no longer waits for this parent, but counts the deletions that the parent plans later.
    pub fn unplanned(&mut self, parent: &ObjectKey) {
        if self.parents.get(parent) == Some(&Parent::Untried) {
            self.parents.set(parent, Some(Parent::Unplanned));
            self.decide(false);
        }
    }

    /// Records that a parent plans no deletions yet, but has children that it may delete later; those deletions will
    /// count.
    pub(super) fn wants_none_yet(&mut self, parent: &ObjectKey) {
        if let Some(Parent::Untried | Parent::Waits { .. }) = self.parents.get(parent) {
            self.parents.set(parent, Some(Parent::Unplanned));
            self.decide(false);
        }
    }

    /// Removes a parent that no longer exists or is being deleted.
    pub fn forget(&mut self, parent: &ObjectKey) {
        let is_released = matches!(self.parents.get(parent), Some(Parent::Released { .. }));
        if !is_released {
            self.parents.set(parent, None);
            self.decide(false);
        } else if self.is_complete() {
            self.parents.set(parent, None);
        }
    }

    /// Sets the present value of the Plugin's annotation [`crate::names::ANNOTATION_ALLOW_DELETION`].
    pub fn allow(&mut self, annotation: Option<&str>) {
        self.allowed = annotation.map(Into::into);
        self.decide(false);
        if let Some(Decision::Blocked(blocked)) = &mut self.decision {
            blocked.mismatch = mismatch(annotation, &blocked.hash);
        }
    }

    /// Sets the Plugin's new limits, and releases deletions that they do not block.
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

    /// Removes and returns the parents to queue again, because their deletions were decided. Call it after each of the
    /// other methods.
    pub fn take_to_queue(&mut self) -> Vec<ObjectKey> {
        std::mem::take(&mut self.to_queue)
    }

    /// The parents that were not evaluated yet; the decision waits for them.
    pub fn untried(&self) -> impl Iterator<Item = &ObjectKey> {
        self.parents.all_untried()
    }

    /// Queues all parents that were not evaluated yet.
    pub(super) fn queue_untried(&mut self) {
        let untried: Vec<_> = self.untried().cloned().collect();
        self.to_queue.extend(untried);
    }

    /// Returns true if every parent was evaluated with a plan and nothing is blocked: there is nothing left to decide.
    pub fn is_complete(&self) -> bool {
        self.parents.count_untried() == 0
            && self.parents.count_unanswered() == 0
            && matches!(self.decision, Some(Decision::Released))
    }

    /// Returns true if the rollout is complete and all parents with released deletions were notified.
    pub(super) fn is_worked_off(&self) -> bool {
        self.is_complete() && self.parents.is_empty()
    }

    /// Decides once all parents were evaluated. `has_grown`: more deletions, or other ones, are waiting than at the
    /// last decision.
    fn decide(&mut self, has_grown: bool) {
        if self.parents.count_untried() > 0 {
            return;
        }
        let waiting = self.parents.count_deletions();
        let is_too_many =
            self.was_blocked.is_some() || self.guard.is_too_many(self.released + waiting, self.owned, self.baseline);
        if waiting == 0 || !is_too_many {
            return self.release(By::Limit);
        }
        match &mut self.decision {
            // The hash stays while the set only shrinks because parents disappear: a user may be about to type it.
            Some(Decision::Blocked(blocked)) if !has_grown => blocked.prunes = waiting,
            _ => {
                if self.blocked().is_none() {
                    self.queue_waiting();
                }
                let hash = self.parents.name(self.logic);
                let mismatch = mismatch(self.allowed.as_deref(), &hash);
                self.decision = Some(Decision::Blocked(BlockedDeletions {
                    hash,
                    prunes: waiting,
                    owned: self.owned,
                    children: Vec::new(),
                    because: self.because,
                    target: String::new(),
                    mismatch,
                }));
            }
        }
        if self.blocked().is_some_and(|blocked| self.allowed.as_deref() == Some(&blocked.hash)) {
            // A user asked for these deletions, so they do not count towards the limit for parents without a plan so
            // far.
            let released = self.released;
            self.release(By::User);
            (self.released, self.was_blocked) = (released, None);
        }
    }

    fn release(&mut self, by: By) {
        if self.parents.count_deletions() > 0 {
            self.queue_waiting();
            self.released += self.parents.release(by);
        }
        self.decision = Some(Decision::Released);
    }

    fn queue_waiting(&mut self) {
        self.to_queue.extend(self.parents.all_waiting().cloned());
    }
}
