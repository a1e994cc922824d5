//! Operations on `fieldsV1` as the API server sends it, which keep what they do not know.

use super::empty::excludes;
use crate::value::json::{Map, Value};

/// Removes from a `fieldsV1` what another one has.
pub(super) fn subtract(from: &mut Map, other: &Map) {
    for (name, below) in other.iter().filter_map(|(name, below)| Some((name, below.as_object()?))) {
        if let Some(Value::Object(inside)) = from.get_mut(name)
            && !below.is_empty()
        {
            subtract(inside, below);
            if name.starts_with("f:") {
                // An apply would remove the whole map, and a node without anything below it owns all of it.
                inside.remove(".");
            }
            if !inside.is_empty() {
                continue;
            }
        }
        from.remove(name);
    }
}

/// The path of a field that the API server names, as in `spec.containers[0].env`, without indices.
pub(super) fn without_indices(field: &str) -> String {
    let mut path = String::with_capacity(field.len());
    for part in field.split('[') {
        match part.split_once(']') {
            Some((_, rest)) => path.extend(["[]", rest]),
            None => path.push_str(part),
        }
    }
    path
}

/// How near a field must be to a named one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Near {
    /// It is the field, is around it, or is another member of its union.
    Exactly,
    /// It may also be directly in it.
    Within,
}

/// Removes from a `fieldsV1` all leaves but those that are near a named field.
pub(super) fn keep_near(fields: &mut Map, path: &str, named: &[String], near: Near) {
    let mut kept = Map::default();
    for (name, below) in fields.iter() {
        let Some(below) = below.as_object() else { continue };
        let field = name.strip_prefix("f:");
        let inside = match field {
            Some(field) if path.is_empty() => field.to_owned(),
            Some(field) => format!("{path}.{field}"),
            None => format!("{path}[]"),
        };
        // A field is in its map, and a list item is what its fields are in.
        let place = if field.is_some() { path } else { &inside };
        let is_at = |named: &String| {
            let is_around = named.strip_prefix(&*inside).is_some_and(|rest| rest.starts_with(['.', '[']));
            let beside = named.strip_prefix(path).and_then(|rest| rest.strip_prefix('.'));
            // Some messages write the first letter of a field as a capital.
            near == Near::Within && named == place
                || named.eq_ignore_ascii_case(&inside)
                || is_around
                || field.zip(beside).is_some_and(|(a, b)| excludes(a, b))
        };
        if below.is_empty() && named.iter().any(is_at) {
            kept.insert(name, Map::default());
        }
        let mut below = below.clone();
        keep_near(&mut below, &inside, named, near);
        if !below.is_empty() {
            kept.insert(name, below);
        }
    }
    *fields = kept;
}

/// Adds to a `fieldsV1` what another one has.
pub(super) fn unite(into: &mut Map, other: &Map) {
    for (name, below) in other.iter().filter_map(|(name, below)| Some((name, below.as_object()?))) {
        match into.get_mut(name) {
            Some(Value::Object(into)) if !below.is_empty() => unite(into, below),
            _ => drop(into.insert(name, below.clone())),
        }
    }
}
