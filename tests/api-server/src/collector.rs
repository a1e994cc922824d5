//! What Kubernetes' controllers do with objects by themselves: collect garbage, and empty namespaces that are being deleted.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::{ApiServer, Id};

/// One step of a controller.
enum Step {
    Delete(Id),
    /// Takes the references to owners that do not exist off an object.
    Detach(Id, BTreeSet<String>),
    /// Takes a finalizer of the garbage collector off an owner.
    Finish(Id, &'static str),
    /// Removes an empty namespace.
    Close(Id),
}

fn uid(object: &Value) -> &str {
    object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default()
}

fn owners(object: &Value) -> Vec<&str> {
    let references = object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    references.filter_map(|one| one.get("uid")?.as_str()).collect()
}

fn is_deleting(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

fn waits_for(object: &Value, finalizer: &str) -> bool {
    let list = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    is_deleting(object) && list.is_some_and(|list| list.contains(&finalizer.into()))
}

impl ApiServer {
    /// Takes the next step of the garbage collector or of the namespace controller. Returns false if there is none.
    pub fn collect(&mut self, now: Timestamp) -> bool {
        let Some(step) = self.next_step() else { return false };
        match step {
            Step::Delete(id) => self.remove(&id, now),
            Step::Detach(id, gone) => self.amend(&id, now, |object| {
                if let Some(list) = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut) {
                    list.retain(|one| one.get("uid").and_then(Value::as_str).is_none_or(|uid| !gone.contains(uid)));
                }
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

    fn next_step(&self) -> Option<Step> {
        let exists: BTreeSet<_> = self.objects.values().map(|object| uid(object)).collect();
        self.objects.iter().find_map(|(id, object)| {
            let owned = owners(object);
            if !owned.is_empty() && owned.iter().all(|owner| !exists.contains(owner)) {
                return (!is_deleting(object)).then(|| Step::Delete(id.clone()));
            }
            if waits_for(object, "orphan") {
                let of_it = self.objects.iter().find(|(_, other)| owners(other).contains(&uid(object)));
                return Some(match of_it {
                    Some((child, _)) => Step::Detach(child.clone(), BTreeSet::from([uid(object).to_owned()])),
                    None => Step::Finish(id.clone(), "orphan"),
                });
            }
            if waits_for(object, "foregroundDeletion") {
                let mut of_it =
                    self.objects.iter().filter(|(_, other)| owners(other).contains(&uid(object))).peekable();
                if of_it.peek().is_none() {
                    return Some(Step::Finish(id.clone(), "foregroundDeletion"));
                }
                return of_it.find(|(_, child)| !is_deleting(child)).map(|(child, _)| Step::Delete(child.clone()));
            }
            if id.resource == "namespaces" && is_deleting(object) {
                let mut inside = self.objects.iter().filter(|(other, _)| other.namespace == id.name).peekable();
                if inside.peek().is_none() {
                    return Some(Step::Close(id.clone()));
                }
                return inside.find(|(_, child)| !is_deleting(child)).map(|(child, _)| Step::Delete(child.clone()));
            }
            None
        })
    }
}
