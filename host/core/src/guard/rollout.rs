//! New logic of a plugin goes live: what it would delete, summed up over all parents before anything of it is deleted.
//!
//! Parent by parent, a wrong digest may stay under every limit and still take everything. So its deletions are put off
//! until each parent has been evaluated once; then they go, or are held for the whole plugin.

use std::collections::HashMap;

use jiff::Timestamp;

use super::waiting::Waiting;
use super::{Because, DeletionGuard, Held, hash_of, mismatch};
use crate::digest::Digest;
use crate::ids::ObjectKey;
use crate::plan::Delete;

/// What new logic wants to delete, as far as it is known.
///
/// The parents' reconciles report to it; who holds it serialises them. A process that starts begins one as well, since
/// nothing tells it what an earlier one held. It may be dropped when it is [complete](Self::is_complete).
#[derive(Debug)]
pub struct Rollout {
    guard: DeletionGuard,
    logic: Digest,
    /// Whether the logic is another than the one that the parents' statuses speak of.
    is_new: bool,
    because: Because,
    owned: usize,
    /// As many or fewer: without what was created since an earlier rollout began that was never decided.
    baseline: usize,
    /// When the first rollout began of those that were not decided, this one included.
    since: Timestamp,
    /// Whether there was one before this.
    is_resumed: bool,
    /// The name of what was held already: then whatever still waits is held.
    was_held: Option<Box<str>>,
    /// Parents that are not through, and those whose wishes count. Who wants no deletions is in here no longer.
    parents: HashMap<ObjectKey, Parent>,
    /// Parents that were not evaluated yet.
    untried: usize,
    /// Parents that were, but that gave no answer.
    unanswered: usize,
    /// Deletions that nobody asked for and that were let go.
    released: usize,
    /// Those that were not, yet: how many they are, and what names them.
    waiting: usize,
    waits: Waiting,
    allowed: Option<Box<str>>,
    decision: Option<Decision>,
    /// Parents to be queued again, to do or to say what was decided.
    to_queue: Vec<ObjectKey>,
}

#[derive(Debug)]
enum Parent {
    Untried,
    Unanswered,
    Wants { prunes: usize, hash: Digest, released: Option<By> },
}

/// What is written down of a rollout before it begins, so that whatever follows on it, another process or other logic,
/// does not take the children that it creates for children that were there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Names the logic.
    pub hash: String,
    /// Whether all parents were asked and nothing is blocked.
    pub is_decided: bool,
    /// How many children there were when it began, and when that was; as long as that matters.
    pub began: Option<(usize, Timestamp)>,
}

/// Why deletions were let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// They are few.
    Limit,
    /// A user allowed them.
    User,
}

#[derive(Debug)]
enum Decision {
    Released,
    Held(Held),
}

/// What happens to the prunes of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// They may go, as far as the parent's own guard lets them.
    Delete,
    /// A user allowed these very ones at the Plugin: they may go.
    Allowed,
    /// Not before all parents were evaluated. The parent is queued again then.
    PutOff,
    /// Not before a person allows it at the Plugin. The parent is queued again then.
    Held(Held),
}

impl Rollout {
    /// New logic is live: the digest and config that `logic` names, over these parents, which own so many children in
    /// all (not retained ones).
    ///
    /// `was_held` is what [`hold`](Self::hold) said of the logic before it, or of this one in another process: since then
    /// children were created, so that the same deletions are a smaller part of them.
    pub fn begin(
        guard: DeletionGuard,
        logic: Digest,
        parents: impl IntoIterator<Item = ObjectKey>,
        owned: usize,
        was_held: Option<&str>,
    ) -> Self {
        let was_held = was_held.filter(|_| guard.can_hold());
        // What cannot be held need not wait.
        let can_be_held = was_held.is_some() || guard.is_too_many(owned, owned, owned);
        let parents: HashMap<_, _> =
            parents.into_iter().filter(|_| can_be_held).map(|parent| (parent, Parent::Untried)).collect();
        let untried = parents.len();
        let mut rollout = Self {
            guard,
            logic,
            is_new: true,
            because: Because::NewLogic,
            owned,
            baseline: owned,
            since: Timestamp::MAX,
            is_resumed: false,
            was_held: was_held.map(Into::into),
            parents,
            untried,
            unanswered: 0,
            released: 0,
            waiting: 0,
            waits: Waiting::default(),
            allowed: None,
            decision: None,
            to_queue: Vec::new(),
        };
        rollout.decide(false);
        rollout
    }

    /// It begins now, and this is what was written down last, by another process or for other logic.
    ///
    /// If that is of the same logic and was decided, the generations in the parents' statuses speak of this logic. If it was
    /// not decided, what was created since counts for nothing.
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

