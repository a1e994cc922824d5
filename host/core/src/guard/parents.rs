//! The parents of a rollout, with their numbers.

use std::collections::HashMap;

use super::waiting::Waiting;
use crate::digest::Digest;
use crate::ids::ObjectKey;

/// What a rollout knows of one parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Parent {
    /// It was not evaluated yet.
    Untried,
    /// Its reconcile ended without a plan.
    Unplanned,
    /// It plans this number of deletions, which wait, with a hash of them.
    Waits { prunes: usize, hash: Digest },
    /// Its deletions, with a hash of them, were released.
    Released { hash: Digest, by: By },
}

/// Why deletions were released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// They do not exceed the limit.
    Limit,
    /// A user allowed them.
    User,
}

/// Parents that are not decided yet, and parents whose released deletions were not carried out yet. The numbers follow from the
/// parents: [`set`](Self::set) and [`release`](Self::release) alone change them.
#[derive(Debug, Default)]
pub(super) struct Parents {
    of: HashMap<ObjectKey, Parent>,
    untried: usize,
    unplanned: usize,
    deletions: usize,
    waits: Waiting,
}

impl Parents {
    /// Parents that were not evaluated yet.
    pub fn untried(parents: impl Iterator<Item = ObjectKey>) -> Self {
        let of: HashMap<_, _> = parents.map(|parent| (parent, Parent::Untried)).collect();
        Self { untried: of.len(), of, ..Self::default() }
    }

    pub fn get(&self, parent: &ObjectKey) -> Option<&Parent> {
        self.of.get(parent)
    }

    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Number of parents that were not evaluated yet.
    pub fn count_untried(&self) -> usize {
        self.untried
    }

    /// Number of parents whose reconcile ended without a plan.
    pub fn count_unanswered(&self) -> usize {
        self.unplanned
    }

    /// Number of deletions that wait.
    pub fn count_deletions(&self) -> usize {
        self.deletions
    }

    /// The parents that were not evaluated yet.
    pub fn all_untried(&self) -> impl Iterator<Item = &ObjectKey> {
        self.of.iter().filter(|(_, parent)| matches!(parent, Parent::Untried)).map(|(key, _)| key)
    }

    /// The parents whose deletions wait.
    pub fn all_waiting(&self) -> impl Iterator<Item = &ObjectKey> {
        self.of.iter().filter(|(_, parent)| matches!(parent, Parent::Waits { .. })).map(|(key, _)| key)
    }

    /// Hashes the version and all waiting deletions.
    pub fn name(&mut self, logic: Digest) -> String {
        self.waits.name(logic)
    }

    /// Sets what is known of a parent; `None` removes it.
    pub fn set(&mut self, parent: &ObjectKey, to: Option<Parent>) {
        match self.of.remove(parent) {
            Some(Parent::Untried) => self.untried -= 1,
            Some(Parent::Unplanned) => self.unplanned -= 1,
            Some(Parent::Waits { prunes, .. }) => {
                self.deletions -= prunes;
                self.waits.remove(parent);
            }
            Some(Parent::Released { .. }) | None => {}
        }
        match to {
            Some(Parent::Untried) => self.untried += 1,
            Some(Parent::Unplanned) => self.unplanned += 1,
            Some(Parent::Waits { prunes, hash }) => {
                self.deletions += prunes;
                self.waits.insert(parent, hash);
            }
            Some(Parent::Released { .. }) | None => {}
        }
        self.of.extend(to.map(|to| (parent.clone(), to)));
    }

    /// Releases all deletions that wait; returns their number.
    pub fn release(&mut self, by: By) -> usize {
        for parent in self.of.values_mut() {
            if let Parent::Waits { hash, .. } = parent {
                *parent = Parent::Released { hash: *hash, by };
            }
        }
        self.waits.clear();
        std::mem::take(&mut self.deletions)
    }
}
