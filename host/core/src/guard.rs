//! Deletions that nobody asked for are held until a person allows them (rule R9): of one parent by [`HeldParents`], of
//! all parents of a plugin whose logic is new by [`Rollout`].

mod rollout;

use std::collections::{HashMap, HashSet};

use sha2::{Digest as _, Sha256};

use crate::conditions::{conditions_of, type_of};
use crate::contract::Phase;
use crate::digest::Digest;
use crate::ids::{ObjectKey, PluginName, Uid};
use crate::json::{Map, Value};
use crate::names::{self, parent_condition, parent_reason};
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

/// How a message about held deletions begins: with what to do, so that it stands when the rest is cut. By it a parent's
/// status is recognised, so a message of a parent begins so for deletions of its own alone.
const HOW: &str = "To go on, annotate this object with";

impl Held {
    /// What the condition of a parent says while its deletions are held at its Plugin. It has no hash: that changes when
    /// more is held, and only the Plugin's condition follows.
    pub fn told_to_parents(plugin: &PluginName) -> String {
        format!("Deletions that nobody asked for are held for all objects of Plugin {plugin}: see its conditions")
    }
}

/// The condition's message, for the object that is to be annotated: it must begin the condition's own. What a parent says
/// of deletions that are held at its Plugin must begin otherwise.
impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { hash, prunes, owned, children } = self;
        write!(f, "{HOW} {}={hash}: ", names::ANNOTATION_ALLOW_DELETION)?;
        write!(f, "{prunes} of {owned} children would be deleted, and nobody asked for it")?;
        for (at, child) in children.iter().enumerate() {
            write!(f, "{}{child}", if at == 0 { ": " } else { ", " })?;
        }
        match prunes.saturating_sub(children.len()) {
            more if more > 0 && !children.is_empty() => write!(f, " and {more} more"),
            _ => Ok(()),
        }
    }
}

impl DeletionGuard {
    /// Whether what is held may stay so. How many children there are does not matter: there are fewer for a moment while
    /// one is made anew.
    fn can_hold(self) -> bool {
        self.max_percent < 100
    }

    fn is_too_many(self, prunes: usize, owned: usize) -> bool {
        owned >= self.min_children && prunes.saturating_mul(100) > owned.saturating_mul(usize::from(self.max_percent))
    }
}

/// The parents of one plugin whose deletions are held.
///
/// What is held stays held until a user asks for it, nothing is to be deleted any more, or the guard may hold nothing at
/// all. The creates of the same answer are carried out, so counting again would find the deletions to be a smaller part of
/// more children: an answer that renames all of them would get its way at the second try. A parent's status says the same
/// to the next process.
#[derive(Debug, Default)]
pub struct HeldParents {
    held: HashMap<ObjectKey, Uid>,
    allowed: HashMap<ObjectKey, Allowed>,
}

/// Deletions that a person allowed, until none is left: some of them may fail, and the rest has another name.
#[derive(Debug)]
struct Allowed {
    /// What the annotation says of them.
    hash: String,
    children: HashSet<Uid>,
}

impl HeldParents {
    /// Whether the parent's annotation allows these deletions: it names them, or named more of which these are left.
    fn is_allowed(&mut self, snapshot: &Snapshot, prunes: &[Delete]) -> bool {
        let Some(said) = snapshot.parent.marks.get(names::ANNOTATION_ALLOW_DELETION) else { return false };
        let parent = &snapshot.parent.key;
        if hash_of(prunes).short() == said {
            let children = prunes.iter().map(|delete| delete.uid.clone()).collect();
            self.allowed.insert(parent.clone(), Allowed { hash: said.to_owned(), children });
            return true;
        }
        self.allowed
            .get(parent)
            .is_some_and(|known| known.hash == said && prunes.iter().all(|left| known.children.contains(&left.uid)))
    }

