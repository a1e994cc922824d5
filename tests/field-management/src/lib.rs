//! The API server's field management as pure functions: server-side apply and `metadata.managedFields` (KEP 555).
//!
//! The caller is a model of the rest of the API server. It validates, sets defaults, and assigns uids, resource versions,
//! generations and times. An object that is unchanged after a write is equal to the object before, entries included: its resource
//! version must not move.
//!
//! Left out:
//! - conversion between the versions of a kind: all entries are read by one shape;
//! - the `scale` subresource;
//! - a manager named `kubectl` on an object with the annotation of client-side apply;
//! - optional scalars of built-in kinds that Go omits if they are zero (`paused: false`), and fields that a strategy rewrites
//!   (`serviceAccount`, the namespaces in the secrets of a `ServiceAccount`);
//! - empty labels, annotations, finalizers and owners that an apply stores with an object of a custom kind: the next write moves the
//!   resource version, even if it changes nothing else.

mod defaults;
mod entries;
mod fields;
mod kinds;
mod shape;
mod walk;

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::entries::{Entries, Entry, Identity, Operation};
use crate::fields::{FieldSet, Step};
use crate::walk::Comparison;

pub use defaults::{each, fill, set_defaults};
pub use kinds::shape_of;
pub use shape::{Field, Shape};

/// The manager of the fields that an object has before its first apply, if no manager owns any of them.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Fields that no manager owns.
const NOT_OWNED: [&[&str]; 12] = [
    &["apiVersion"],
    &["kind"],
    &["metadata"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "creationTimestamp"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
    &["metadata", "clusterName"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "resourceVersion"],
];

/// Who writes, and when.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// The field manager; `unknown` if it is empty.
    pub manager: &'a str,
    /// The version of the API that the request uses, as `apps/v1`.
    pub api_version: &'a str,
    /// The subresource that is written, as `status`.
    pub subresource: Option<&'a str>,
    /// The time of the write, RFC 3339 in whole seconds and UTC.
    pub time: &'a str,
}

/// A field that an apply would take from another manager.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// The field's path, as `.spec.ports[port=80,protocol="TCP"].name`.
    pub field: String,
    /// Whose field it is, as `conflict with "helm" using apps/v1`.
    pub message: String,
}

/// Why an apply fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Other managers own fields that the apply would change: 409.
    Conflicts(Vec<Conflict>),
    /// The applied object cannot be merged, as with two items of the same key: 500.
    Invalid(String),
}

/// The message of a response to an apply with conflicts.
pub fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [Conflict { field, message }] = conflicts {
        return format!("Apply failed with 1 conflict: {message}: {field}");
    }
    let mut text = format!("Apply failed with {} conflicts: ", conflicts.len());
    let mut manager = "";
    for Conflict { field, message } in conflicts {
        if manager != message {
            let line = if manager.is_empty() { "" } else { "\n" };
            let _ = write!(text, "{line}{}:", message.replacen("conflict", "conflicts", 1));
            manager = message;
        }
        let _ = write!(text, "\n- {field}");
    }
    text
}

/// The object before a write, without its entries, as the API server has it.
fn base(object: Option<&Value>, shape: &Shape) -> Value {
    let mut base = object.cloned().unwrap_or_else(|| json!({}));
    entries::remove(&mut base);
    shape.round_trip(&mut base);
    base
}

/// Sets `metadata.managedFields` after a create or an update (POST, PUT, merge patch, JSON patch).
///
/// In: the object before, `None` for a create; the object after, with defaults, with the status of the object before unless the
/// status is written, and with what the user wrote as `managedFields`. Out: `after` with its entries.
pub fn update(before: Option<&Value>, after: &mut Value, write: &Write<'_>, shape: &Shape) {
    let is_reset = write.subresource.is_none() && shape.is_reset(after);
    let edited = if write.subresource.is_none() { entries::read(after) } else { None };
    let mut owned = match edited.filter(|edited| !edited.is_empty()) {
        _ if is_reset => Entries::new(),
        Some(edited) => edited,
        None => before.and_then(entries::read).unwrap_or_default(),
    };
    entries::remove(after);
    shape.round_trip(after);
    // An object whose list a user emptied is not tracked again until its next apply.
    if before.is_none() || !owned.is_empty() {
        let identity = Identity::new(write, Operation::Update);
        record(&mut owned, &base(before, shape), after, identity, write, shape);
        entries::cap(&mut owned);
    }
    entries::write(after, &owned);
    if let Some(before) = before {
        keep_times(before, after);
    }
}

