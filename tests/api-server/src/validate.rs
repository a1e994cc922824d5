//! Validation of an object's metadata: what every kind has in common.

use serde_json::{Map, Value};

use super::Served;
use super::collector::{FOREGROUND, ORPHAN};

/// The longest name, and the longest label: a part of a name between dots.
const LONGEST: (usize, usize) = (253, 63);

/// What is invalid in an object's metadata: the field, and why.
pub(super) fn problem(kind: &Served, object: &Value) -> Option<(&'static str, &'static str)> {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    if !has_valid_name(kind, name) {
        return Some(("metadata.name", "a lowercase RFC 1123 or RFC 1035 name is required"));
    }
    let map = |at| object.pointer(at).and_then(Value::as_object).into_iter().flat_map(Map::iter);
    let is_label =
        |(key, value): (&String, &Value)| is_qualified(key) && is_label_value(value.as_str().unwrap_or_default());
    if !map("/metadata/labels").all(is_label) {
        return Some(("metadata.labels", "a valid label is required"));
    }
    if !map("/metadata/annotations").all(|(key, _)| is_qualified(&key.to_lowercase())) {
        return Some(("metadata.annotations", "a qualified name is required"));
    }
    problem_of_finalizers(kind, object).or_else(|| problem_of_owners(object))
}

/// What an update changes that cannot change: the type of a Secret, and what a Secret or a ConfigMap has that is immutable.
pub(super) fn change(kind: &Served, before: &Value, after: &Value) -> Option<(&'static str, &'static str)> {
    let has_data = kind.group.is_empty() && ["secrets", "configmaps"].contains(&&*kind.plural);
    let changes = |field: &str| before.get(field) != after.get(field);
    let is_fixed = has_data && before.get("immutable") == Some(&Value::Bool(true));
    let fields = [("type", has_data), ("immutable", is_fixed), ("data", is_fixed), ("binaryData", is_fixed)];
    let (field, _) = fields.into_iter().find(|(field, is_fixed)| *is_fixed && changes(field))?;
    Some((field, "field is immutable"))
}

fn problem_of_finalizers(kind: &Served, object: &Value) -> Option<(&'static str, &'static str)> {
    let list = object.pointer("/metadata/finalizers").and_then(Value::as_array).into_iter().flatten();
    let finalizers: Vec<_> = list.filter_map(Value::as_str).collect();
    if finalizers.contains(&ORPHAN) && finalizers.contains(&FOREGROUND) {
        return Some(("metadata.finalizers", "finalizer orphan and foregroundDeletion cannot be both set"));
    }
    let is_standard = |name: &str| [ORPHAN, FOREGROUND, "kubernetes"].contains(&name);
    // For a custom kind, a finalizer without a domain is only a warning.
    let is_valid = |name: &str| is_qualified(name) && (kind.is_custom || is_standard(name) || name.contains('/'));
    let all_valid = finalizers.into_iter().all(is_valid);
    (!all_valid)
        .then_some(("metadata.finalizers", "name is neither a standard finalizer name nor is it fully qualified"))
}

fn problem_of_owners(object: &Value) -> Option<(&'static str, &'static str)> {
    let owners = || object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    let has =
        |owner: &Value, field: &str| owner.get(field).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    if !owners().all(|owner| ["apiVersion", "kind", "name", "uid"].iter().all(|field| has(owner, field))) {
        return Some(("metadata.ownerReferences", "must not be empty"));
    }
    let controllers = owners().filter(|owner| owner.get("controller") == Some(&Value::Bool(true))).count();
    (controllers > 1).then_some(("metadata.ownerReferences", "Only one reference can have Controller set to true"))
}

fn has_valid_name(kind: &Served, name: &str) -> bool {
    match (&*kind.group, &*kind.plural) {
        ("", "namespaces") => is_label_of_dns(name),
        ("", "services") => is_label_of_dns(name) && name.starts_with(|first: char| first.is_ascii_lowercase()),
        _ => is_subdomain(name),
    }
}

fn is_subdomain(name: &str) -> bool {
    name.len() <= LONGEST.0 && name.split('.').all(|label| label.len() <= LONGEST.0 && is_of_dns(label))
}

fn is_label_of_dns(name: &str) -> bool {
    name.len() <= LONGEST.1 && is_of_dns(name)
}

fn is_of_dns(label: &str) -> bool {
    let is_inner = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit();
    label.starts_with(is_inner) && label.ends_with(is_inner) && label.chars().all(|one| is_inner(one) || one == '-')
}

/// Whether a text is a name, or a domain and a name with a slash between them.
fn is_qualified(text: &str) -> bool {
    let (domain, name) = text.split_once('/').map_or((None, text), |(domain, name)| (Some(domain), name));
    domain.is_none_or(is_subdomain) && !name.is_empty() && is_label_value(name)
}

fn is_label_value(text: &str) -> bool {
    let is_inner = |one: char| one.is_ascii_alphanumeric();
    let has_ends = text.is_empty() || text.starts_with(is_inner) && text.ends_with(is_inner);
    text.len() <= LONGEST.1 && has_ends && text.chars().all(|one| is_inner(one) || "-_.".contains(one))
}
