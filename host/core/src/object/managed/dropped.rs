//! Computes what remains of an object if the host changes its entries before an apply: server-side apply removes the fields that the Apply
//! entry alone owned.

use super::{BEFORE_FIRST_APPLY, Entry, Few, ItemMatcher, ManagedFields, Node, Ownership, Removal};
use crate::object::names::FIELD_MANAGER;
use crate::value::json::{Map, Value};

/// Removes from an object the fields and items that an apply of the host would remove. `object` is the result of an apply to the object as it
/// is, as a dry run gives it: a host changes its entries in `managedFields` before its apply. `removal`: what becomes of the Update entry
/// that the host left; `entry`: what the Apply entry owns before the apply, if that changes; `before`: the entries as they are. Returns
/// whether anything was removed.
pub fn drop_owned(
    object: &mut Map,
    removal: Option<Removal>,
    entry: Option<&Ownership>,
    before: &ManagedFields,
) -> bool {
    let left_by = removal.map(|removal| match removal {
        Removal::Convert | Removal::Remove => FIELD_MANAGER,
        Removal::RemoveBeforeFirstApply => BEFORE_FIRST_APPLY,
    });
    let mut left = None;
    let mut others = Vec::new();
    let managed = object.get("metadata").and_then(|meta| meta.at(&["managedFields"])?.as_array());
    for entry in managed.unwrap_or_default() {
        let text = |field: &str| entry.at(&[field]).and_then(Value::as_str).unwrap_or_default();
        let Some(fields) = entry.at(&["fieldsV1"]).and_then(Value::as_object) else { continue };
        if (text("operation"), text("subresource")) == ("Update", "") && Some(text("manager")) == left_by {
            left = Some(Node::of(fields));
        } else {
            others.push(Node::of(fields));
        }
    }
    let others = others.iter().collect();
    let created = left.filter(|_| left_by == Some(FIELD_MANAGER));
    let owned = entry.map(|entry| Node::of(&entry.fields)).or(created);
    let owned = match (&owned, removal) {
        (Some(owned), _) => Some(owned),
        // The entry has the fields of all managers: those that the host had applied were its own.
        (None, Some(Removal::RemoveBeforeFirstApply)) => before.apply.as_ref().and_then(Entry::tree),
        (None, _) => None,
    };
    owned.is_some_and(|owned| drop_fields(owned, object, &others))
}

/// Changes a live object as an apply of the desired one does, without the rules that the API server has for the merge: what the host's
/// entries own alone by then goes (see [`drop_owned`]), and the desired fields are as in a fresh object.
pub fn work_out_apply(
    live: &mut Map,
    (desired, fresh): (&Map, &Map),
    (removal, entry, taken): (Option<Removal>, Option<&Ownership>, &[Ownership]),
    before: &ManagedFields,
) {
    let of_entry = entry.map(|entry| Node::of(&entry.fields));
    let of_taken: Vec<_> = taken.iter().map(|entry| Node::of(&entry.fields)).collect();
    let is_as_it_was = |entry: &&Entry| taken.iter().all(|taken| taken.index != entry.index);
    let others = before.others.iter().filter(is_as_it_was).filter_map(Entry::tree);
    let others: Few<'_> = others.chain(&of_taken).collect();
    let owned = match (&of_entry, removal) {
        (Some(owned), _) => Some(owned),
        (None, Some(Removal::RemoveBeforeFirstApply)) => before.apply.as_ref().and_then(Entry::tree),
        (None, Some(Removal::Convert | Removal::Remove)) => before.update.as_ref().and_then(|(entry, _)| entry.tree()),
        (None, None) => None,
    };
    if let Some(owned) = owned {
        drop_fields(owned, live, &others);
    }
    set_desired(live, desired, fresh);
}

fn set_desired(live: &mut Map, desired: &Map, fresh: &Map) {
    for (key, desired) in desired.iter() {
        match (desired, live.get_mut(key), fresh.get(key)) {
            (Value::Object(desired), Some(Value::Object(live)), Some(Value::Object(fresh))) => {
                set_desired(live, desired, fresh);
            }
            (_, _, Some(fresh)) => drop(live.insert(key, fresh.clone())),
            (_, _, None) => drop(live.remove(key)),
        }
    }
}

fn drop_fields(node: &Node, map: &mut Map, others: &Few<'_>) -> bool {
    let mut is_changed = false;
    for (field, below) in &node.fields {
        let others: Few<'_> = others.iter().filter_map(|other| other.field(field)).collect();
        if others.is_empty() && (below.itself || !below.has_below()) {
            is_changed |= map.remove(field).is_some();
        } else if let Some(value) = map.get_mut(field) {
            is_changed |= drop_within(below, value, &others);
        }
    }
    is_changed
}