/// Gives the fields that an update changes to its manager.
fn record(owned: &mut Entries, before: &Value, after: &Value, identity: Identity, write: &Write<'_>, shape: &Shape) {
    let comparison = compare(before, after, write, shape);
    let taken = comparison.modified.union(&comparison.added);
    // The manager's earlier entry loses the fields, too, and gets them back below, so that its time moves only with a field.
    release(owned, &taken, &comparison.removed);
    let taken = strip(&taken);
    if taken.is_empty() {
        return;
    }
    let earlier = owned.remove(&identity).map(|entry| entry.fields).unwrap_or_default();
    let entry = Entry {
        api_version: write.api_version.to_owned(),
        fields: earlier.union(&taken),
        time: Some(write.time.to_owned()),
    };
    owned.insert(identity, entry);
}

/// The fields that a write changes, without those that it leaves alone.
fn compare(before: &Value, after: &Value, write: &Write<'_>, shape: &Shape) -> Comparison {
    let not_owned = shape.not_owned(write.subresource);
    let Comparison { removed, modified, added } = Comparison::of(before, after, shape.root());
    Comparison {
        removed: removed.without(&not_owned),
        modified: modified.without(&not_owned),
        added: added.without(&not_owned),
    }
}

/// Takes fields from all managers.
fn release(owned: &mut Entries, taken: &FieldSet, removed: &FieldSet) {
    owned.retain(|_, entry| {
        let conflicts = entry.fields.intersection(taken);
        entry.fields = entry.fields.difference(&conflicts).difference(removed);
        !entry.fields.is_empty()
    });
}

fn strip(fields: &FieldSet) -> FieldSet {
    let mut not_owned = FieldSet::default();
    for path in NOT_OWNED {
        not_owned.insert(&path.iter().map(|name| Step::Field((*name).to_owned())).collect::<Vec<_>>());
    }
    fields.difference(&not_owned)
}

/// Restores the times of the entries if nothing else changed, so that the write changes nothing. An entry whose time gave it
/// another place in the list has changed.
fn keep_times(before: &Value, after: &mut Value) {
    let list = "/metadata/managedFields";
    let Some(Value::Array(old)) = before.pointer(list) else { return };
    let rest_is_same = bare(before) == bare(after);
    let Some(Value::Array(new)) = after.pointer_mut(list) else { return };
    let is_same = old.len() == new.len() && old.iter().zip(&*new).all(|(old, new)| timeless(old) == timeless(new));
    if is_same && rest_is_same {
        new.clone_from(old);
    }
}

fn timeless(entry: &Value) -> Value {
    let mut entry = entry.clone();
    if let Value::Object(fields) = &mut entry {
        fields.remove("time");
    }
    entry
}

/// An object without its entries and its resource version.
fn bare(object: &Value) -> Value {
    let mut bare = object.clone();
    entries::remove(&mut bare);
    if let Some(Value::Object(metadata)) = bare.get_mut("metadata") {
        metadata.remove("resourceVersion");
    }
    bare
}

/// Server-side apply to a kind without defaults.
///
/// In: the object as it is, `None` if it does not exist; the applied configuration, without `managedFields` (the API server responds
/// 400 to one that has them). Out: the object after, with its entries; equal to `live` if the apply changes nothing. A status apply
/// changes the status alone, and any other apply leaves the status alone.
///
/// # Errors
/// With the conflicts, ordered by manager, unless the apply is forced; or when the configuration cannot be merged.
pub fn apply(
    live: Option<&Value>,
    applied: &Value,
    write: &Write<'_>,
    force: bool,
    shape: &Shape,
) -> Result<Value, Refusal> {
    apply_with_defaults(live, applied, write, force, shape, |_| {})
}

