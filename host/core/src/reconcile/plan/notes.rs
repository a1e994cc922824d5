//! Plans what a parent is to say of children that are created once (rule R25).

use super::compare::is_of_other_text;
use super::{Plan, Planning, Write};
use crate::contract::desired::{Desired, DesiredChild};
use crate::object::Object;
use crate::object::child::ChildId;
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

    /// Removes the notes on the parent, and what must not be done without them.
    pub fn leave_notes(&mut self) {
        self.notes = None;
        self.writes.retain(|write| !matches!(write, Write::Create(child) if child.once.is_some()));
        self.prunes.clear();
    }

    /// Adds that the oldest notes about other children than the desired ones go, if other notes are written.
    pub(super) fn drop_surplus_notes(&mut self, parent: &Object, desired: &Desired) {
        if !self.has_notes() {
            return;
        }
        let returned = desired.children.iter().filter_map(|child| child.once.as_ref());
        let surplus = surplus(parent, returned);
        if !surplus.is_empty() {
            self.notes.get_or_insert_default().surplus = surplus;
        }
    }
}

impl Planning<'_> {
    /// Plans what the parent must say of an existing child that is created once.
    pub(super) fn note(&mut self, live: &Object, child: &DesiredChild, parent: &Object) {
        let Some(once) = child.once.as_ref().filter(|_| !is_of_other_text(live, child)) else { return };
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
