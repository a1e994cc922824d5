//! The differences of two JSON documents, field by field.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::value::json::{Map, OBJECT_DEPTH, Value, parse};

/// Maximum length of a value in a difference, in characters.
const VALUE_MAX: usize = 200;

/// One field that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The field, as in `spec.containers[web].image`. An item of a list is named by its `name`, `type` or `key` if all items have
    /// different ones, and otherwise by its number.
    pub path: String,
    /// The old value as JSON, shortened if it is long; absent if the field is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// The new value as JSON, shortened if it is long; absent if the field is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = if self.path.is_empty() { "the whole" } else { &self.path };
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => write!(f, "{path}: {old} → {new}"),
            (None, Some(new)) => write!(f, "{path}: added {new}"),
            (Some(old), None) => write!(f, "{path}: removed {old}"),
            (None, None) => f.write_str(path),
        }
    }
}

/// The fields in which two documents differ, except those for which `is_ignored` returns true; in the order of their names. Numbers
/// are compared as decimals. If named items of a list are in another order, the list differs, and its values are the names.
pub fn differences(old: &Value, new: &Value, is_ignored: impl Fn(&str) -> bool) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(String::new(), (Some(old), Some(new)), &is_ignored, &mut found);
    found
}

/// The paths of the fields in which two states of an object differ, as in `spec.replicas`: at most `max`, in the order of their
/// names. The status is one field. Without a path, the states differ only in what changes with every write, or one of them is not
/// valid JSON.
pub fn changed_fields(before: &[u8], after: &[u8], max: usize) -> Vec<String> {
    let (Ok(before), Ok(after)) = (parse(before, OBJECT_DEPTH), parse(after, OBJECT_DEPTH)) else { return Vec::new() };
    let found = differences(&before, &after, is_bookkeeping).into_iter();
    let is_in_status = |path: &str| path.starts_with("status.") || path.starts_with("status[");
    let mut paths: Vec<_> =
        found.map(|one| if is_in_status(&one.path) { "status".to_owned() } else { one.path }).collect();
    paths.dedup();
    paths.truncate(max);
    paths
}

/// Whether a field changes with every write of its object, and means nothing by itself.
pub fn is_bookkeeping(path: &str) -> bool {
    matches!(path, "metadata.resourceVersion" | "metadata.generation" | "metadata.managedFields")
}

fn compare(
    path: String,
    (old, new): (Option<&Value>, Option<&Value>),
    is_ignored: &impl Fn(&str) -> bool,
    found: &mut Vec<Difference>,
) {
    if old == new || is_ignored(&path) {
        return;
    }
    let lists = old.and_then(Value::as_array).zip(new.and_then(Value::as_array));
    if let Some((old, new)) = old.and_then(Value::as_object).zip(new.and_then(Value::as_object)) {
        let added = new.iter().filter(|(name, _)| old.get(name).is_none());
        let mut names: Vec<_> = old.iter().chain(added).map(|(name, _)| name).collect();
        names.sort_unstable();
        for name in names {
            compare(field(&path, name), (old.get(name), new.get(name)), is_ignored, found);
        }
    } else if let Some((old, new)) = lists {
        match (named(old), named(new)) {
            (Some(old), Some(new)) => {
                let (in_old, in_new) = (by_name(&old), by_name(&new));
                let kept = |list: &[(&str, &Value)], other: &HashMap<&str, &Value>| -> Vec<Value> {
                    list.iter()
                        .filter(|(name, _)| other.contains_key(name))
                        .map(|(name, _)| Value::from(*name))
                        .collect()
                };
                let (before, after) = (Value::from(kept(&old, &in_new)), Value::from(kept(&new, &in_old)));
                if before != after {
                    found.push(Difference { path: path.clone(), old: Some(shown(&before)), new: Some(shown(&after)) });
                }
                let added = new.iter().filter(|(name, _)| !in_old.contains_key(name));
                for (name, _) in old.iter().chain(added) {
                    let pair = (in_old.get(name).copied(), in_new.get(name).copied());
                    compare(format!("{path}[{name}]"), pair, is_ignored, found);
                }
            }
            _ => {
                for at in 0..old.len().max(new.len()) {
                    compare(format!("{path}[{at}]"), (old.get(at), new.get(at)), is_ignored, found);
                }
            }
        }
    } else {
        found.push(Difference { path, old: old.map(shown), new: new.map(shown) });
    }
}

