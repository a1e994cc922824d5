//! What a preview of one parent has changed so far: the next dry run cannot build on it, so it is kept here.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;
use windlass_core::contract::desired::{Desired, DesiredChild};
use windlass_core::contract::snapshot::Snapshot;
use windlass_core::object::Object;
use windlass_core::object::child::ChildId;
use windlass_core::object::managed::Ownership;
use windlass_core::object::reason::ParentReason;
use windlass_core::reconcile::outcome::{Progress, WriteProblem, name_is_taken};
use windlass_core::reconcile::plan::{Plan, Write};
use windlass_core::reconcile::world::Ended;
use windlass_core::value::ids::{GroupKind, ObjectKey, Uid};
use windlass_engine::telemetry::one_line;

use super::super::offline::complete;
use super::preview::{Pair, Verb};

/// A live child, and what is desired in its place.
pub type Pending = (Arc<Object>, Arc<DesiredChild>);
/// Where an object is, regardless of the version of its kind.
type Place = (GroupKind, ObjectKey);

/// What was changed, and what was told of it.
pub struct Seen {
    /// The parent, as the next reconcile sees it.
    pub parent: Arc<Object>,
    /// The parent after the changes; none if it does not change.
    pub parent_after: Option<Value>,
    /// The changed children.
    changed: HashMap<Place, Changed>,
    /// Children that cannot be previewed. What follows is previewed as if they could.
    failed: Vec<(ChildId, WriteProblem)>,
    /// Notes for the user.
    notes: Vec<String>,
    /// What else could not be previewed.
    errors: Vec<String>,
    /// The last plan that was made; none if no reconcile came so far.
    planned: Option<Planned>,
    /// How the last reconcile ended.
    last: Last,
}

/// How the last reconcile ended.
#[derive(Default)]
struct Last {
    /// Whether it made a plan.
    is_planned: bool,
    /// Whether it came further than the one before.
    is_further: bool,
    /// Whether it failed before a plan.
    is_stuck: bool,
    deletions: Deletions,
    /// What the parent waits for.
    note: Option<String>,
}

/// What became of the deletions of a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Deletions {
    /// They were carried out, as far as writes did not fail.
    #[default]
    Done,
    /// They wait until all parents were previewed.
    PutOff,
    /// They wait until a user allows them.
    Blocked,
}

/// A child that was changed.
pub struct Changed {
    id: ChildId,
    pub verb: Verb,
    /// The live object; none if it does not exist.
    pub before: Option<Arc<Object>>,
    /// The object as the API server would store it; none if it is deleted.
    after: Option<Value>,
    /// The same, as the next reconcile sees it.
    seen: Option<Arc<Object>>,
    /// The hash of what was desired then. Dry runs lead to other managedFields than the host's writes, so the next plan may have the same
    /// write again.
    desired: Option<String>,
}

/// How managedFields would change before an apply.
#[derive(Clone, Default)]
pub struct Preparation {
    /// What the host's entry would own, if that changes.
    pub entry: Option<Ownership>,
    /// What entries of other managers would own, of those that change.
    pub taken: Vec<Ownership>,
}

/// A plan, before the deletion guard.
struct Planned {
    snapshot: Snapshot,
    /// The desired children, in their order.
    desired: Vec<Arc<DesiredChild>>,
    /// The children that are deleted, some of them to be recreated.
    deletions: Vec<(Arc<Object>, Verb)>,
    /// The children that change once the children before them are ready.
    rolling: Vec<ChildId>,
    /// The children that are created or change once those of lower stages are ready.
    staged: Vec<ChildId>,
}

/// What the host does later.
#[derive(Default)]
pub struct Later {
    /// The children that the guard keeps from being recreated, each with the desired one.
    pub blocked: Vec<Pending>,
    /// The children that change once others are ready, each with the desired one.
    pub changes: Vec<Pending>,
    /// The children that are created once others are ready.
    pub creates: Vec<Arc<DesiredChild>>,
    /// The children that are deleted once others are ready.
    pub deletes: Vec<Arc<Object>>,
}

fn place(id: &ChildId) -> Place {
    (id.kind.group_kind(), id.key.clone())
}

impl Seen {
    /// Nothing is changed yet.
    pub fn new(parent: Arc<Object>) -> Self {
        Self {
            parent,
            parent_after: None,
            changed: HashMap::new(),
            failed: Vec::new(),
            notes: Vec::new(),
            errors: Vec::new(),
            planned: None,
            last: Last::default(),
        }
    }

