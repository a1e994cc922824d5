//! Deletions that no user asked for are blocked until a user allows them (rule R9): of one parent by [`HeldParents`], of
//! all parents of a plugin with a new component by [`Rollout`], of all parents in a namespace that left the Plugin by
//! [`Fleet`].

mod fleet;
mod rollout;
mod waiting;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::conditions::{conditions_of, type_of};
use crate::contract::Phase;
use crate::digest::Digest;
use crate::ids::{ObjectKey, PluginName, Uid};
use crate::json::{self, Map, Value};
use crate::names::{self, parent_condition, parent_reason};
use crate::object::Object;
use crate::observed_status::{StatusShape, observed};
use crate::parent::ParentRef;
use crate::plan::{ChildId, Delete, Plan, Write};
use crate::snapshot::Snapshot;

pub use fleet::{Fleet, Leavers};
pub use rollout::{Record, Rollout, Word};

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

/// Deletions that wait for a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// What [`names::ANNOTATION_ALLOW_DELETION`] must say to let them go on; names these deletions alone.
    pub hash: String,
    /// How many they are.
    pub prunes: usize,
    /// Of how many children.
    pub owned: usize,
    /// Some of them, for the message; none when the deletions of many parents are blocked.
    pub children: Vec<ChildId>,
    /// What wants them.
    pub because: Because,
    /// The parent, as arguments of `kubectl annotate`; empty when the deletions of many parents are blocked.
    pub target: String,
    /// What the annotation says instead of the hash, if it is there.
    pub mismatch: Option<Box<str>>,
}

/// What wants deletions that no user asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Because {
    /// The plugin's inputs or its own behaviour changed; the parent did not.
    Inputs,
    /// The component, the config or the grants are new.
    NewLogic,
    /// The parent left the selector or the namespaces of the Plugin.
    Left,
}

impl Because {
    const ALL: [Self; 3] = [Self::Inputs, Self::NewLogic, Self::Left];

    fn as_str(self) -> &'static str {
        match self {
            Self::Inputs => "although the spec did not change",
            Self::NewLogic => "because of a new component, config or grant",
            Self::Left => "because the parent left the selector or the namespaces of its Plugin",
        }
    }
}

/// So many seconds may the host's clock be behind the API server's.
const CLOCK_SKEW: i64 = 5;
/// Nesting of an object's metadata.
const JSON_DEPTH: usize = 128;

/// So many children stand in a message.
const SHOWN: usize = 5;
/// So much of a value that does not match stands in a message.
const SHOWN_VALUE: usize = 64;

/// How a message about blocked deletions begins. A parent's status is recognised by it, so a parent's message begins so
/// for deletions of its own alone.
const BLOCKED: &str = "Blocked: ";
/// How it began in earlier versions.
const BLOCKED_BEFORE: &str = "To go on, annotate this object with";

impl Held {
    /// What the condition of a parent says while its deletions are blocked at its Plugin. It has no hash: that changes when
    /// more is blocked, and only the Plugin's condition follows.
    pub fn told_to_parents(plugin: &PluginName) -> String {
        format!(
            "Plugin {plugin} is blocked from deleting children of its objects; its conditions say how to go on: kubectl \
             describe plugins.windlass.dev {plugin}"
        )
    }

    /// What the condition of a Plugin says.
    pub fn told_by(&self, plugin: &PluginName) -> String {
        let mut text = self.began();
        let target = format!("plugins.windlass.dev {plugin}");
        if self.because == Because::NewLogic {
            let rollback = names::ANNOTATION_ROLLBACK;
            let _ = write!(
                text,
                " To run the previous component again: kubectl annotate {target} {rollback}=true --overwrite."
            );
        }
        self.end(&mut text, &target);
        text
    }

    fn began(&self) -> String {
        let Self { prunes, owned, because, .. } = self;
        format!("{BLOCKED}{prunes} of {owned} children would be deleted {}.", because.as_str())
    }

    /// A message may be cut: what to do comes before the children's names.
    fn end(&self, text: &mut String, target: &str) {
        if let Some(value) = &self.mismatch {
            let _ = write!(text, " The annotation's value {value:?} does not match these deletions.");
        }
        let (annotation, hash) = (names::ANNOTATION_ALLOW_DELETION, &self.hash);
        let _ = write!(
            text,
            " To allow exactly these deletions: kubectl annotate {target} {annotation}={hash} --overwrite"
        );
    }
}

