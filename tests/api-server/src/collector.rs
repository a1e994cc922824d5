//! What Kubernetes' controllers do with objects by themselves: collect garbage, and empty namespaces that are being deleted.
//!
//! As the real garbage collector, it follows the changes, and attempts to delete an object when one of them concerns it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::{ApiServer, Change, Id, Served, target};

/// The finalizer of an owner whose dependents lose their reference to it first.
pub(super) const ORPHAN: &str = "orphan";
/// The finalizer of an owner whose dependents are deleted first.
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// How far the garbage collector is.
#[derive(Debug, Clone, Default)]
pub(super) struct Collector {
    /// The next change in the log.
    next: usize,
    /// Objects that it attempts to delete, or whose owners wait.
    attempts: VecDeque<Id>,
}

/// One step of a controller.
enum Step {
    Delete(Id, &'static str),
    /// Lets an object no longer block the deletion of its owners: a dependent waits for it in turn. The deletion of the object then needs
    /// another attempt, because its version has changed.
    Unblock(Id),
    /// Takes the references to these owners off an object.
    Detach(Id, BTreeSet<String>),
    /// Takes a finalizer of the garbage collector off an owner.
    Finish(Id, &'static str),
    /// Removes an empty namespace.
    Close(Id),
}

/// A reference to an owner.
#[derive(Debug, PartialEq)]
struct Reference<'a> {
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
    uid: &'a str,
    blocks: bool,
}

/// What becomes of an owner.
#[derive(PartialEq)]
enum Owner {
    /// Not the object of the reference, or none.
    Absent,
    /// Waits until its dependents are deleted.
    Waiting,
    /// Stays.
    Solid,
}

fn uid(object: &Value) -> &str {
    object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default()
}

fn references(object: &Value) -> Vec<Reference<'_>> {
    let list = object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    let read = |one| {
        let text = |field| Value::get(one, field).and_then(Value::as_str).unwrap_or_default();
        Reference {
            api_version: text("apiVersion"),
            kind: text("kind"),
            name: text("name"),
            uid: text("uid"),
            blocks: one.get("blockOwnerDeletion") == Some(&Value::Bool(true)),
        }
    };
    list.map(read).collect()
}

fn is_deleting(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

fn has_finalizer(object: &Value, at: &str, finalizer: &str) -> bool {
    object.pointer(at).and_then(Value::as_array).is_some_and(|list| list.contains(&finalizer.into()))
}

fn waits_for(object: &Value, finalizer: &str) -> bool {
    is_deleting(object) && has_finalizer(object, "/metadata/finalizers", finalizer)
}

/// Changes the references of an object, and leaves no empty list.
fn change_references(object: &mut Value, change: impl FnOnce(&mut Vec<Value>)) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(list) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) else { return };
    change(list);
    if list.is_empty() {
        metadata.remove("ownerReferences");
    }
}

