//! All parents of one plugin: what its logic would delete of them, and what is deleted because their namespace left the
//! Plugin.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::{Cause, DeletionGuard, Held, Rollout, Word};
use crate::digest::Digest;
use crate::ids::ObjectKey;
use crate::plan::Delete;

/// The rollout of the plugin's logic, and one of each namespace that left the Plugin: one edit of a label takes all parents
/// of a namespace away, each of which may have too few children for a guard of its own.
#[derive(Debug)]
pub struct Fleet {
    rollout: Rollout,
    /// By namespace, until all children are gone or the namespace is selected again.
    leaving: BTreeMap<Arc<str>, Rollout>,
    /// What the Plugin's annotation says.
    allowed: Option<Box<str>>,
}

/// Who left together with a parent.
#[derive(Debug, Default)]
pub struct Leavers {
    /// The parents of its namespace that have children.
    pub parents: Vec<ObjectKey>,
    /// How many children they have in all.
    pub owned: usize,
}

impl Fleet {
    /// New logic is live.
    pub fn new(rollout: Rollout) -> Self {
        Self { rollout, leaving: BTreeMap::new(), allowed: None }
    }

    /// See [`Rollout::doubts`].
    pub fn doubts(&self, parent: &ObjectKey) -> bool {
        self.rollout.doubts(parent)
    }

    /// Whether what its namespace deletes is summed up, because it left.
    pub(super) fn is_leaving(&self, parent: &ObjectKey) -> bool {
        parent.namespace.as_ref().is_some_and(|namespace| self.leaving.contains_key(namespace))
    }

    /// See [`Rollout::created_since`].
    pub(super) fn created_since(&self, parent: &ObjectKey) -> Option<Timestamp> {
        self.rollout.created_since(parent)
    }

    /// A parent's plan is made. See [`Rollout::evaluated`]. `has_children`: some that are not being deleted.
    pub fn evaluated(
        &mut self,
        guard: DeletionGuard,
        parent: &ObjectKey,
        deletions: &[Delete],
        (is_asked, cause): (bool, Cause),
        has_children: bool,
        leavers: impl FnOnce() -> Leavers,
    ) -> Word {
        let word = self.rollout.evaluated(parent, deletions, is_asked);
        let left = parent.namespace.as_ref().filter(|_| cause == Cause::LeftNamespaces);
        match left {
            // Of what is put off or blocked nothing is deleted, and what a user allowed is allowed.
            Some(namespace) if word == Word::Delete => {
                if deletions.is_empty() && has_children {
                    // Its plugin cleans up first, for instance, and its children are deleted later.
                    self.leaving.entry(namespace.clone()).and_modify(|rollout| rollout.wants_none_yet(parent));
                    return word;
                }
                self.evaluated_leaver(guard, namespace, parent, (deletions, is_asked), leavers)
            }
            Some(_) => word,
            None => {
                let leaving = parent.namespace.as_ref().and_then(|namespace| self.leaving.get_mut(namespace));
                if let Some(rollout) = leaving {
                    // It is back, or has nothing to lose.
                    rollout.evaluated(parent, &[], true);
                }
                word
            }
        }
    }

    fn evaluated_leaver(
        &mut self,
        guard: DeletionGuard,
        namespace: &Arc<str>,
        parent: &ObjectKey,
        (deletions, is_asked): (&[Delete], bool),
        leavers: impl FnOnce() -> Leavers,
    ) -> Word {
        self.leaving.retain(|_, rollout| !rollout.is_worked_off());
        let is_known = self.leaving.contains_key(namespace);
        if !is_known && (is_asked || deletions.is_empty()) {
            return Word::Delete;
        }
        let Self { leaving, allowed, .. } = self;
        let rollout = leaving.entry(namespace.clone()).or_insert_with(|| {
            let Leavers { parents, owned } = leavers();
            let name = Digest::of(format!("leaving\n{namespace}").as_bytes());
            let mut rollout = Rollout::begin(guard, name, parents, owned, None).of_leavers();
            rollout.allow(allowed.as_deref());
            // Some of them may have been looked at before this began.
            rollout.queue_untried();
            rollout
        });
        rollout.evaluated(parent, deletions, is_asked)
    }

    /// See [`Rollout::unanswered`].
    pub fn unanswered(&mut self, parent: &ObjectKey) {
        self.each(parent, Rollout::unanswered);
    }

    /// See [`Rollout::forget`].
    pub fn forget(&mut self, parent: &ObjectKey) {
        self.each(parent, Rollout::forget);
    }

    fn each(&mut self, parent: &ObjectKey, tell: fn(&mut Rollout, &ObjectKey)) {
        tell(&mut self.rollout, parent);
        if let Some(rollout) = parent.namespace.as_ref().and_then(|namespace| self.leaving.get_mut(namespace)) {
            tell(rollout, parent);
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

    /// What is blocked, for the Plugin's condition: of several the first, which is the same one each time.
    pub fn held(&self) -> Option<&Held> {
        self.rollout.held().or_else(|| self.leaving.values().find_map(Rollout::held))
    }

    /// See [`Rollout::hold`].
    pub fn hold(&self) -> Option<&str> {
        self.rollout.hold()
    }

    /// The rollout of the plugin's logic.
    pub fn rollout(&self) -> &Rollout {
        &self.rollout
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
