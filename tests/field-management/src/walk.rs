//! Walks over objects by their shape: which fields an object has, what differs between two, their merge, and an object without
//! some fields. The API server's library for it is structured-merge-diff.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::fields::{FieldSet, Step};
use crate::shape::{Field, Form};

/// The items of a list with their steps. Items without one are left out: no stored object has any.
fn items<'a>(list: &'a Value, field: &Field) -> Vec<(Step, &'a Value)> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(|item| Some((field.step(item).ok()?, item))).collect()
}

/// The items of a list by their steps; several of the same step are possible in what a user put there.
fn grouped<'a>(list: Option<&'a Value>, field: &Field) -> BTreeMap<Step, Vec<&'a Value>> {
    let mut groups: BTreeMap<Step, Vec<_>> = BTreeMap::new();
    for (step, item) in list.map(|list| items(list, field)).unwrap_or_default() {
        groups.entry(step).or_default().push(item);
    }
    groups
}

/// Whether there is nothing to walk into.
fn is_empty(value: Option<&Value>, form: Form) -> bool {
    match form {
        Form::Object => value.and_then(Value::as_object).is_none_or(Map::is_empty),
        Form::List => value.and_then(Value::as_array).is_none_or(Vec::is_empty),
        Form::Leaf => true,
    }
}

/// How two values are walked: as the one and as the other if they differ.
fn forms(field: &Field, before: Option<&Value>, after: Option<&Value>) -> Vec<Form> {
    let mut forms: Vec<_> = [before, after].into_iter().flatten().map(|value| field.form(value)).collect();
    forms.dedup();
    forms
}

/// The names of the fields of either object.
fn names<'a>(before: Option<&'a Value>, after: Option<&'a Value>) -> BTreeSet<&'a String> {
    [before, after].into_iter().flatten().filter_map(Value::as_object).flat_map(Map::keys).collect()
}

fn get<'a>(object: Option<&'a Value>, name: &str) -> Option<&'a Value> {
    object?.get(name)
}

/// The fields that differ between two objects.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub removed: FieldSet,
    pub modified: FieldSet,
    pub added: FieldSet,
}

impl Comparison {
    pub fn of(before: &Value, after: &Value, root: &Field) -> Self {
        let mut comparison = Self::default();
        comparison.compare(&mut Vec::new(), Some(before), Some(after), root);
        comparison
    }

    fn compare(&mut self, path: &mut Vec<Step>, before: Option<&Value>, after: Option<&Value>, field: &Field) {
        for form in forms(field, before, after) {
            match form {
                _ if is_empty(before, form) && is_empty(after, form) => {
                    if before.is_some() && after.is_some() && before != after {
                        self.modified.insert(path);
                    }
                }
                Form::Leaf => {}
                Form::Object => {
                    for name in names(before, after) {
                        path.push(Step::Field(name.clone()));
                        self.compare(path, get(before, name), get(after, name), field.field(name).0);
                        path.pop();
                    }
                }
                Form::List => self.compare_lists(path, before, after, field),
            }
        }
        match (before, after) {
            (None, _) => self.added.insert(path),
            (_, None) => self.removed.insert(path),
            _ => {}
        }
    }

    fn compare_lists(&mut self, path: &mut Vec<Step>, before: Option<&Value>, after: Option<&Value>, field: &Field) {
        let (before, after) = (grouped(before, field), grouped(after, field));
        let steps: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        for step in steps {
            let old = before.get(step).map_or(&[][..], Vec::as_slice);
            let new = after.get(step).map_or(&[][..], Vec::as_slice);
            path.push(step.clone());
            // Items that cannot be told apart are owned together, as one field.
            match (old, new) {
                ([] | [_], [] | [_]) => self.compare(path, old.first().copied(), new.first().copied(), field.item()),
                ([_, _, ..], [_, _, ..]) if old == new => {}
                ([_, _, ..], [_, _, ..]) => self.modified.insert(path),
                ([_, _, ..], _) => {
                    if let Some(new) = new.first() {
                        self.compare(path, None, Some(new), field.item());
                    }
                    self.removed.insert(path);
                }
                (_, [_, _, ..]) => {
                    if let Some(old) = old.first() {
                        self.compare(path, Some(old), None, field.item());
                    }
                    self.added.insert(path);
                }
            }
            path.pop();
        }
    }
}

/// The fields of an object.
pub(crate) fn fields_of(object: &Value, root: &Field) -> FieldSet {
    let mut fields = FieldSet::default();
    collect(object, root, &mut Vec::new(), &mut fields);
    fields
}

fn collect(value: &Value, field: &Field, path: &mut Vec<Step>, fields: &mut FieldSet) {
    match field.form(value) {
        Form::Leaf => fields.insert(path),
        Form::Object => {
            for (name, value) in value.as_object().into_iter().flatten() {
                let (field, is_declared) = field.field(name);
                path.push(Step::Field(name.clone()));
                collect(value, field, path, fields);
                if value.is_null() || value.as_object().is_some_and(Map::is_empty) || !is_declared {
                    fields.insert(path);
                }
                path.pop();
            }
        }
        Form::List => {
            for (step, group) in grouped(Some(value), field) {
                path.push(step);
                if let [item] = group.as_slice() {
                    collect(item, field.item(), path, fields);
                }
                fields.insert(path);
                path.pop();
            }
        }
    }
}

