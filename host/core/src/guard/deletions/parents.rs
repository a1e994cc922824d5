//! The parents of a rollout that are undecided, or whose released deletions are not carried out yet, with counts.

use std::collections::HashMap;

use super::waiting::Waiting;
use crate::value::digest::Digest;
use crate::value::ids::ObjectKey;

/// What a rollout knows of one parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ParentState {
    /// It was not evaluated yet.
    Untried,
    /// Its reconcile ended without a plan.
    Unplanned,
    /// Its planned deletions wait: `prunes` is their number, `hash` identifies them.
    Waits { prunes: usize, hash: Digest },
    /// Its deletions may be carried out; `hash` identifies them.
    Released { hash: Digest, by: ReleasedBy },
}

/// Why deletions were released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReleasedBy {
    /// They do not exceed the limit.
    Limit,
    /// A user allowed them.
    User,
}

/// Parents that are not decided yet, and parents whose released deletions were not carried out yet. [`set`](Self::set)
/// and [`release`](Self::release) keep the counts in step with `states`.
#[derive(Debug, Default)]
pub(super) struct Parents {
    states: HashMap<ObjectKey, ParentState>,
    /// Number of parents that were not evaluated yet.
    pub untried: usize,
    /// Number of parents whose reconcile ended without a plan.
    pub unplanned: usize,
    /// Number of deletions that wait.
    pub deletions: usize,
    /// The deletions that wait.
    pub waits: Waiting,
}

impl Parents {
    /// Parents that were not evaluated yet.
    pub fn untried(parents: impl Iterator<Item = ObjectKey>) -> Self {
        let states: HashMap<_, _> = parents.map(|parent| (parent, ParentState::Untried)).collect();
        Self { untried: states.len(), states, ..Self::default() }
    }

    pub fn get(&self, parent: &ObjectKey) -> Option<&ParentState> {
        self.states.get(parent)
    }

    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Whether all of these parents are such whose reconcile ended without a plan.
    pub fn only_unplanned(&self) -> bool {
        self.states.len() == self.unplanned
    }

    /// The parents that were not evaluated yet.
    pub fn all_untried(&self) -> impl Iterator<Item = &ObjectKey> {
        self.states.iter().filter(|(_, parent)| matches!(parent, ParentState::Untried)).map(|(key, _)| key)
    }

    /// The parents whose deletions wait.
    pub fn all_waiting(&self) -> impl Iterator<Item = &ObjectKey> {
        self.states.iter().filter(|(_, parent)| matches!(parent, ParentState::Waits { .. })).map(|(key, _)| key)
    }

    /// Sets what is known of a parent; `None` removes it.
    pub fn set(&mut self, parent: &ObjectKey, to: Option<ParentState>) {
        match self.states.remove(parent) {
            Some(ParentState::Untried) => self.untried -= 1,
            Some(ParentState::Unplanned) => self.unplanned -= 1,
            Some(ParentState::Waits { prunes, .. }) => {
                self.deletions -= prunes;
                self.waits.remove(parent);
            }
            Some(ParentState::Released { .. }) | None => {}
        }
        match to {
            Some(ParentState::Untried) => self.untried += 1,
            Some(ParentState::Unplanned) => self.unplanned += 1,
            Some(ParentState::Waits { prunes, hash }) => {
                self.deletions += prunes;
                self.waits.insert(parent, hash);
            }
            Some(ParentState::Released { .. }) | None => {}
        }
        self.states.extend(to.map(|to| (parent.clone(), to)));
    }

    /// Releases all deletions that wait; returns their number.
    pub fn release(&mut self, by: ReleasedBy) -> usize {
        for parent in self.states.values_mut() {
            if let ParentState::Waits { hash, .. } = parent {
                *parent = ParentState::Released { hash: *hash, by };
            }
        }
        self.waits.clear();
        std::mem::take(&mut self.deletions)
    }
}