fn drop_within(node: &Node, value: &mut Value, others: &Few<'_>) -> bool {
    match value {
        Value::Object(map) => drop_fields(node, map, others),
        Value::Array(items) => {
            let mut is_changed = false;
            // The entries of a stored object have the controller's UID, and no placeholder for it.
            let names = ItemMatcher { controller: "" };
            for (name, below) in &node.items {
                let others: Few<'_> = others.iter().filter_map(|other| other.item(name)).collect();
                let Some(at) = items.iter().position(|item| names.matches(name, item)) else { continue };
                if others.is_empty() {
                    items.remove(at);
                    is_changed = true;
                } else if let Some(item) = items.get_mut(at) {
                    is_changed |= drop_within(below, item, &others);
                }
            }
            is_changed
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::map;
    use super::*;

    /// An object that the host created with the labels `a` and `b`, two containers and a set, and applied without
    /// some of them; `c` belongs to another manager.
    fn applied() -> Map {
        let created = r#"{"f:metadata":{"f:labels":{".":{},"f:a":{},"f:b":{}},"f:annotations":{".":{},"f:x":{}}},
            "f:spec":{"f:image":{},"f:policy":{"f:type":{}},"f:set":{"v:\"p\"":{},"v:\"q\"":{}},
            "f:containers":{"k:{\"name\":\"one\"}":{".":{},"f:name":{},"f:tty":{}},"k:{\"name\":\"two\"}":{".":{},"f:name":{}}}}}"#;
        let applied = r#"{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:image":{},"f:set":{"v:\"p\"":{}},
            "f:containers":{"k:{\"name\":\"one\"}":{".":{},"f:name":{}}}}}"#;
        map(&format!(
            r#"{{"metadata":{{"labels":{{"a":"1","b":"2","c":"3"}},"annotations":{{"x":"y"}},"managedFields":[
            {{"manager":"windlass","operation":"Update","fieldsV1":{created}}},
            {{"manager":"windlass","operation":"Apply","fieldsV1":{applied}}},
            {{"manager":"kubectl","operation":"Update","fieldsV1":{{"f:metadata":{{"f:labels":{{"f:c":{{}}}}}}}}}}]}},
            "spec":{{"image":"i","policy":{{"type":"Rolling","surge":1}},"set":["p","q"],
            "containers":[{{"name":"one","tty":true,"port":80}},{{"name":"two"}}]}}}}"#
        ))
    }

    #[test]
    fn only_fields_that_the_create_entry_alone_owns_are_dropped() {
        let mut object = applied();
        assert!(drop_owned(&mut object, Some(Removal::Remove), None, &ManagedFields::default()));
        if let Some(meta) = object.object_mut("metadata") {
            meta.remove("managedFields");
        }
        let expected = r#"{"metadata":{"labels":{"a":"1","c":"3"}},"spec":{"image":"i","policy":{"surge":1},"set":["p"],
            "containers":[{"name":"one","port":80}]}}"#;
        assert_eq!(object, map(expected));
    }

    #[test]
    fn object_without_a_create_entry_keeps_all_fields() {
        let text = r#"{"metadata":{"managedFields":[{"manager":"windlass","operation":"Apply","fieldsV1":
            {"f:data":{"f:a":{}}}},{"manager":"kubectl","operation":"Update","fieldsV1":{"f:data":{"f:b":{}}}}]},
            "data":{"a":"1","b":"2"}}"#;
        let mut object = map(text);
        assert!(!drop_owned(&mut object, Some(Removal::Remove), None, &ManagedFields::default()));
        assert_eq!(object, map(text));
    }

    #[test]
    fn field_that_the_host_drops_after_managed_fields_were_cleared_is_dropped_and_fields_of_others_stay() {
        let apply = r#"{"f:data":{"f:a":{},"f:b":{}}}"#;
        let before =
            ManagedFields::read(&format!(r#"[{{"manager":"windlass","operation":"Apply","fieldsV1":{apply}}}]"#), None);
        let all = r#"{"f:data":{".":{},"f:a":{},"f:b":{},"f:users":{}}}"#;
        let mut object = map(&format!(
            r#"{{"data":{{"a":"1","b":"2","users":"3"}},"metadata":{{"managedFields":[
            {{"manager":"before-first-apply","operation":"Update","fieldsV1":{all}}},
            {{"manager":"windlass","operation":"Apply","fieldsV1":{{"f:data":{{"f:a":{{}}}}}}}}]}}}}"#
        ));
        assert!(drop_owned(&mut object, Some(Removal::RemoveBeforeFirstApply), None, &before));
        assert_eq!(object.get("data"), map(r#"{"data":{"a":"1","users":"3"}}"#).get("data"));
    }

    #[test]
    fn r21_worked_out_apply_sets_what_is_desired_and_leaves_what_others_own() {
        let mut object =
            map(r#"{"spec":{"replicas":5,"strategy":{"type":"Rolling","surge":1},"paused":true,"old":1}}"#);
        let desired = map(r#"{"spec":{"strategy":{"type":"Recreate"},"paused":false}}"#);
        let fresh = map(r#"{"spec":{"replicas":1,"strategy":{"type":"Recreate"},"grace":30}}"#);
        let fields = map(r#"{"f:spec":{"f:strategy":{"f:type":{},"f:surge":{}},"f:paused":{},"f:old":{}}}"#);
        let entry = Ownership { index: 0, before: fields.clone(), fields };
        work_out_apply(&mut object, (&desired, &fresh), (None, Some(&entry), &[]), &ManagedFields::default());
        assert_eq!(object, map(r#"{"spec":{"replicas":5,"strategy":{"type":"Recreate"}}}"#));
    }
}