impl ApiServer {
    /// Takes the next step of the garbage collector or of the namespace controller. Returns false if there is none.
    ///
    /// The garbage collector has many workers, and what becomes of an object may depend on their order: `pick` returns what comes next, a
    /// number below the one that it gets.
    pub fn collect(&mut self, now: Timestamp, pick: impl FnMut(usize) -> usize) -> bool {
        let Some(step) = self.next_step(pick) else { return false };
        match step {
            Step::Delete(id, policy) => self.remove(&id, policy, now),
            Step::Unblock(id) => self.amend(&id, now, |object| {
                change_references(object, |list| list.iter_mut().for_each(unblock));
            }),
            Step::Detach(id, owners) => self.amend(&id, now, |object| {
                let is_of =
                    |one: &Value| one.get("uid").and_then(Value::as_str).is_some_and(|uid| owners.contains(uid));
                change_references(object, |list| list.retain(|one| !is_of(one)));
            }),
            Step::Finish(id, finalizer) => self.amend(&id, now, |object| {
                if let Some(list) = object.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) {
                    list.retain(|one| one != finalizer);
                }
            }),
            Step::Close(id) => self.close(&id, now),
        }
        true
    }

    fn next_step(&mut self, mut pick: impl FnMut(usize) -> usize) -> Option<Step> {
        loop {
            let change = self.log.get(self.collector.next).cloned();
            let left = self.left_in_namespaces();
            let attempts = self.collector.attempts.len();
            let changes = usize::from(change.is_some());
            let choices = attempts + changes + left.len();
            let picked = if choices > 1 { pick(choices) } else { 0 };
            if let Some(id) = self.collector.attempts.remove(picked) {
                let step = self.attempt(&id);
                if step.is_some() {
                    return step;
                }
            } else if let Some(change) = change.filter(|_| picked == attempts) {
                self.collector.next += 1;
                self.follow(&change);
            } else {
                return left.into_iter().nth(picked - attempts - changes);
            }
        }
    }

    /// Notes which objects a change concerns.
    fn follow(&mut self, change: &Change) {
        let had = change.before.as_deref().map(references).unwrap_or_default();
        let Some(after) = &change.after else {
            let gone = change.before.as_deref().map(uid).unwrap_or_default();
            self.look_at_dependents(gone);
            self.look_at_owners(&had, |owner| waits_for(owner, FOREGROUND));
            return;
        };
        let begins = |finalizer| {
            waits_for(after, finalizer) && !change.before.as_ref().is_some_and(|before| waits_for(before, finalizer))
        };
        if begins(FOREGROUND) {
            self.look_at_dependents(uid(after));
        }
        if begins(FOREGROUND) || begins(ORPHAN) {
            self.collector.attempts.push_back(change.id.clone());
        }
        let has = references(after);
        let blocks = |one: &Reference<'_>| one.blocks && has.iter().any(|other| other.uid == one.uid && other.blocks);
        let unblocked: Vec<_> = had.iter().filter(|one| one.blocks && !blocks(one)).collect();
        self.look_at_owners(unblocked, |_| true);
        let is_new = |one: &&Reference<'_>| !had.iter().any(|other| other.uid == one.uid);
        if has.iter().filter(is_new).any(|one| self.owner(&change.id, one) == Some(Owner::Absent)) {
            self.collector.attempts.push_back(change.id.clone());
        }
    }

    fn look_at_dependents(&mut self, owner: &str) {
        let dependents: Vec<_> = self.dependents(owner).map(|(id, _)| id.clone()).collect();
        self.collector.attempts.extend(dependents);
    }

    fn look_at_owners<'a>(
        &mut self,
        references: impl IntoIterator<Item = &'a Reference<'a>>,
        concerns: impl Fn(&Value) -> bool,
    ) {
        for reference in references {
            let is_it = |object: &Value| uid(object) == reference.uid && concerns(object);
            let owner = self.objects.iter().find(|(_, object)| is_it(object));
            self.collector.attempts.extend(owner.map(|(id, _)| id.clone()));
        }
    }

    /// The objects with a reference to the owner of this uid.
    fn dependents<'a>(&'a self, owner: &'a str) -> impl Iterator<Item = (&'a Id, &'a Arc<Value>)> {
        self.objects.iter().filter(move |(_, object)| references(object).iter().any(|one| one.uid == owner))
    }

    /// What to do with an object that was looked at.
    fn attempt(&mut self, id: &Id) -> Option<Step> {
        let object = self.objects.get(id)?.clone();
        if waits_for(&object, ORPHAN) {
            return Some(self.orphan(id, &object));
        }
        if waits_for(&object, FOREGROUND) {
            return self.finish_foreground(id, &object);
        }
        if is_deleting(&object) {
            return None;
        }
        let owners: Option<Vec<_>> =
            references(&object).iter().map(|one| Some((one.uid, self.owner(id, one)?))).collect();
        let owners = owners.filter(|owners| !owners.is_empty())?;
        if owners.iter().any(|(_, owner)| *owner == Owner::Solid) {
            let others = owners.iter().filter(|(_, owner)| *owner != Owner::Solid);
            let others: BTreeSet<_> = others.map(|(uid, _)| (*uid).to_owned()).collect();
            return (!others.is_empty()).then(|| Step::Detach(id.clone(), others));
        }
        let dependents: Vec<_> = self.dependents(uid(&object)).map(|(_, dependent)| dependent.clone()).collect();
        if !dependents.is_empty() && owners.iter().any(|(_, owner)| *owner == Owner::Waiting) {
            let is_circle = dependents.iter().any(|dependent| waits_for(dependent, FOREGROUND));
            if is_circle && references(&object).iter().any(|one| one.blocks) {
                self.collector.attempts.push_back(id.clone());
                return Some(Step::Unblock(id.clone()));
            }
            return Some(Step::Delete(id.clone(), "Foreground"));
        }
        let has = |finalizer| has_finalizer(&object, "/metadata/finalizers", finalizer);
        let policy = match () {
            () if has(ORPHAN) => "Orphan",
            () if has(FOREGROUND) => "Foreground",
            () => "Background",
        };
        Some(Step::Delete(id.clone(), policy))
    }

    /// Takes the references of its dependents to an owner away, one by one, and then the finalizer.
    fn orphan(&mut self, id: &Id, owner: &Value) -> Step {
        let dependent = self.dependents(uid(owner)).next().map(|(dependent, _)| dependent.clone());
        let Some(dependent) = dependent else { return Step::Finish(id.clone(), ORPHAN) };
        self.collector.attempts.push_front(id.clone());
        Step::Detach(dependent, BTreeSet::from([uid(owner).to_owned()]))
    }

    /// Takes the finalizer off an owner whose deletion no dependent blocks.
    fn finish_foreground(&mut self, id: &Id, owner: &Value) -> Option<Step> {
        let blocks = |one: &Reference<'_>| one.uid == uid(owner) && one.blocks;
        let mut blocking =
            self.dependents(uid(owner)).filter(|(_, object)| references(object).iter().any(blocks)).peekable();
        if blocking.peek().is_none() {
            return Some(Step::Finish(id.clone(), FOREGROUND));
        }
        let next: Vec<_> =
            blocking.filter(|(_, object)| !waits_for(object, FOREGROUND)).map(|(id, _)| id.clone()).collect();
        self.collector.attempts.extend(next);
        None
    }

    /// What becomes of an owner of an object. None if the reference can have none: of a kind that is not served, or from a cluster-scoped
    /// object to a namespaced one.
    fn owner(&self, dependent: &Id, reference: &Reference<'_>) -> Option<Owner> {
        let is_of = |kind: &&Served| kind.kind == reference.kind && kind.api_version() == reference.api_version;
        let kind = self.kinds.iter().find(is_of)?;
        if kind.namespaced && dependent.namespace.is_empty() {
            return None;
        }
        let namespace = if kind.namespaced { &*dependent.namespace } else { "" };
        let id = Id::new(&target::resource(&kind.plural, &kind.group), namespace, reference.name);
        let owner = self.objects.get(&id).filter(|owner| uid(owner) == reference.uid);
        Some(
            owner.map_or(
                Owner::Absent,
                |owner| if waits_for(owner, FOREGROUND) { Owner::Waiting } else { Owner::Solid },
            ),
        )
    }

    /// What the namespace controller has to do: it deletes what is in namespaces that are being deleted, in the background, and then lets
    /// them go.
    fn left_in_namespaces(&self) -> Vec<Step> {
        let namespaces = self.objects_of("namespaces").filter(|(_, object)| is_deleting(object));
        let open = namespaces.filter(|(_, object)| has_finalizer(object, "/spec/finalizers", "kubernetes"));
        open.flat_map(|(namespace, _)| {
            let inside: Vec<_> = self.objects.iter().filter(|(id, _)| id.namespace == namespace.name).collect();
            if inside.is_empty() {
                return vec![Step::Close(namespace.clone())];
            }
            let is_left =
                |object: &Value| !is_deleting(object) || waits_for(object, ORPHAN) || waits_for(object, FOREGROUND);
            let left = inside.into_iter().filter(|(_, object)| is_left(object));
            left.map(|(id, _)| Step::Delete(id.clone(), "Background")).collect()
        })
        .collect()
    }
}

fn unblock(reference: &mut Value) {
    if let Some(fields) = reference.as_object_mut() {
        fields.insert("blockOwnerDeletion".to_owned(), false.into());
    }
}