    /// What to write down of it.
    pub fn record(&self) -> Record {
        let is_decided = !self.is_new || self.is_complete();
        let matters = !is_decided && (self.untried > 0 || self.held().is_some());
        Record { hash: self.logic.short(), is_decided, began: matters.then_some((self.baseline, self.since)) }
    }

    /// Since when children may have been created by logic whose deletions were not decided: they make none a smaller part.
    pub(super) fn created_since(&self, parent: &ObjectKey) -> Option<Timestamp> {
        (self.is_resumed && self.doubts(parent)).then_some(self.since)
    }

    /// All of these parents left the Plugin.
    #[must_use]
    pub(super) fn of_leavers(self) -> Self {
        Self { is_new: false, because: Because::Left, ..self }
    }

    /// Whether what a parent deletes may be due to new logic, whatever its user did: the logic is new, and it is not
    /// decided yet what becomes of this parent's deletions.
    pub fn doubts(&self, parent: &ObjectKey) -> bool {
        self.is_new
            && match self.parents.get(parent) {
                Some(Parent::Untried | Parent::Unanswered | Parent::Wants { released: None, .. }) => true,
                Some(Parent::Wants { released: Some(_), .. }) | None => false,
            }
    }

    /// A parent's plan is made. `is_asked`: a user asked for its deletions, or it has none. The prunes are all that it
    /// wants, also those that the parent's own guard blocks.
    pub fn evaluated(&mut self, parent: &ObjectKey, prunes: &[Delete], is_asked: bool) -> Word {
        let known = self.parents.get(parent);
        if let Some(Parent::Wants { hash, released: Some(by), .. }) = known {
            let is_allowed = *by == By::User && !is_asked && *hash == hash_of(prunes);
            if self.is_complete() {
                // It was the last to be said of it.
                self.parents.remove(parent);
            }
            return if is_allowed { Word::Allowed } else { Word::Delete };
        }
        if self.is_complete() {
            return Word::Delete;
        }
        if prunes.is_empty() || is_asked {
            self.take(parent);
            self.decide(false);
            return Word::Delete;
        }
        let wish = hash_of(prunes);
        let has_grown = !matches!(known, Some(Parent::Wants { hash, .. }) if *hash == wish);
        self.take(parent);
        self.waiting += prunes.len();
        self.waits.insert(parent, wish);
        let wants = Parent::Wants { prunes: prunes.len(), hash: wish, released: None };
        self.parents.insert(parent.clone(), wants);
        self.decide(has_grown);
        // It is told at once.
        self.to_queue.retain(|key| key != parent);
        match &self.decision {
            None => Word::PutOff,
            Some(Decision::Held(held)) => Word::Held(held.clone()),
            Some(Decision::Released) => match self.parents.get(parent) {
                Some(Parent::Wants { released: Some(By::User), .. }) => self.evaluated(parent, prunes, is_asked),
                _ => Word::Delete,
            },
        }
    }

    /// A parent's reconcile ended without a plan: the call failed, or the parent is suspended. Nobody waits for it any
    /// longer, but what it may want to delete later still counts.
    pub fn unanswered(&mut self, parent: &ObjectKey) {
        if let Some(known) = self.parents.get_mut(parent)
            && matches!(known, Parent::Untried)
        {
            *known = Parent::Unanswered;
            self.untried -= 1;
            self.unanswered += 1;
            self.decide(false);
        }
    }

    /// A parent wants no deletions so far, and has children that it may want to delete later: what it wants then still counts.
    pub(super) fn wants_none_yet(&mut self, parent: &ObjectKey) {
        match self.parents.get(parent) {
            Some(Parent::Untried) => self.unanswered(parent),
            Some(Parent::Wants { released: None, .. }) => {
                self.take(parent);
                self.parents.insert(parent.clone(), Parent::Unanswered);
                self.unanswered += 1;
                self.decide(false);
            }
            Some(Parent::Unanswered | Parent::Wants { released: Some(_), .. }) | None => {}
        }
    }

    /// A parent is gone, or being deleted.
    pub fn forget(&mut self, parent: &ObjectKey) {
        let is_released = matches!(self.parents.get(parent), Some(Parent::Wants { released: Some(_), .. }));
        if !is_released {
            self.take(parent);
            self.decide(false);
        } else if self.is_complete() {
            self.parents.remove(parent);
        }
    }

