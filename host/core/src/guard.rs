//! Deletions that nobody asked for are held until a person allows them (rule R9): of one parent by [`DeletionGuard`], of
//! all parents of a plugin whose logic is new by [`Rollout`].

mod rollout;

use sha2::{Digest as _, Sha256};

use crate::contract::Phase;
use crate::digest::Digest;
use crate::json::Value;
use crate::names;
use crate::object::Object;
use crate::plan::{ChildId, Delete, Plan};
use crate::snapshot::Snapshot;
use crate::status::{self, StatusShape};

pub use rollout::{Rollout, Word};

/// How many deletions are too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeletionGuard {
    /// Largest part of the children that may go at once, in percent.
    pub max_percent: u8,
    /// Fewer children than this are not worth guarding.
    pub min_children: usize,
}

impl Default for DeletionGuard {
    fn default() -> Self {
        Self { max_percent: 50, min_children: 4 }
    }
}

/// Deletions that wait for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// What [`names::ANNOTATION_ALLOW_DELETION`] must say to let them go on; names these deletions alone.
    pub hash: String,
    /// How many they are.
    pub prunes: usize,
    /// Of how many children.
    pub owned: usize,
    /// Some of them, for the message; none when the deletions of many parents are held.
    pub children: Vec<ChildId>,
}

/// So many children stand in a message.
const SHOWN: usize = 5;

impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} children would be deleted, and nobody asked for it", self.prunes, self.owned)?;
        for (at, child) in self.children.iter().enumerate() {
            write!(f, "{}{child}", if at == 0 { ": " } else { ", " })?;
        }
        if self.prunes > self.children.len() && !self.children.is_empty() {
            write!(f, " and {} more", self.prunes - self.children.len())?;
        }
        // The same for a parent and for a Plugin: it goes where this message stands.
        write!(f, ". To let that happen, annotate this object with {}={}", names::ANNOTATION_ALLOW_DELETION, self.hash)
    }
}

impl DeletionGuard {
    /// Takes the prunes out of a plan if they are too many and [nobody asked](is_asked) for them. Creates and updates
    /// stay.
    pub fn hold(self, snapshot: &Snapshot, plan: &mut Plan) -> Option<Held> {
        let parent = &snapshot.parent.uid;
        let owned = snapshot.children.iter().filter(|child| !child.deleting && child.is_owned_by(parent)).count();
        if !self.is_too_many(plan.prunes.len(), owned) {
            return None;
        }
        let prunes = std::mem::take(&mut plan.prunes);
        Some(Held {
            hash: hash_of(&prunes).short(),
            prunes: prunes.len(),
            owned,
            children: prunes.into_iter().take(SHOWN).map(|delete| delete.child).collect(),
        })
    }

    fn is_too_many(self, prunes: usize, owned: usize) -> bool {
        let part = |percent: usize, of: usize| of.saturating_mul(percent);
        owned >= self.min_children && part(100, prunes) > part(usize::from(self.max_percent), owned)
    }
}

/// Whether a user asked for what a plan deletes: by deleting the parent, by changing its spec, or by allowing this very
/// plan in an annotation.
///
/// The spec changed when the generation is past `status.observedGeneration`. A kind without one or the other cannot tell,
/// and so nobody asked. Nor did anybody if the status has no `observedGeneration` yet: a parent that was never
/// reconciled has no children to lose, and one whose status was wiped, or whose schema has only now got the field, must
/// not lose them to that. The price: a parent that never came to an end well is held when its user scales it down.
pub fn is_asked(snapshot: &Snapshot, phase: Phase, shape: StatusShape, plan: &Plan) -> bool {
    match phase {
        Phase::Finalize => true,
        Phase::Sync => plan.prunes.is_empty() || is_allowed(snapshot, plan) || has_moved(&snapshot.parent, shape),
    }
}

fn is_allowed(snapshot: &Snapshot, plan: &Plan) -> bool {
    let allowed = snapshot.parent.marks.get(names::ANNOTATION_ALLOW_DELETION);
    allowed.is_some_and(|allowed| allowed == hash_of(&plan.prunes).short())
}

fn has_moved(parent: &Object, shape: StatusShape) -> bool {
    let keeps = shape.subresource && shape.observed_generation;
    let observed = match status::observed(parent).get("observedGeneration") {
        Some(Value::Number(number)) => number.as_i64(),
        _ => None,
    };
    keeps && matches!((parent.generation, observed), (Some(now), Some(observed)) if now > observed)
}

/// Names a set of deletions: over kind, namespace, name and uid of each, whatever their order.
fn hash_of(prunes: &[Delete]) -> Digest {
    let mut lines: Vec<String> = prunes
        .iter()
        .map(|Delete { child, uid }| format!("{}\n{}\n{}\n{uid}\n", child.kind.group, child.kind.kind, child.key))
        .collect();
    lines.sort();
    let mut hash = Sha256::new();
    for line in lines {
        hash.update(line.as_bytes());
    }
    Digest::from_bytes(hash.finalize().into())
}

#[cfg(test)]
mod tests;
