//! What a preview of one parent has changed so far: the next dry run cannot build on it, so it is kept here.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use windlass_core::contract::desired::{Desired, DesiredChild};
use windlass_core::object::Object;
use windlass_core::object::child::ChildId;
use windlass_core::object::managed::{Ownership, Removal};
use windlass_core::object::reason::ParentReason;
use windlass_core::reconcile::outcome::{Progress, WriteProblem, name_is_taken};
use windlass_core::reconcile::plan::{Plan, Write};
use windlass_core::reconcile::world::Ended;
use windlass_core::value::ids::{GroupKind, ObjectKey, Uid};
use windlass_core::value::json::{Map, Value as CoreValue};
use windlass_engine::telemetry::one_line;

use super::super::offline::complete;
use super::preview::{Pair, Verb};

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
    /// Why nothing more could be previewed.
    pub errors: Vec<String>,
    planned: Option<Planned>,
    is_put_off: bool,
    /// Whether the last reconcile came further than the one before.
    is_further: bool,
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
}

/// How managedFields would change before an apply.
#[derive(Clone, Default)]
pub struct Migration {
    /// How the entry of the host's POST would be gone, and with it the fields that it alone owned.
    pub removal: Option<Removal>,
    /// What the host's Apply entry would own.
    pub entry: Option<Ownership>,
}

/// The last plan, before the deletion guard.
struct Planned {
    /// The desired children, in their order.
    desired: Vec<Arc<DesiredChild>>,
    /// The children that are deleted, some of them to be recreated.
    deletions: Vec<(Arc<Object>, Verb)>,
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
            is_put_off: false,
            is_further: false,
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