/// [`apply`] to a kind whose defaults this function sets. The applier does not own the defaults.
///
/// # Errors
/// As [`apply`].
pub fn apply_with_defaults(
    live: Option<&Value>,
    applied: &Value,
    write: &Write<'_>,
    force: bool,
    shape: &Shape,
    set_defaults: impl FnOnce(&mut Value),
) -> Result<Value, Refusal> {
    let problems = walk::problems(applied, shape.root(), "");
    if !problems.is_empty() {
        let problems = if let [problem] = problems.as_slice() {
            problem.clone()
        } else {
            format!("errors:\n  {}", problems.join("\n  "))
        };
        return Err(Refusal::Invalid(format!("failed to create typed patch object: {problems}")));
    }
    let before = base(live, shape);
    let mut owned = live.and_then(entries::read).unwrap_or_default();
    if owned.is_empty() {
        let identity = Identity::new(&Write { manager: BEFORE_FIRST_APPLY, ..*write }, Operation::Update);
        record(&mut owned, &base(None, shape), &before, identity, write, shape);
    }

    let me = Identity::new(write, Operation::Apply);
    let fields = walk::fields_of(applied, shape.root()).without(&shape.not_owned(write.subresource));
    let last = owned.remove(&me);
    let time = last.as_ref().and_then(|last| last.time.clone());
    owned.insert(me.clone(), Entry { api_version: write.api_version.to_owned(), fields, time });
    let merged = walk::merge(Some(&before), Some(applied), shape.root()).unwrap_or_else(|| json!({}));
    let mut after = match &last {
        Some(last) => prune(&merged, &owned, &last.fields, shape),
        None => merged,
    };
    settle(&mut owned, &me, &compare(&before, &after, write, shape), force)?;

    if let Some(entry) = owned.get_mut(&me) {
        if after != before {
            entry.time = Some(write.time.to_owned());
        }
        entry.fields = strip(&entry.fields);
    }
    owned.retain(|_, entry| !entry.fields.is_empty());
    if shape.is_built_in() {
        shape.round_trip(&mut after);
    }
    set_defaults(&mut after);
    shape.keep(&before, &mut after, write.subresource);
    entries::write(&mut after, &owned);
    if let Some(live) = live {
        keep_times(live, &mut after);
    }
    // An object of a custom kind with empty labels differs from one without them, until it is read the next time.
    shape.round_trip(&mut after);
    Ok(after)
}

/// Takes the fields that an apply changes from the other managers, or returns the conflicts.
fn settle(owned: &mut Entries, me: &Identity, changed: &Comparison, force: bool) -> Result<(), Refusal> {
    let taken = changed.modified.union(&changed.added);
    let mut mine = owned.remove(me);
    let conflicts: Vec<_> = owned
        .iter()
        .flat_map(|(identity, entry)| {
            let paths = entry.fields.intersection(&taken).paths();
            paths.into_iter().map(|field| Conflict { field, message: identity.message() })
        })
        .collect();
    if !force && !conflicts.is_empty() {
        return Err(Refusal::Conflicts(conflicts));
    }
    release(owned, &taken, &changed.removed);
    if let Some(mine) = mine.take() {
        owned.insert(me.clone(), mine);
    }
    Ok(())
}

/// Removes what the manager applied last time and does not apply now, unless another manager owns it.
fn prune(merged: &Value, owned: &Entries, last: &FieldSet, shape: &Shape) -> Value {
    let root = shape.root();
    let parents = |fields: &FieldSet| walk::with_parents(fields, root);
    let all = owned.values().fold(FieldSet::default(), |all, entry| all.union(&entry.fields));
    let has = |object: &Value| parents(&walk::fields_of(object, root));

    let merged_has = has(merged);
    let pruned = walk::without(merged, &parents(last), root);
    // An item of a list, or a key of a map, stays if a manager owns one of its fields.
    let pruned = walk::without(merged, &merged_has.difference(&has(&pruned).union(&parents(&all))), root);
    // A field is removed only if this manager owned it, not because the item that contained it is gone.
    walk::without(merged, &merged_has.difference(&has(&pruned)).intersection(&parents(last)), root)
}

#[cfg(test)]
mod tests;