    /// The objects that the next reconcile sees of these children. One that is being deleted is seen as gone.
    pub fn children(&self, live: Vec<Arc<Object>>) -> Vec<Arc<Object>> {
        let is_as_it_was = |child: &Arc<Object>| !child.deleting && self.changed(&ChildId::of(child)).is_none();
        let changed = self.changed.values().filter_map(|changed| changed.seen.clone());
        live.into_iter().filter(is_as_it_was).chain(changed).collect()
    }

    /// What was changed of a child.
    pub fn changed(&self, child: &ChildId) -> Option<&Changed> {
        self.changed.get(&place(child))
    }

    /// Whether a child that this one replaces was deleted.
    pub fn made_room_for(&self, child: &DesiredChild) -> bool {
        self.changed.values().any(|changed| changed.verb == Verb::Delete && child.replaces(&changed.id))
    }

    /// Whether a child was created, whose kind has a plural that this returns.
    pub fn has_created<'a>(&self, name: &str, is_kind: impl Fn(&ChildId) -> bool + 'a) -> bool {
        let is_it = |one: &Changed| one.verb == Verb::Create && *one.id.key.name == *name && is_kind(&one.id);
        self.changed.values().any(is_it)
    }

    /// Whether a child cannot be previewed.
    pub fn has_failed(&self, child: &ChildId) -> bool {
        self.failed.iter().any(|(failed, _)| failed == child)
    }

    /// A child after a former write of the same desired one.
    pub fn written(&self, child: &DesiredChild) -> Option<&Value> {
        self.changed(&child.id()).filter(|changed| changed.desired.as_ref() == Some(&child.applied))?.after.as_ref()
    }

    /// Records a child as the API server would store it. `live` is the object that exists, `desired` what was written; none if the object was
    /// only marked.
    pub fn change(
        &mut self,
        id: &ChildId,
        verb: Verb,
        live: Option<Arc<Object>>,
        (after, desired): (Value, Option<&str>),
    ) {
        let mut stored = after.clone();
        complete(&mut stored, &format!("uid of {id}"), None);
        // A response that is no object is shown, and changes nothing.
        let mut seen = Object::from_api(&id.kind, &stored.to_string()).ok();
        if let (Some(seen), Some(live), None) = (&mut seen, &live, desired) {
            // A mark changes no owner of a field, and the JSON of a live object lacks managedFields.
            seen.managed = live.managed.clone();
        }
        let seen = seen.map(Arc::new);
        let former = self.changed.remove(&place(id));
        self.last.is_further |= former.as_ref().and_then(|former| former.after.as_ref()) != Some(&after);
        let (verb, before) = match former {
            Some(Changed { verb: Verb::Delete, before, .. }) => (Verb::Recreate, before),
            Some(former) => (former.verb, former.before),
            None => (verb, live),
        };
        let (id, after, desired) = (id.clone(), Some(after), desired.map(str::to_owned));
        self.changed.insert(place(&id), Changed { id, verb, before, after, seen, desired });
    }

    /// Records that a child is deleted.
    pub fn delete(&mut self, id: &ChildId, live: Option<Arc<Object>>) {
        self.last.is_further = true;
        let before = self.changed.remove(&place(id)).map_or(live, |former| former.before);
        if before.is_some() {
            self.show(id.clone(), Verb::Delete, before, None);
        }
    }

    /// Records a change of a child that the next reconcile does not see.
    pub fn show(&mut self, id: ChildId, verb: Verb, before: Option<Arc<Object>>, after: Option<Value>) {
        let changed = Changed { verb, before, after, seen: None, desired: None, id };
        self.changed.insert(place(&changed.id), changed);
    }

    /// Records the parent as the next reconcile sees it, although a write of it was refused.
    pub fn replace_parent(&mut self, parent: Arc<Object>) {
        self.last.is_further = true;
        self.parent = parent;
    }

    /// Records the parent after a write.
    pub fn change_parent(&mut self, parent: Arc<Object>, after: Value) {
        self.last.is_further |= self.parent_after.as_ref() != Some(&after);
        (self.parent, self.parent_after) = (parent, Some(after));
    }

    /// Records a note, once.
    pub fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Begins a reconcile.
    pub fn begin(&mut self) {
        self.last = Last::default();
    }

    /// Records a plan, before the deletion guard.
    pub fn plan(&mut self, snapshot: &Snapshot, desired: &Desired, plan: &Plan) {
        let replaced = plan.writes.iter().filter_map(|write| match write {
            Write::Replace(delete) => Some((delete, Verb::Recreate)),
            Write::Create(_) | Write::Apply { .. } => None,
        });
        let deletions = replaced.chain(plan.prunes.iter().map(|delete| (delete, Verb::Delete)));
        let object = |uid: &Uid| snapshot.children.iter().find(|live| live.uid == *uid).cloned();
        let deletions = deletions.filter_map(|(delete, verb)| Some((object(&delete.uid)?, verb))).collect();
        let (desired, rolling) = (desired.children.clone(), plan.rolling.clone());
        let staged = plan.staged.iter().flat_map(|staged| staged.waiting.clone()).collect();
        self.planned = Some(Planned { snapshot: snapshot.clone(), desired, deletions, rolling, staged });
        self.last.is_planned = true;
        if plan.staged.is_some() {
            self.note("children of a higher stage are changed once those of the lower stages are ready".to_owned());
        }
        for child in &plan.when_deleted {
            let why = "it differs, and is changed only once a user deletes it (update strategy on-delete)";
            self.note(format!("{child}: {why}"));
        }
    }

    /// Records the end of a reconcile. With `is_told`, its message is told in another way.
    pub fn end(&mut self, ended: &Ended<'_>, is_told: bool) {
        let problems = ended.applied.map(|applied| &*applied.problems).unwrap_or_default();
        for (child, problem) in problems {
            self.fail(child, problem.clone());
        }
        for (child, kept) in ended.applied.map(|applied| &*applied.kept).unwrap_or_default() {
            if let Some(message) = &kept.refused {
                let why =
                    "its live values differ from the desired ones and stay, because the API server rejects the change";
                self.note(format!("{child}: {why}: {}", one_line(message)));
            }
        }
        let is_stuck = matches!(ended.progress, Some(Progress::Reconciling | Progress::Stalled));
        let is_of_deletions = ended.outcome == ParentReason::DeletionBlocked.as_str();
        self.last.deletions = match (is_of_deletions, ended.failure.is_some()) {
            (false, _) => Deletions::Done,
            (true, false) => Deletions::PutOff,
            (true, true) => Deletions::Blocked,
        };
        if is_stuck && problems.is_empty() && self.last.deletions != Deletions::PutOff {
            if self.last.is_planned {
                self.last.note = (!is_told).then(|| ended.message.to_owned());
            } else {
                self.error(one_line(ended.message).into_owned());
            }
        }
    }

    /// Records that a child cannot be previewed.
    pub fn fail(&mut self, child: &ChildId, problem: WriteProblem) {
        if !self.has_failed(child) {
            self.failed.push((child.clone(), problem));
            self.last.is_further = true;
        }
    }

    /// Records why a reconcile comes to no plan, or to no end.
    pub fn error(&mut self, error: String) {
        // The message of the problem follows what the world has said of it.
        if !std::mem::replace(&mut self.last.is_stuck, true) {
            self.errors.push(error);
        }
    }

    /// Records that the parent itself cannot be previewed.
    pub fn fail_parent(&mut self, problem: &WriteProblem) {
        let error = format!("the parent itself: {}", one_line(&reason(problem)));
        if !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    /// Whether another reconcile may come further.
    pub fn goes_on(&self) -> bool {
        self.last.is_further && !self.last.is_stuck
    }

    /// Whether a reconcile made a plan.
    pub fn is_planned(&self) -> bool {
        self.planned.is_some()
    }

    /// Whether deletions wait until all parents were previewed.
    pub fn is_put_off(&self) -> bool {
        self.last.deletions == Deletions::PutOff
    }

    /// Whether writes of the status are what the host would write: not after a write that failed.
    pub fn has_status(&self) -> bool {
        self.failed.is_empty()
    }

    /// What the host does later.
    pub fn later(&self) -> Later {
        let Some(planned) = &self.planned else { return Later::default() };
        let desired = |at: &Place| planned.desired.iter().find(|child| place(&child.id()) == *at);
        let pending = |live: &Arc<Object>| {
            let at = place(&ChildId::of(live));
            let child = desired(&at)?;
            (!self.changed.contains_key(&at)).then(|| (live.clone(), child.clone()))
        };
        let recreated = planned.deletions.iter().filter(|(_, verb)| *verb == Verb::Recreate).map(|(live, _)| live);
        let is_blocked = self.last.deletions == Deletions::Blocked;
        let existing = &planned.snapshot.children;
        let waits = |live: &&Arc<Object>| {
            [&planned.rolling, &planned.staged].iter().any(|all| all.contains(&ChildId::of(live)))
        };
        let is_missing = |at: &Place| !existing.iter().any(|live| place(&ChildId::of(live)) == *at);
        let missing = planned.staged.iter().map(place).filter(is_missing);
        // Without a wait, what is still there stays because of a failure, which is told.
        let are_later = self.last.deletions == Deletions::Done
            && self.failed.is_empty()
            && !(planned.rolling.is_empty() && planned.staged.is_empty());
        let is_there = |live: &&Arc<Object>| !self.changed.contains_key(&place(&ChildId::of(live)));
        let pruned = planned.deletions.iter().filter(|(_, verb)| are_later && *verb == Verb::Delete);
        Later {
            blocked: recreated.filter(|_| is_blocked).filter_map(pending).collect(),
            changes: existing.iter().filter(waits).filter_map(pending).collect(),
            creates: missing.filter_map(|at| desired(&at).cloned()).collect(),
            deletes: pruned.map(|(live, _)| live).filter(is_there).cloned().collect(),
        }
    }

    /// What the last plan is based on.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.planned.as_ref().map(|planned| &planned.snapshot)
    }

    /// The objects that may differ, in the order of the desired children and then of the deletions, with the notes and errors.
    pub fn into_parts(mut self, parent: &Arc<Object>) -> (Vec<Pair>, Vec<String>, Vec<String>) {
        let planned = self.planned.take();
        let deletions = planned.iter().flat_map(|planned| &planned.deletions);
        let are_blocked = self.last.deletions == Deletions::Blocked;
        for (live, verb) in deletions.filter(|_| are_blocked) {
            let (id, before) = (ChildId::of(live), Some(live.clone()));
            if *verb == Verb::Delete && self.changed(&id).is_none() {
                self.show(id, Verb::Blocked, before, None);
            }
        }
        // A child that could not be recreated is not shown as deleted.
        let failed: HashSet<_> = self.failed.iter().map(|(child, _)| place(child)).collect();
        self.changed.retain(|at, changed| changed.verb != Verb::Delete || !failed.contains(at));
        let mut changed = self.changed;
        let desired = planned.iter().flat_map(|planned| &planned.desired);
        let mut ordered: Vec<_> = desired.filter_map(|child| changed.remove(&place(&child.id()))).collect();
        let mut rest: Vec<_> = changed.into_values().collect();
        rest.sort_by(|one, other| (&one.id.kind, &one.id.key).cmp(&(&other.id.kind, &other.id.key)));
        ordered.append(&mut rest);
        let pair = |Changed { id, verb, before, after, .. }| Pair {
            id,
            verb,
            before: before.map(|before| value_of(&before)),
            after,
        };
        let mut pairs: Vec<_> = ordered.into_iter().map(pair).collect();
        if let Some(after) = self.parent_after {
            let (id, before) = (ChildId::of(parent), Some(value_of(parent)));
            pairs.push(Pair { verb: Verb::Parent, id, before, after: Some(after) });
        }
        let failed = self.failed.iter().map(|(child, problem)| format!("{child}: {}", one_line(&reason(problem))));
        let errors = self.errors.into_iter().chain(failed).collect();
        (pairs, self.notes.into_iter().chain(self.last.note).collect(), errors)
    }
}