    /// Whether a child was created, whose kind has a plural that this returns.
    pub fn has_created<'a>(&self, name: &str, is_kind: impl Fn(&ChildId) -> bool + 'a) -> bool {
        let is_it = |one: &Changed| one.verb == Verb::Create && *one.id.key.name == *name && is_kind(&one.id);
        self.changed.values().any(is_it)
    }

    /// Whether a child cannot be previewed.
    pub fn has_failed(&self, child: &ChildId) -> bool {
        self.failed.iter().any(|(failed, _)| failed == child)
    }

    /// Records a child as the API server would store it. `live` is the object that exists.
    pub fn change(&mut self, id: &ChildId, verb: Verb, live: Option<Arc<Object>>, after: Value) {
        let mut stored = after.clone();
        complete(&mut stored, &format!("uid of {id}"), None);
        // A response that is no object is shown, and changes nothing.
        let seen = Object::from_api(&id.kind, &stored.to_string()).ok().map(Arc::new);
        let former = self.changed.remove(&place(id));
        self.is_further |= former.as_ref().and_then(|former| former.after.as_ref()) != Some(&after);
        let (verb, before) = match former {
            Some(Changed { verb: Verb::Delete, before, .. }) => (Verb::Recreate, before),
            Some(former) => (former.verb, former.before),
            None => (verb, live),
        };
        self.changed.insert(place(id), Changed { id: id.clone(), verb, before, after: Some(after), seen });
    }

    /// Records that a child is deleted.
    pub fn delete(&mut self, id: &ChildId, live: Option<Arc<Object>>) {
        self.is_further = true;
        let before = self.changed.remove(&place(id)).map_or(live, |former| former.before);
        if before.is_some() {
            let deleted = Changed { id: id.clone(), verb: Verb::Delete, before, after: None, seen: None };
            self.changed.insert(place(id), deleted);
        }
    }

    /// Records the parent after a write.
    pub fn change_parent(&mut self, parent: Arc<Object>, after: Value) {
        self.is_further |= self.parent_after.as_ref() != Some(&after);
        (self.parent, self.parent_after) = (parent, Some(after));
    }

    /// Records a note, once.
    pub fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Records a plan, before the deletion guard.
    pub fn plan(&mut self, live: &[Arc<Object>], desired: &Desired, plan: &Plan) {
        let replaced = plan.writes.iter().filter_map(|write| match write {
            Write::Replace(delete) => Some((delete, Verb::Recreate)),
            Write::Create(_) | Write::Apply { .. } => None,
        });
        let deletions = replaced.chain(plan.prunes.iter().map(|delete| (delete, Verb::Delete)));
        let object = |uid: &Uid| live.iter().find(|live| live.uid == *uid).cloned();
        let deletions = deletions.filter_map(|(delete, verb)| Some((object(&delete.uid)?, verb)));
        self.planned = Some(Planned { desired: desired.children.clone(), deletions: deletions.collect() });
        for child in &plan.when_deleted {
            self.note(format!(
                "{child}: it differs, and is changed only once a user deletes it (update strategy on-delete)"
            ));
        }
    }

    /// Records the end of a reconcile.
    pub fn end(&mut self, ended: &Ended<'_>) {
        let is_blocked = ended.outcome == ParentReason::DeletionBlocked.as_str();
        self.is_put_off = is_blocked && ended.failure.is_none();
        let applied = ended.applied.into_iter();
        for (child, problem) in applied.clone().flat_map(|applied| &applied.problems) {
            if !self.has_failed(child) {
                self.failed.push((child.clone(), problem.clone()));
                self.is_further = true;
            }
        }
        for (child, kept) in applied.clone().flat_map(|applied| &applied.kept) {
            if let Some(message) = &kept.refused {
                self.note(format!(
                    "{child}: its live values differ from the desired ones and stay, because the API server rejects the change: {}",
                    one_line(message)
                ));
            }
        }
        let is_stuck = matches!(ended.progress, Some(Progress::Reconciling | Progress::Stalled));
        let has_failed_writes = applied.flat_map(|applied| &applied.problems).next().is_some();
        match (is_stuck && !has_failed_writes && !self.is_put_off, self.planned.is_some()) {
            (true, true) => self.note(ended.message.to_owned()),
            (true, false) => self.errors.push(one_line(ended.message).into_owned()),
            (false, _) => {}
        }
    }

    /// Whether another reconcile may come further.
    pub fn goes_on(&mut self) -> bool {
        std::mem::take(&mut self.is_further) && self.errors.is_empty()
    }

    /// Whether deletions wait until all parents were previewed.
    pub fn is_put_off(&self) -> bool {
        self.is_put_off
    }

    /// Begins again, once all parents were previewed.
    pub fn resume(&mut self) {
        self.is_put_off = false;
    }

    /// Whether writes of the status are what the host would write: not after a write that failed.
    pub fn has_status(&self) -> bool {
        self.failed.is_empty()
    }

    /// The children that the guard keeps from being deleted and recreated, each with the desired one.
    pub fn kept_from_recreation(&self) -> Vec<(Arc<Object>, Arc<DesiredChild>)> {
        let Some(planned) = &self.planned else { return Vec::new() };
        let kept = planned
            .deletions
            .iter()
            .filter(|(live, verb)| *verb == Verb::Recreate && self.changed(&ChildId::of(live)).is_none());
        let with_desired = kept.filter_map(|(live, _)| {
            let at = place(&ChildId::of(live));
            let desired = planned.desired.iter().find(|child| place(&child.id()) == at)?;
            Some((live.clone(), desired.clone()))
        });
        with_desired.collect()
    }

    /// The objects that may differ, in the order of the desired children and then of the deletions, with the notes and errors. Deletions
    /// that were not carried out are blocked.
    pub fn into_parts(mut self, parent: &Arc<Object>) -> (Vec<Pair>, Vec<String>, Vec<String>) {
        let planned = self.planned.take();
        for (live, verb) in planned.iter().flat_map(|planned| &planned.deletions) {
            if *verb == Verb::Delete && self.changed(&ChildId::of(live)).is_none() {
                let blocked = Changed {
                    id: ChildId::of(live),
                    verb: Verb::Blocked,
                    before: Some(live.clone()),
                    after: None,
                    seen: None,
                };
                self.changed.insert(place(&blocked.id), blocked);
            }
        }
        let mut changed = self.changed;
        let desired = planned.iter().flat_map(|planned| &planned.desired);
        let mut ordered: Vec<_> = desired.filter_map(|child| changed.remove(&place(&child.id()))).collect();
        let mut rest: Vec<_> = changed.into_values().collect();
        rest.sort_by(|one, other| (&one.id.kind, &one.id.key).cmp(&(&other.id.kind, &other.id.key)));
        ordered.append(&mut rest);
        let mut pairs: Vec<_> = ordered
            .into_iter()
            .map(|Changed { id, verb, before, after, .. }| Pair {
                id,
                verb,
                before: before.map(|before| value_of(&before)),
                after,
            })
            .collect();
        if let Some(after) = self.parent_after {
            let (id, before) = (ChildId::of(parent), Some(value_of(parent)));
            pairs.push(Pair { verb: Verb::Parent, id, before, after: Some(after) });
        }
        let failed = self.failed.iter().map(|(child, problem)| format!("{child}: {}", one_line(&reason(problem))));
        let errors = self.errors.into_iter().chain(failed).collect();
        (pairs, self.notes, errors)
    }

    /// Records a recreation that the guard does not allow.
    pub fn block_recreation(&mut self, live: Arc<Object>, after: Value) {
        let id = ChildId::of(&live);
        let blocked = Changed { id, verb: Verb::BlockedRecreation, before: Some(live), after: Some(after), seen: None };
        self.changed.insert(place(&blocked.id), blocked);
    }
}

impl Changed {
    /// Whether the object does not exist while the API server decides about a dry run: it was created by one, or is recreated.
    pub fn is_new(&self) -> bool {
        self.before.is_none() || self.verb == Verb::Recreate
    }
}

/// The JSON of an object.
pub fn value_of(object: &Object) -> Value {
    // The API server's bytes are JSON.
    serde_json::from_slice(&object.json.bytes()).unwrap_or_default()
}

/// The JSON of a desired child.
pub fn body_of(child: &DesiredChild) -> Value {
    value(&child.body)
}

/// A value of the core as one of the command line.
pub fn value(map: &Map) -> Value {
    // The writer of values writes valid JSON.
    serde_json::from_str(&CoreValue::Object(map.clone()).to_string()).unwrap_or_default()
}

/// Applies a JSON merge patch (RFC 7396).
pub fn merge(into: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *into = patch;
        return;
    };
    if !into.is_object() {
        *into = Value::Object(serde_json::Map::new());
    }
    let Some(fields) = into.as_object_mut() else { return };
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(&name);
        } else {
            merge(fields.entry(name).or_insert(Value::Null), value);
        }
    }
}

/// Why a child cannot be previewed, for the user of the command.
fn reason(problem: &WriteProblem) -> String {
    match problem {
        WriteProblem::Taken { owner } => name_is_taken(owner.as_deref()),
        WriteProblem::FieldConflict { conflicts } => format!(
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
