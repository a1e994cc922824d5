//! Computes what remains of an object if the host changes its entries before an apply: server-side apply removes the fields that the Apply
//! entry alone owned.

use std::collections::BTreeSet;

use super::finder::Finder;
use super::stale::ALLOCATED;
use super::{BEFORE_FIRST_APPLY, Entry, Few, Item, ItemMatcher, ManagedFields, Node, Ownership, Removal};
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
    let of_entry = entry.map(|entry| Node::of(&entry.fields));
    let owned = before.owned_by_then(of_entry.as_ref(), removal, left.as_ref());
    owned.is_some_and(|owned| drop_fields(owned, object, &others))
}

impl ManagedFields {
    /// What the Apply entry owns before an apply: `entry` if that changes, or else what comes of the entry that is removed. `created` is that
    /// of the host's POST.
    fn owned_by_then<'n>(
        &'n self,
        entry: Option<&'n Node>,
        removal: Option<Removal>,
        created: Option<&'n Node>,
    ) -> Option<&'n Node> {
        entry.or_else(|| match removal? {
            Removal::Convert | Removal::Remove => created,
            // The entry has the fields of all managers: those that the host had applied were its own.
            Removal::RemoveBeforeFirstApply => self.apply.as_ref().and_then(Entry::tree),
        })
    }
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
    let owned = before.owned_by_then(of_entry.as_ref(), removal, before.update.as_ref().and_then(Entry::tree));
    if let Some(owned) = owned {
        drop_fields(owned, live, &others);
    }
    let nodes = others.into_iter().chain(owned).collect();
    set_desired(live, desired, fresh, &nodes);
}

/// Removes from an object what a dry run has allocated for it (a cluster IP, node ports): the next dry run may refuse it. What the live or the
/// desired object has stays.
pub fn drop_allocated(object: &mut Map, [live, desired]: [&Map; 2]) {
    let known: Vec<_> = [live, desired].into_iter().filter_map(|known| known.get("spec")).collect();
    let has = |spec: &Value, key: &str, value: &Value| spec.at(&[key]) == Some(value);
    let has_port = |spec: &Value, key: &str, value: &Value| {
        let ports = spec.at(&["ports"]).and_then(Value::as_array).unwrap_or_default();
        ports.iter().any(|port| has(port, key, value))
    };
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    spec.retain(|key, value| !ALLOCATED.contains(&key) || known.iter().any(|known| has(known, key, value)));
    let Some(Value::Array(ports)) = spec.get_mut("ports") else { return };
    for port in ports {
        let Value::Object(port) = port else { continue };
        port.retain(|key, value| !ALLOCATED.contains(&key) || known.iter().any(|known| has_port(known, key, value)));
    }
}

/// Sets the desired fields as a fresh object has them. `nodes` name the items of lists.
fn set_desired(live: &mut Map, desired: &Map, fresh: &Map, nodes: &Few<'_>) {
    for (key, desired) in desired.iter() {
        let below: Few<'_> = nodes.iter().filter_map(|node| node.field(key)).collect();
        match (desired, live.get_mut(key), fresh.get(key)) {
            (Value::Object(desired), Some(Value::Object(live)), Some(Value::Object(fresh))) => {
                set_desired(live, desired, fresh, &below);
            }
            (Value::Array(desired), Some(Value::Array(live)), Some(Value::Array(fresh))) => match keys_of(&below) {
                Some(keys) => set_items(live, (desired, fresh), keys, &below),
                None => live.clone_from(fresh),
            },
            (_, _, Some(fresh)) => drop(live.insert(key, fresh.clone())),
            // An empty list or map, which a fresh object does not have: what others own in it stays.
            (_, _, None) if below.iter().any(|node| node.has_below()) => {}
            (_, _, None) => drop(live.remove(key)),
        }
    }
}