impl Changed {
    /// Whether it is the live object but for marks, with the same managedFields.
    pub fn is_marked_alone(&self) -> bool {
        self.verb == Verb::Adopt && self.desired.is_none()
    }

    /// Whether a live object is deleted, perhaps to be recreated.
    pub fn is_recreated(&self) -> bool {
        matches!(self.verb, Verb::Recreate | Verb::Delete)
    }
}

/// The JSON of an object.
pub fn value_of(object: &Object) -> Value {
    // The API server's bytes are JSON.
    serde_json::from_slice(&object.json.bytes()).unwrap_or_default()
}

/// Why a child cannot be previewed, for the user of the command.
fn reason(problem: &WriteProblem) -> String {
    match problem {
        WriteProblem::Taken(owner) => name_is_taken(owner.as_deref()),
        WriteProblem::FieldConflict(conflicts) => format!(
            "other field managers own fields that the plugin sets: {}; remove the fields from one of the two",
            conflicts.join(", ")
        ),
        WriteProblem::CacheBehind | WriteProblem::Outdated => {
            "it changed while this command ran; run the command again".to_owned()
        }
        WriteProblem::NamespaceTerminating => "its namespace is being deleted".to_owned(),
        WriteProblem::Rejected { message, .. } | WriteProblem::Unavailable { message, .. } => message.clone(),
    }
}