/// The path of a field; a name with a dot, such as a label's, is quoted.
fn field(path: &str, name: &str) -> String {
    let is_plain = !name.is_empty() && name.chars().all(|char| char.is_alphanumeric() || matches!(char, '-' | '_'));
    match (is_plain, path.is_empty()) {
        (true, true) => name.to_owned(),
        (true, false) => format!("{path}.{name}"),
        (false, _) => format!("{path}[{name:?}]"),
    }
}

/// The field that identifies the items of a list.
fn identity(item: &Map) -> Option<&'static str> {
    ["name", "type", "key"].into_iter().find(|field| item.get(field).and_then(Value::as_str).is_some())
}

/// The items of a list with their names, if each has one of its own.
fn named(list: &[Value]) -> Option<Vec<(&str, &Value)>> {
    if list.is_empty() {
        return Some(Vec::new());
    }
    let field = list.iter().find_map(Value::as_object).and_then(identity)?;
    let items = list.iter().map(|item| Some((item.as_object()?.get(field)?.as_str()?, item)));
    let items = items.collect::<Option<Vec<_>>>()?;
    (by_name(&items).len() == items.len()).then_some(items)
}

fn by_name<'a>(items: &[(&'a str, &'a Value)]) -> HashMap<&'a str, &'a Value> {
    items.iter().copied().collect()
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(VALUE_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(old: &serde_json::Value, new: &serde_json::Value) -> Vec<String> {
        let value = |document: &serde_json::Value| parse(document.to_string().as_bytes(), 128).expect("JSON");
        let found = differences(&value(old), &value(new), |path| path == "metadata.resourceVersion");
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_field_that_differs_is_named() {
        let old = json!({"metadata": {"resourceVersion": "1", "labels": {"a.b/c": "x"}}, "spec": {"replicas": 1, "old": true}});
        let new =
            json!({"metadata": {"resourceVersion": "2", "labels": {"a.b/c": "y"}}, "spec": {"replicas": 2, "new": []}});
        assert_eq!(
            found(&old, &new),
            [
                r#"metadata.labels["a.b/c"]: "x" → "y""#,
                "spec.new: added []",
                "spec.old: removed true",
                "spec.replicas: 1 → 2"
            ]
        );
        assert_eq!(found(&old, &old), [""; 0]);
    }

    #[test]
    fn changed_fields_are_named_without_what_changes_with_every_write() {
        let before = br#"{"metadata":{"labels":{"a.b/c":"x"},"resourceVersion":"1"},"spec":{"replicas":1},"status":{"a":1,"b":1,"c.d":1}}"#;
        let after = br#"{"metadata":{"labels":{"a.b/c":"y"},"resourceVersion":"2"},"spec":{"replicas":2},"status":{"a":2,"b":2,"c.d":2}}"#;
        let all = [r#"metadata.labels["a.b/c"]"#, "spec.replicas", "status"];
        assert_eq!(changed_fields(before, after, 10), all);
        assert_eq!(changed_fields(before, after, 2), all[..2]);
        assert_eq!(changed_fields(br#"{"status":[1,2]}"#, br#"{"status":[2,1]}"#, 2), ["status"]);
        assert_eq!(changed_fields(b"not JSON", b"{}", 3), [""; 0]);
    }

    #[test]
    fn items_of_a_list_are_matched_by_their_names_and_their_order_matters() {
        let list = |items: serde_json::Value| json!({"containers": items});
        let one = |name: &str, image: &str| json!({"name": name, "image": image});
        assert_eq!(
            found(&list(json!([one("a", "x"), one("b", "y")])), &list(json!([one("b", "z"), one("c", "x")]))),
            [
                r#"containers[a]: removed {"image":"x","name":"a"}"#,
                r#"containers[b].image: "y" → "z""#,
                r#"containers[c]: added {"image":"x","name":"c"}"#
            ]
        );
        assert_eq!(
            found(&list(json!([1, 2])), &list(json!([1, 3, 4]))),
            ["containers[1]: 2 → 3", "containers[2]: added 4"]
        );
        assert_eq!(
            found(
                &list(json!([one("a", "x"), one("b", "y"), one("c", "z")])),
                &list(json!([one("b", "y"), one("a", "w")]))
            ),
            [
                r#"containers: ["a","b"] → ["b","a"]"#,
                r#"containers[a].image: "x" → "w""#,
                r#"containers[c]: removed {"image":"z","name":"c"}"#
            ]
        );
    }

    #[test]
    fn long_values_are_shortened() {
        let found = found(&json!({"a": "x".repeat(5000)}), &json!({"a": 1}));
        assert!(found[0].len() < 2 * VALUE_MAX, "{found:?}");
    }
}