    /// What the Plugin's annotation [`crate::names::ANNOTATION_ALLOW_DELETION`] says now.
    pub fn allow(&mut self, annotation: Option<&str>) {
        self.allowed = annotation.map(Into::into);
        self.decide(false);
        if let Some(Decision::Held(held)) = &mut self.decision {
            held.mismatch = mismatch(annotation, &held.hash);
        }
    }

    /// The Plugin's guard is another one now. What it cannot hold goes on.
    pub fn adjust(&mut self, guard: DeletionGuard) {
        self.guard = guard;
        self.was_held.take_if(|_| !guard.can_hold());
        self.decide(false);
    }

    /// What is held, for the Plugin's condition.
    pub fn held(&self) -> Option<&Held> {
        match &self.decision {
            Some(Decision::Held(held)) => Some(held),
            Some(Decision::Released) | None => None,
        }
    }

    /// The name of what is held, or was held before and is not decided about yet. What follows on this, another process
    /// or other logic, must begin with it.
    pub fn hold(&self) -> Option<&str> {
        match self.held() {
            Some(held) => Some(&held.hash),
            None if self.is_complete() => None,
            None => self.was_held.as_deref(),
        }
    }

    /// Takes out the parents to be queued again, because it was decided what becomes of their deletions. To be asked after
    /// each of the other calls.
    pub fn take_to_queue(&mut self) -> Vec<ObjectKey> {
        std::mem::take(&mut self.to_queue)
    }

    /// The parents that everybody waits for: they were not evaluated yet.
    pub fn untried(&self) -> impl Iterator<Item = &ObjectKey> {
        self.parents.iter().filter(|(_, parent)| matches!(parent, Parent::Untried)).map(|(key, _)| key)
    }

    /// Has all of them queued.
    pub(super) fn queue_untried(&mut self) {
        let untried: Vec<_> = self.untried().cloned().collect();
        self.to_queue.extend(untried);
    }

    /// Whether every parent has answered and nothing is held: nothing is left to be decided.
    pub fn is_complete(&self) -> bool {
        self.untried == 0 && self.unanswered == 0 && matches!(self.decision, Some(Decision::Released))
    }

    /// Whether it is complete, and all parents whose deletions were let go were told.
    pub(super) fn is_worked_off(&self) -> bool {
        self.is_complete() && self.parents.is_empty()
    }

    /// Takes a parent out, whatever is known of it.
    fn take(&mut self, parent: &ObjectKey) {
        match self.parents.remove(parent) {
            Some(Parent::Untried) => self.untried -= 1,
            Some(Parent::Unanswered) => self.unanswered -= 1,
            Some(Parent::Wants { prunes, .. }) => {
                self.waiting -= prunes;
                self.waits.remove(parent);
            }
            None => {}
        }
    }

    /// Decides anew, once all parents are through. `has_grown`: more is waiting than when it was decided last, or other
    /// things.
    fn decide(&mut self, has_grown: bool) {
        if self.untried > 0 {
            return;
        }
        let is_too_many =
            self.was_held.is_some() || self.guard.is_too_many(self.released + self.waiting, self.owned, self.baseline);
        if self.waiting == 0 || !is_too_many {
            return self.release(By::Limit);
        }
        match &mut self.decision {
            // The name of what is held stays while it only shrinks, as parents go: a person is about to type it.
            Some(Decision::Held(held)) if !has_grown => held.prunes = self.waiting,
            _ => {
                if self.held().is_none() {
                    self.queue_waiting();
                }
                let hash = self.waits.name(self.logic);
                let mismatch = mismatch(self.allowed.as_deref(), &hash);
                self.decision = Some(Decision::Held(Held {
                    hash,
                    prunes: self.waiting,
                    owned: self.owned,
                    children: Vec::new(),
                    because: self.because,
                    target: String::new(),
                    mismatch,
                }));
            }
        }
        if self.held().is_some_and(|held| self.allowed.as_deref() == Some(&held.hash)) {
            // Somebody asked for these now: what parents that have not answered yet may want is counted without them.
            let released = self.released;
            self.release(By::User);
            (self.released, self.was_held) = (released, None);
        }
    }

    fn release(&mut self, by: By) {
        if self.waiting > 0 {
            self.queue_waiting();
            for parent in self.parents.values_mut() {
                if let Parent::Wants { released: released @ None, .. } = parent {
                    *released = Some(by);
                }
            }
            self.released += std::mem::take(&mut self.waiting);
            self.waits.clear();
        }
        self.decision = Some(Decision::Released);
    }

    fn queue_waiting(&mut self) {
        let waiting = self.parents.iter().filter(|(_, parent)| matches!(parent, Parent::Wants { released: None, .. }));
        self.to_queue.extend(waiting.map(|(key, _)| key.clone()));
    }
}