/// The condition's message of a parent.
impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { prunes, children, target, .. } = self;
        let mut text = self.began();
        self.end(&mut text, target);
        f.write_str(&text)?;
        for (at, child) in children.iter().enumerate() {
            write!(f, "{}{child}", if at == 0 { "; children: " } else { ", " })?;
        }
        match prunes.saturating_sub(children.len()) {
            more if more > 0 && !children.is_empty() => write!(f, " and {more} more"),
            _ => Ok(()),
        }
    }
}

/// A parent, as arguments of `kubectl annotate`.
fn target(parent: &ParentRef) -> String {
    let mut target = parent.kind.kind.to_string();
    if !parent.kind.group.is_empty() {
        let _ = write!(target, ".{}", parent.kind.group);
    }
    let _ = write!(target, " {}", parent.key.name);
    if let Some(namespace) = &parent.key.namespace {
        let _ = write!(target, " -n {namespace}");
    }
    target
}

/// An annotation's value that does not name what is blocked.
fn mismatch(said: Option<&str>, hash: &str) -> Option<Box<str>> {
    said.filter(|said| !said.is_empty() && *said != hash)
        .map(|said| said.chars().take(SHOWN_VALUE).collect::<String>().into())
}

impl DeletionGuard {
    /// Whether what is held may stay so. How many children there are does not matter: there are fewer for a moment while
    /// one is made anew.
    fn can_hold(self) -> bool {
        self.max_percent < 100
    }

    /// Whether these deletions of so many children are too large a part of the `baseline`: those of them that were there
    /// before anything was created.
    fn is_too_many(self, prunes: usize, owned: usize, baseline: usize) -> bool {
        owned >= self.min_children
            && prunes.saturating_mul(100) > baseline.saturating_mul(usize::from(self.max_percent))
    }
}

/// The parents of one plugin whose deletions are blocked.
///
/// What is blocked stays so until a user asks for it, nothing is to be deleted any more, or the guard may block nothing at
/// all. The creates of the same response are carried out, so counting again would find the deletions to be a smaller part
/// of more children: a response that renames all of them would get its way at the second try. A parent's status says the
/// same to the next process.
#[derive(Debug, Default)]
pub struct HeldParents {
    held: HashMap<ObjectKey, Blocked>,
    allowed: HashMap<ObjectKey, Allowed>,
}

#[derive(Debug)]
struct Blocked {
    uid: Uid,
    because: Because,
}

/// Deletions that a user allowed, until none is left: some of them may fail, and the rest has another name.
#[derive(Debug)]
struct Allowed {
    /// What the parent's annotation says of them; nothing if they were allowed at the Plugin.
    hash: Option<String>,
    children: HashSet<Uid>,
}

impl HeldParents {
    /// Whether a user allowed these deletions: the parent's annotation names them, or named more of which these are left;
    /// or they are left of what was allowed at the Plugin.
    fn is_allowed(&mut self, snapshot: &Snapshot, prunes: &[Delete]) -> bool {
        let said = snapshot.parent.marks.get(names::ANNOTATION_ALLOW_DELETION);
        let parent = &snapshot.parent.key;
        if said.is_some_and(|said| hash_of(prunes).short() == said) {
            self.allow(parent, said.map(str::to_owned), prunes);
            return true;
        }
        self.allowed.get(parent).is_some_and(|known| {
            (known.hash.is_none() || known.hash.as_deref() == said)
                && prunes.iter().all(|left| known.children.contains(&left.uid))
        })
    }

    fn allow(&mut self, parent: &ObjectKey, hash: Option<String>, prunes: &[Delete]) {
        let children = prunes.iter().map(|delete| delete.uid.clone()).collect();
        self.allowed.insert(parent.clone(), Allowed { hash, children });
    }

    /// What blocks a parent already, as far as this process or the parent's status knows.
    fn blocked(&self, parent: &Object) -> Option<Because> {
        match self.held.get(&parent.key) {
            Some(blocked) if blocked.uid == parent.uid => Some(blocked.because),
            _ => said_held(parent),
        }
    }

