//! Plans what a parent is to say of children that are created once (rule R25).

use std::time::Duration;

use super::{Plan, Planning, Write};
use crate::contract::desired::{Desired, DesiredChild};
use crate::contract::snapshot::Snapshot;
use crate::object::Object;
use crate::object::child::ChildId;
use crate::object::names::ANNOTATION_ONCE;
use crate::object::once::{Noted, Once, surplus};
use crate::reconcile::not_ready::NotReady;

/// Changes of what a parent says of children that are created once (rule R25).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    /// New notes about existing children.
    pub existing: Vec<OnceNote>,
    /// The annotations with notes that it need not keep.
    pub surplus: Vec<String>,
}

/// A note on the parent about a child that is created once (rule R25).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnceNote {
    /// The child.
    pub child: ChildId,
    /// Its creation.
    pub once: Once,
    /// What is noted.
    pub noted: Noted,
}

impl Plan {
    /// The notes on the parent that are due before children are created once.
    pub fn begun(&self) -> impl Iterator<Item = OnceNote> {
        self.writes.iter().filter_map(|write| {
            let Write::Create(child) = write else { return None };
            Some(OnceNote { child: child.id(), once: child.once.clone()?, noted: Noted::Begun })
        })
    }

    /// Whether the plan writes notes on the parent.
    pub fn has_notes(&self) -> bool {
        self.notes.is_some() || self.begun().next().is_some()
    }

    /// Removes the notes about existing children that are not admitted. Returns the longest wait. Those about new children are bounded by
    /// the creates.
    pub fn admit_notes(&mut self, mut admit: impl FnMut(&Once) -> Result<(), Duration>) -> Option<Duration> {
        let notes = self.notes.as_mut()?;
        let mut longest = None;
        notes.existing.retain(|note| match admit(&note.once) {
            Ok(()) => true,
            Err(wait) => {
                longest = longest.max(Some(wait));
                false
            }
        });
        if notes.existing.is_empty() && notes.surplus.is_empty() {
            self.notes = None;
        }
        longest
    }

    /// Adds that the oldest notes about other children than the desired ones go, if other notes are written.
    pub(super) fn drop_surplus_notes(&mut self, snapshot: &Snapshot, desired: &Desired) {
        // Children that are kept or left out are not among the desired ones, and their notes must stay.
        if !self.has_notes() || !desired.kept.is_none() || !desired.absent.is_empty() {
            return;
        }
        let returned = desired.children.iter().filter_map(|child| child.once.as_ref());
        let surplus = surplus(&snapshot.parent, &snapshot.parent_ref.plugin, returned);
        if !surplus.is_empty() {
            self.notes.get_or_insert_default().surplus = surplus;
        }
    }
}

impl Planning<'_> {
    /// Plans what the parent must say of an existing child that is created once.
    pub(super) fn note(&mut self, live: &Object, child: &DesiredChild, parent: &Object) {
        let Some(once) = child.once.as_ref().filter(|once| live.marks.get(ANNOTATION_ONCE) == Some(once.mark())) else {
            return;
        };
        let before = once.noted(parent);
        if before == Some(Noted::Ready) {
            return;
        }
        let noted = if NotReady::or_leaving(live, child).is_none() { Noted::Ready } else { Noted::Begun };
        if before != Some(noted) {
            let note = OnceNote { child: child.id(), once: once.clone(), noted };
            self.plan.notes.get_or_insert_default().existing.push(note);
        }
    }
}