/// Sets the desired items of a list that has key fields, and leaves the other items. The desired items get the desired order; other items
/// stay before the item that they were before.
fn set_items(live: &mut Vec<Value>, (desired, fresh): (&[Value], &[Value]), keys: &Map, nodes: &Few<'_>) {
    let names = ItemMatcher { controller: "" };
    let nodes_of = |name: &Item| nodes.iter().filter_map(|node| node.item(name)).collect();
    let (found, wanted) = (Finder::of(live, nodes.iter().copied()), Finder::of(desired, nodes.iter().copied()));
    let mut items = Vec::with_capacity(fresh.len());
    for fresh in fresh {
        // A desired item may lack a key that has a default: the fresh one has all keys.
        let keys = keys.iter().filter_map(|(key, _)| Some((key.into(), fresh.at(&[key])?.clone()))).collect();
        let Ok(keys) = Map::from_entries(keys) else { continue };
        let name = Item::Keys(Value::Object(keys));
        // Admission may have added the fresh one.
        let Some(desired) = wanted.first(&name, &names) else { continue };
        let place = found.all(&name, &names).first().copied();
        let item = match (place.and_then(|place| live.get(place)), desired, fresh) {
            (Some(Value::Object(live)), Value::Object(desired), Value::Object(fresh)) => {
                let mut item = live.clone();
                set_desired(&mut item, desired, fresh, &nodes_of(&name));
                Value::Object(item)
            }
            _ => fresh.clone(),
        };
        items.push((item, place));
    }
    let places: Vec<_> = items.iter().map(|(_, place)| *place).collect();
    let set: BTreeSet<usize> = places.iter().copied().flatten().collect();
    let mut others = live.iter().enumerate().filter(|(at, _)| !set.contains(at)).peekable();
    let mut merged = Vec::with_capacity(items.len());
    for (at, (item, _)) in items.into_iter().enumerate() {
        let next = places.iter().skip(at).find_map(|place| *place).unwrap_or(live.len());
        merged.extend(std::iter::from_fn(|| others.next_if(|(at, _)| *at < next)).map(|(_, item)| item.clone()));
        merged.push(item);
    }
    merged.extend(others.map(|(_, item)| item.clone()));
    *live = merged;
}

/// The key fields of a list, as in the name of an item.
fn keys_of<'n>(nodes: &Few<'n>) -> Option<&'n Map> {
    let mut names = nodes.iter().flat_map(|node| &node.items);
    names.find_map(|(name, _)| if let Item::Keys(keys) = name { keys.as_object() } else { None })
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
                    if let (Item::Keys(Value::Object(keys)), Value::Object(item)) = (name, item) {
                        // Its key fields stay as long as the item.
                        keys.iter().for_each(|(key, value)| drop(item.insert(key, value.clone())));
                    }
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

    #[test]
    fn what_a_dry_run_allocates_is_dropped_and_what_is_live_or_desired_stays() {
        let ports = |ports: &str| map(&format!(r#"{{"spec":{{"ports":[{ports}],"clusterIP":"10.96.0.0"}}}}"#));
        let live = map(r#"{"spec":{"ports":[{"port":1,"nodePort":30001}],"type":"NodePort"}}"#);
        let desired = map(r#"{"spec":{"ports":[{"port":2,"nodePort":30002}]}}"#);
        let mut object =
            ports(r#"{"port":1,"nodePort":30001},{"port":2,"nodePort":30002},{"port":3,"nodePort":30003}"#);
        drop_allocated(&mut object, [&live, &desired]);
        let left = r#"{"spec":{"ports":[{"port":1,"nodePort":30001},{"port":2,"nodePort":30002},{"port":3}]}}"#;
        assert_eq!(object, map(left));
        let mut object = ports("");
        drop_allocated(&mut object, [&ports(""), &desired]);
        assert_eq!(object, ports(""));
    }

    #[test]
    fn r21_worked_out_apply_merges_the_items_of_a_list_with_keys() {
        let port = |number: u8, more: &str| format!(r#"{{"port":{number},"protocol":"TCP"{more}}}"#);
        let object = |ports: &[String]| map(&format!(r#"{{"env":[{{"name":"E"}}],"ports":[{}]}}"#, ports.join(",")));
        let node = |number: u8, fields: &str| format!(r#""k:{{\"port\":{number},\"protocol\":\"TCP\"}}":{{{fields}}}"#);
        let nodes = |ports: &[String]| format!(r#""f:ports":{{{}}}"#, ports.join(","));
        let ours = |number| node(number, r#"".":{},"f:port":{},"f:protocol":{},"f:name":{}"#);
        let ours = map(&format!("{{{}}}", nodes(&[1, 2, 3].map(ours))));
        let others = nodes(&[1, 2].map(|number| node(number, r#""f:app":{}"#)));
        let others = format!(r#"{{"f:env":{{"k:{{\"name\":\"E\"}}":{{}}}},{others}}}"#);
        let before = format!(r#"[{{"manager":"kubectl","operation":"Update","fieldsV1":{others}}}]"#);
        let entry = Ownership { index: 0, before: ours.clone(), fields: ours };
        let desired = map(r#"{"env":[],"ports":[{"port":4},{"port":1,"name":"new"}]}"#);
        let fresh = map(&format!(r#"{{"ports":[{},{}]}}"#, port(4, ""), port(1, r#","name":"new""#)));
        let b = r#","name":"b","app":"y""#;
        let mut live = object(&[port(1, r#","name":"a","app":"x""#), port(2, b), port(3, r#","name":"c""#)]);
        let before = ManagedFields::read(&before, None);
        work_out_apply(&mut live, (&desired, &fresh), (None, Some(&entry), &[]), &before);
        assert_eq!(live, object(&[port(4, ""), port(1, r#","name":"new","app":"x""#), port(2, r#","app":"y""#)]));
    }
}