    /// Whether to block these deletions: they are too many, or were, and no user [asked](Cause) for them.
    fn hold(
        &mut self,
        guard: DeletionGuard,
        snapshot: &Snapshot,
        (is_asked, because): (bool, Because),
        created_since: Option<Timestamp>,
        prunes: &[Delete],
    ) -> Option<Held> {
        let parent = &snapshot.parent;
        if prunes.is_empty() {
            self.allowed.remove(&parent.key);
        }
        if is_asked || prunes.is_empty() {
            self.held.remove(&parent.key);
            return None;
        }
        let children = snapshot.children.iter().filter(|child| !child.deleting && child.is_owned_by(&parent.uid));
        let owned = children.clone().count();
        let baseline = created_since.map_or(owned, |since| children.filter(|child| existed(child, since)).count());
        let was_held = self.blocked(parent);
        let is_held = guard.is_too_many(prunes.len(), owned, baseline) || was_held.is_some() && guard.can_hold();
        if !is_held {
            self.held.remove(&parent.key);
            return None;
        }
        // What a new component wants stays its own, also after it was asked for all other parents.
        let because = was_held.filter(|was| *was == Because::NewLogic).unwrap_or(because);
        self.held.insert(parent.key.clone(), Blocked { uid: parent.uid.clone(), because });
        let hash = hash_of(prunes).short();
        let mismatch = mismatch(parent.marks.get(names::ANNOTATION_ALLOW_DELETION), &hash);
        Some(Held {
            hash,
            prunes: prunes.len(),
            owned,
            children: prunes.iter().take(SHOWN).map(|delete| delete.child.clone()).collect(),
            because,
            target: target(&snapshot.parent_ref),
            mismatch,
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

/// What became of a parent, as far as it tells whether a user asked for what a plan deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It is being deleted: a user asked.
    Deleted,
    /// Its spec changed since it was reconciled last: a user asked, unless the component is new as well.
    SpecChanged,
    /// Nothing: no user asked.
    Unchanged,
    /// It left the label selector: no user asked.
    LeftSelector,
    /// Its namespace is none of the Plugin's any more, nor are its neighbours': no user asked.
    LeftNamespaces,
}

/// What became of the parent of a snapshot that is selected.
///
/// The spec changed when the generation is past `status.observedGeneration`. A kind without one or the other cannot tell,
/// and so nobody asked. Nor did anybody if the status has no `observedGeneration` yet: a parent that was never
/// reconciled has no children to lose, and one whose status was wiped, or whose schema has only now got the field, must
/// not lose them to that. The price: a parent that never came to an end well is blocked when its user scales it down.
pub fn cause(snapshot: &Snapshot, phase: Phase, shape: StatusShape) -> Cause {
    if phase == Phase::Finalize && snapshot.parent.deleting {
        Cause::Deleted
    } else if has_moved(&snapshot.parent, shape) {
        Cause::SpecChanged
    } else {
        Cause::Unchanged
    }
}

fn has_moved(parent: &Object, shape: StatusShape) -> bool {
    let keeps = shape.subresource && shape.observed_generation;
    let observed = match observed(parent).get("observedGeneration") {
        Some(Value::Number(number)) => number.as_i64(),
        _ => None,
    };
    keeps && matches!((parent.generation, observed), (Some(now), Some(observed)) if now > observed)
}

/// The whole of rule R9 for one plan: takes its deletions out if they must not be carried out now. Creates and updates
/// stay.
///
/// While a new component was not asked for all parents, a parent's changed spec is no excuse: both may have been shipped
/// together, and a parent that failed since its last change looks the same. Children that it replaces count as deleted.
///
/// Each parent is judged by itself in any case, also while its plugin's deletions are put off: the creates of the same
/// answer are carried out meanwhile, and would make the deletions a smaller part.
///
/// `leavers` tells who left together with a parent that [left the Plugin's namespaces](Cause::LeftNamespaces).
pub fn judge(
    fleet: &mut Fleet,
    (parents, guard): (&mut HeldParents, DeletionGuard),
    snapshot: &Snapshot,
    cause: impl FnOnce() -> Cause,
    leavers: impl FnOnce() -> Leavers,
    plan: &mut Plan,
) -> Option<Stop> {
    let parent = &snapshot.parent.key;
    let created_since = fleet.created_since(parent);
    let is_by_logic =
        fleet.doubts(parent) || parents.held.get(parent).is_some_and(|held| held.because == Because::NewLogic);
    let deletions = deletions(plan, is_by_logic);
    // Most plans delete nothing, and need no look at the status.
    let cause = if deletions.is_empty() && !fleet.is_leaving(parent) { Cause::Unchanged } else { cause() };
    let by_user = match cause {
        Cause::Deleted => true,
        Cause::SpecChanged => !is_by_logic && parents.blocked(&snapshot.parent) != Some(Because::NewLogic),
        Cause::Unchanged | Cause::LeftSelector | Cause::LeftNamespaces => false,
    };
    let is_asked = deletions.is_empty() || by_user || parents.is_allowed(snapshot, &deletions);
    let has_children = || {
        let uid = &snapshot.parent.uid;
        snapshot.children.iter().chain(&snapshot.left_out).any(|child| !child.deleting && child.is_owned_by(uid))
    };
    let has_children = cause == Cause::LeftNamespaces && has_children();
    let word = fleet.evaluated(guard, parent, &deletions, (is_asked, cause), has_children, leavers);
    if word == Word::Allowed {
        parents.allow(parent, None, &deletions);
    }
    let because = match cause {
        Cause::LeftSelector | Cause::LeftNamespaces => Because::Left,
        Cause::Deleted | Cause::SpecChanged | Cause::Unchanged if is_by_logic => Because::NewLogic,
        Cause::Deleted | Cause::SpecChanged | Cause::Unchanged => Because::Inputs,
    };
    let is_asked = is_asked || word == Word::Allowed;
    let held = parents.hold(guard, snapshot, (is_asked, because), created_since, &deletions);
    let stop = match word {
        Word::Delete | Word::Allowed => held.map(Stop::AtParent),
        Word::PutOff => Some(Stop::PutOff),
        Word::Held(held) => Some(Stop::AtPlugin(held)),
    };
    if stop.is_some() {
        plan.prunes.clear();
        if is_by_logic {
            plan.writes.retain(|write| !matches!(write, Write::Replace(_)));
        }
    }
    stop
}

/// Whether a child is older than this, by the API server's clock; its clock and the host's may differ a little.
fn existed(child: &Object, since: Timestamp) -> bool {
    let meta = child.field("metadata").and_then(|raw| json::parse(raw.get().as_bytes(), JSON_DEPTH).ok());
    let created = meta.as_ref().and_then(Value::as_object).and_then(|meta| meta.get("creationTimestamp")?.as_str());
    let created = created.and_then(|text| text.parse::<Timestamp>().ok());
    created.is_some_and(|created| created.as_second().saturating_add(CLOCK_SKEW) < since.as_second())
}

/// What a plan deletes; with what it deletes to make it anew.
fn deletions(plan: &Plan, with_replaced: bool) -> Cow<'_, [Delete]> {
    let replaced = plan.writes.iter().filter_map(|write| match write {
        Write::Replace(delete) if with_replaced => Some(delete.clone()),
        Write::Replace(_) | Write::Create(_) | Write::Apply { .. } => None,
    });
    let mut replaced = replaced.peekable();
    if replaced.peek().is_none() {
        return Cow::Borrowed(&plan.prunes);
    }
    plan.prunes.iter().cloned().chain(replaced).collect()
}

/// What blocks deletions of its own, as a parent's status says.
fn said_held(parent: &Object) -> Option<Because> {
    let text = |condition: &Map, field: &str| condition.get(field).and_then(Value::as_str).map(str::to_owned);
    let status = observed(parent);
    let ready = conditions_of(&status).find(|condition| type_of(condition) == Some(parent_condition::READY))?;
    text(ready, "reason").filter(|reason| reason == parent_reason::DELETION_BLOCKED)?;
    let message = text(ready, "message")?;
    if message.starts_with(BLOCKED_BEFORE) {
        return Some(Because::Inputs);
    }
    let said = message.strip_prefix(BLOCKED)?;
    Because::ALL.into_iter().find(|because| said.contains(because.as_str())).or(Some(Because::Inputs))
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