/// An object with the fields of another merged into it. `None` if nothing is left of either.
pub(crate) fn merge(before: Option<&Value>, after: Option<&Value>, field: &Field) -> Option<Value> {
    let form = forms(field, before, after).pop()?;
    if is_empty(before, form) && is_empty(after, form) {
        return after.or(before).cloned();
    }
    match form {
        Form::Leaf => after.or(before).cloned(),
        Form::Object => {
            let merged = names(before, after).into_iter().filter_map(|name| {
                Some((name.clone(), merge(get(before, name), get(after, name), field.field(name).0)?))
            });
            let merged: Map<_, _> = merged.collect();
            (!merged.is_empty()).then_some(Value::Object(merged))
        }
        Form::List => {
            let before = before.map(|list| items(list, field)).unwrap_or_default();
            let after = after.map(|list| items(list, field)).unwrap_or_default();
            let merged = merge_lists(&before, &after, field.item());
            (!merged.is_empty()).then_some(Value::Array(merged))
        }
    }
}

/// The items of both lists: those of `after` in their order, and each that only `before` has behind the item of both lists that
/// precedes it there.
fn merge_lists(before: &[(Step, &Value)], after: &[(Step, &Value)], item: &Field) -> Vec<Value> {
    let mut old: BTreeMap<&Step, &Value> = BTreeMap::new();
    for (step, value) in before {
        // Items that cannot be told apart are replaced, not merged.
        old.entry(step).and_modify(|old| *old = &Value::Null).or_insert(value);
    }
    let new: BTreeSet<&Step> = after.iter().map(|(step, _)| step).collect();
    let mut shared = after.iter().map(|(step, _)| step).filter(|step| old.contains_key(step)).peekable();
    let (mut left, mut right) = (before.iter().peekable(), after.iter().peekable());
    let mut merged = Vec::new();
    let mut done = BTreeSet::new();
    loop {
        match (left.peek(), right.peek()) {
            (None, None) => return merged,
            (Some((step, value)), _) if !new.contains(step) => {
                merged.extend(merge(Some(value), None, item));
                left.next();
            }
            (Some((step, _)), Some((next, _)))
                if step != next && shared.peek().is_some_and(|shared| *shared != step) =>
            {
                left.next();
            }
            (first, Some((step, value))) => {
                let is_same = first.is_some_and(|(first, _)| first == step);
                if is_same || first.is_some_and(|(first, _)| done.contains(first)) {
                    left.next();
                }
                done.insert(step);
                merged.extend(merge(old.get(step).copied(), Some(value), item));
                right.next();
                if is_same || shared.peek() == Some(&step) {
                    shared.next();
                }
            }
            (Some(_), None) => {
                left.next();
            }
        }
    }
}

/// A value without some fields; null if nothing is left of it.
pub(crate) fn without(value: &Value, gone: &FieldSet, field: &Field) -> Value {
    match (field.form(value), value) {
        (Form::Object, Value::Object(values)) => {
            let left = values.iter().filter(|(name, _)| !gone.has(&Step::Field((*name).clone())));
            let left: Map<_, _> = left
                .map(|(name, value)| {
                    (name.clone(), without_below(value, gone, &Step::Field(name.clone()), field.field(name).0))
                })
                .collect();
            if left.is_empty() { Value::Null } else { Value::Object(left) }
        }
        (Form::List, Value::Array(_)) => {
            let left = items(value, field).into_iter().filter(|(step, _)| !gone.has(step));
            let left: Vec<_> = left.map(|(step, item)| without_below(item, gone, &step, field.item())).collect();
            if left.is_empty() { Value::Null } else { Value::Array(left) }
        }
        _ => value.clone(),
    }
}

fn without_below(value: &Value, gone: &FieldSet, step: &Step, field: &Field) -> Value {
    match gone.0.get(step) {
        Some(node) if !node.below.is_empty() => without(value, &node.below, field),
        _ => value.clone(),
    }
}

/// The set, and all declared fields that contain one of it: they are not in sets of fields by themselves.
pub(crate) fn with_parents(fields: &FieldSet, field: &Field) -> FieldSet {
    let mut all = fields.clone();
    for (step, node) in &mut all.0 {
        let (inner, is_declared) = match step {
            Step::Field(name) => field.field(name),
            Step::Key(_) | Step::Value(_) | Step::Index(_) => (field.item(), false),
        };
        node.is_member |= is_declared && !node.below.is_empty();
        node.below = with_parents(&node.below, inner);
    }
    all
}

/// What is wrong with an applied object: `.spec.ports: duplicate entries for key [port=80,protocol="TCP"]`.
pub(crate) fn problems(value: &Value, field: &Field, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    match (field.form(value), value) {
        (Form::Object, Value::Object(values)) => {
            for (name, value) in values {
                found.extend(problems(value, field.field(name).0, &format!("{path}.{name}")));
            }
        }
        (Form::List, Value::Array(items)) => {
            let mut seen = BTreeSet::new();
            for (index, item) in items.iter().enumerate() {
                match field.step(item) {
                    Ok(step) => {
                        found.extend(problems(item, field.item(), &format!("{path}{step}")));
                        if seen.contains(&step) {
                            found.push(format!("{path}: duplicate entries for key {step}"));
                        }
                        seen.insert(step);
                    }
                    Err(problem) => {
                        found.push(format!("{path}: element {index}: {problem}"));
                        break;
                    }
                }
            }
        }
        _ => {}
    }
    found
}