    /// Takes the prunes out of a plan if they are too many, or were, and [nobody asked](is_asked) for them. Creates and
    /// updates stay.
    fn hold(&mut self, guard: DeletionGuard, snapshot: &Snapshot, is_asked: bool, plan: &mut Plan) -> Option<Held> {
        let parent = &snapshot.parent;
        if plan.prunes.is_empty() {
            self.allowed.remove(&parent.key);
        }
        if is_asked || plan.prunes.is_empty() {
            self.held.remove(&parent.key);
            return None;
        }
        let owned = snapshot.children.iter().filter(|child| !child.deleting && child.is_owned_by(&parent.uid)).count();
        let was_held = self.held.get(&parent.key) == Some(&parent.uid) || says_held(parent);
        let is_held = guard.is_too_many(plan.prunes.len(), owned) || was_held && guard.can_hold();
        if !is_held {
            self.held.remove(&parent.key);
            return None;
        }
        self.held.insert(parent.key.clone(), parent.uid.clone());
        let prunes = std::mem::take(&mut plan.prunes);
        Some(Held {
            hash: hash_of(&prunes).short(),
            prunes: prunes.len(),
            owned,
            children: prunes.into_iter().take(SHOWN).map(|delete| delete.child).collect(),
        })
    }

    /// A parent is gone.
    pub fn forget(&mut self, parent: &ObjectKey) {
        self.held.remove(parent);
        self.allowed.remove(parent);
    }

    /// Parents may have gone unseen, while none of the plugin's logic was live.
    pub fn forget_unless(&mut self, exists: impl Fn(&ObjectKey) -> bool) {
        self.held.retain(|parent, _| exists(parent));
        self.allowed.retain(|parent, _| exists(parent));
    }
}

/// Why the deletions of a plan were taken out of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The plugin's logic is new: not before it was asked for all parents. The parent is queued again then.
    PutOff,
    /// Held for this parent.
    AtParent(Held),
    /// Held for all parents of the plugin.
    AtPlugin(Held),
}

/// The whole of rule R9 for one plan: takes its deletions out if they must not be carried out now.
///
/// Each parent is judged by itself in any case, also while its plugin's deletions are put off: the creates of the same
/// answer are carried out meanwhile, and would make the deletions a smaller part.
pub fn judge(
    rollout: &mut Rollout,
    parents: &mut HeldParents,
    guard: DeletionGuard,
    snapshot: &Snapshot,
    is_asked: bool,
    plan: &mut Plan,
) -> Option<Stop> {
    let is_asked = is_asked || parents.is_allowed(snapshot, &plan.prunes);
    let word = rollout.evaluated(&snapshot.parent.key, &plan.prunes, is_asked);
    let held = parents.hold(guard, snapshot, is_asked, plan);
    match word {
        Word::Delete => held.map(Stop::AtParent),
        Word::PutOff => {
            plan.prunes.clear();
            Some(Stop::PutOff)
        }
        Word::Held(held) => {
            plan.prunes.clear();
            Some(Stop::AtPlugin(held))
        }
    }
}

/// Whether a parent's status says that deletions of its own are held.
fn says_held(parent: &Object) -> bool {
    let says = |condition: &Map, field: &str, test: fn(&str) -> bool| {
        condition.get(field).and_then(Value::as_str).is_some_and(test)
    };
    conditions_of(&status::observed(parent)).any(|condition| {
        type_of(condition) == Some(parent_condition::READY)
            && says(condition, "reason", |reason| reason == parent_reason::DELETION_HELD)
            && says(condition, "message", |message| message.starts_with(HOW))
    })
}

/// Whether a user asked for what a plan deletes: by deleting the parent (not by taking it out of the selector), or by
/// changing its spec. [`judge`] sees whether the annotation of the parent allows it.
///
/// The spec changed when the generation is past `status.observedGeneration`. A kind without one or the other cannot tell,
/// and so nobody asked. Nor did anybody if the status has no `observedGeneration` yet: a parent that was never
/// reconciled has no children to lose, and one whose status was wiped, or whose schema has only now got the field, must
/// not lose them to that. The price: a parent that never came to an end well is held when its user scales it down.
pub fn is_asked(snapshot: &Snapshot, phase: Phase, shape: StatusShape, plan: &Plan) -> bool {
    let is_deleted = phase == Phase::Finalize && snapshot.parent.deleting;
    is_deleted || plan.prunes.is_empty() || has_moved(&snapshot.parent, shape)
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
