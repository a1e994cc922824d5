//! Works out the object after an apply before which the host changes its entries: server-side apply removes the fields that the Apply entry
//! alone owned.

use std::collections::BTreeSet;

use super::finder::Finder;
use super::stale::ALLOCATED;
use super::{Entry, Few, Item, ItemMatcher, ManagedFields, Node, Ownership};
use crate::value::json::{Map, Value};

/// A live object after an apply of the desired one, without the rules that the API server has for the merge: what the host's entry owns
/// alone goes, and the desired fields are as in a fresh object. What the dry run of that object has allocated is left out. `entry` and
/// `taken`: what the entries own that the host changes before the apply.
pub fn work_out_apply(
    live: &Map,
    (desired, fresh): (&Map, &Map),
    (entry, taken): (Option<&Ownership>, &[Ownership]),
    before: &ManagedFields,
) -> Map {
    let mut after = live.clone();
    let of_entry = entry.map(|entry| Node::of(&entry.fields));
    let of_taken: Vec<_> = taken.iter().map(|entry| Node::of(&entry.fields)).collect();
    let is_as_it_was = |entry: &&Entry| taken.iter().all(|taken| taken.index != entry.index);
    let others = before.others.iter().filter(is_as_it_was).filter_map(Entry::tree);
    let others: Few<'_> = others.chain(&of_taken).collect();
    let owned = of_entry.as_ref().or_else(|| before.entry()?.tree());
    if let Some(owned) = owned {
        drop_fields(owned, &mut after, (&others, Some(fresh)));
    }
    let nodes = others.into_iter().chain(owned).collect();
    set_desired(&mut after, desired, fresh, &nodes);
    drop_allocated(&mut after, [live, desired]);
    after
}

/// Removes from an object what a dry run has allocated for it (a cluster IP, node ports): the next dry run may refuse it. What the live or the
/// desired object has stays.
fn drop_allocated(object: &mut Map, [live, desired]: [&Map; 2]) {
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
        // An atomic map, such as the port of an Ingress' backend.
        let is_owned_as_a_whole = !below.is_empty() && below.iter().all(|node| !node.has_below());
        match (desired, live.get_mut(key), fresh.get(key)) {
            (Value::Object(desired), Some(Value::Object(live)), Some(Value::Object(fresh))) if !is_owned_as_a_whole => {
                set_desired(live, desired, fresh, &below);
            }
            (Value::Array(desired), Some(Value::Array(live)), Some(Value::Array(fresh))) => match keys_of(&below) {
                Some(keys) => set_items(live, (desired, fresh), keys, &below),
                None if is_set(&below) => {
                    // What the host alone owned is gone.
                    let names = ItemMatcher { controller: "" };
                    let known = Finder::of(fresh, below.iter().copied());
                    let is_other = |item: &Value| known.all(&Item::Value(item.clone()), &names).is_empty();
                    live.retain(is_other);
                    let others = std::mem::replace(live, fresh.clone());
                    live.extend(others);
                }
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
    let set: BTreeSet<usize> = items.iter().filter_map(|(_, place)| *place).collect();
    // The place of each item, or of the next one that has a place.
    let mut next = live.len();
    let following = |(_, place): &(Value, Option<usize>)| {
        next = place.unwrap_or(next);
        next
    };
    let mut places: Vec<_> = items.iter().rev().map(following).collect();
    places.reverse();
    let mut others = live.iter().enumerate().filter(|(at, _)| !set.contains(at)).peekable();
    let mut merged = Vec::with_capacity(items.len());
    for ((item, _), next) in items.into_iter().zip(places) {
        merged.extend(std::iter::from_fn(|| others.next_if(|(at, _)| *at < next)).map(|(_, item)| item.clone()));
        merged.push(item);
    }
    merged.extend(others.map(|(_, item)| item.clone()));
    *live = merged;
}

/// Whether the items of a list are known by their values.
fn is_set(nodes: &Few<'_>) -> bool {
    nodes.iter().flat_map(|node| &node.items).any(|(name, _)| matches!(name, Item::Value(_)))
}

/// The key fields of a list, as in the name of an item.
fn keys_of<'n>(nodes: &Few<'n>) -> Option<&'n Map> {
    let mut names = nodes.iter().flat_map(|node| &node.items);
    names.find_map(|(name, _)| if let Item::Keys(keys) = name { keys.as_object() } else { None })
}

/// Removes what an entry owns alone. `others`: what other entries own; `fresh`: a fresh object, whose maps and items stay with what nobody
/// owns in them.
fn drop_fields(node: &Node, map: &mut Map, (others, fresh): (&Few<'_>, Option<&Map>)) {
    for (field, below) in &node.fields {
        let others: Few<'_> = others.iter().filter_map(|other| other.field(field)).collect();
        let fresh = fresh.and_then(|fresh| fresh.get(field));
        let is_merged = |fresh: &Value| fresh.as_object().is_some() || below.has_below() && !fresh.is_scalar();
        let stays = !others.is_empty() || fresh.is_some_and(is_merged);
        if !stays && (below.itself || !below.has_below()) {
            map.remove(field);
        } else if let Some(value) = map.get_mut(field) {
            drop_within(below, value, (&others, fresh));
        }
    }
}

fn drop_within(node: &Node, value: &mut Value, (others, fresh): (&Few<'_>, Option<&Value>)) {
    match value {
        Value::Object(map) => drop_fields(node, map, (others, fresh.and_then(Value::as_object))),
        Value::Array(items) => {
            // Only the ownerReference of the controller has its UID as a key: that is desired, and stays in any case.
            let names = ItemMatcher { controller: "" };
            let fresh = Finder::of(fresh.and_then(Value::as_array).unwrap_or_default(), [node]);
            let found = Finder::of(items, [node]);
            let places: Vec<_> = node.items.iter().map(|(name, _)| found.all(name, &names).first().copied()).collect();
            let mut dropped = BTreeSet::new();
            for ((name, below), place) in node.items.iter().zip(places) {
                let others: Few<'_> = others.iter().filter_map(|other| other.item(name)).collect();
                let Some(at) = place else { continue };
                let fresh = fresh.first(name, &names);
                if fresh.is_none() && !keep_item(name, below, &others) {
                    dropped.insert(at);
                } else if let Some(item) = items.get_mut(at) {
                    drop_within(below, item, (&others, fresh));
                    if let (Item::Keys(Value::Object(keys)), Value::Object(item)) = (name, item) {
                        // Its key fields stay as long as the item.
                        keys.iter().for_each(|(key, value)| drop(item.insert(key, value.clone())));
                    }
                }
            }
            let mut at = 0..;
            items.retain(|_| at.next().is_some_and(|at| !dropped.contains(&at)));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether other entries keep an item that is removed from an entry. The API server keeps one that has keys only for managers of the item
/// itself and of each key that the entry owns, because without its keys it would be another one. What others own in it goes with it.
fn keep_item(name: &Item, of_entry: &Node, others: &Few<'_>) -> bool {
    let Item::Keys(Value::Object(keys)) = name else { return !others.is_empty() };
    let is_kept = |key: &str| of_entry.field(key).is_none() || others.iter().any(|other| other.field(key).is_some());
    others.iter().any(|other| other.itself || !other.has_below()) && keys.iter().all(|(key, _)| is_kept(key))
}

#[cfg(test)]
mod tests {
    use super::super::tests::map;
    use super::*;

    /// The object after an apply of a desired one that a create would give as it is.
    fn applied(live: &str, desired: &str, managed: &str) -> Map {
        let desired = map(desired);
        work_out_apply(&map(live), (&desired, &desired), (None, &[]), &ManagedFields::read(managed, None))
    }

    #[test]
    fn r21_worked_out_apply_removes_only_fields_that_the_create_entry_alone_owns() {
        let created = r#"{"f:metadata":{"f:labels":{".":{},"f:a":{},"f:b":{}},"f:annotations":{".":{},"f:x":{}}},
            "f:spec":{"f:image":{},"f:policy":{"f:type":{}},"f:set":{"v:\"p\"":{},"v:\"q\"":{}},
            "f:containers":{"k:{\"name\":\"one\"}":{".":{},"f:name":{},"f:tty":{}},"k:{\"name\":\"two\"}":{".":{},"f:name":{}}}}}"#;
        // Nobody owns the label d.
        let others = r#"{"f:spec":{"f:set":{"v:\"r\"":{}}}}"#;
        let live = r#"{"metadata":{"labels":{"a":"1","b":"2","d":"4"},"annotations":{"x":"y"}},
            "spec":{"image":"i","policy":{"type":"Rolling","surge":1},"set":["p","q","r"],
            "containers":[{"name":"one","tty":true,"port":80},{"name":"two"}]}}"#;
        let desired =
            r#"{"metadata":{"labels":{"a":"1"}},"spec":{"image":"i","set":["p"],"containers":[{"name":"one"}]}}"#;
        let managed = format!(
            r#"[{{"manager":"windlass","operation":"Update","fieldsV1":{created}}},
            {{"manager":"kubectl","operation":"Update","fieldsV1":{others}}}]"#
        );
        let expected = r#"{"metadata":{"labels":{"a":"1","d":"4"}},"spec":{"image":"i","policy":{"surge":1},"set":["p","r"],
            "containers":[{"name":"one","port":80}]}}"#;
        assert_eq!(applied(live, desired, &managed), map(expected));
    }

    #[test]
    fn r21_worked_out_apply_leaves_fields_of_users_after_managed_fields_were_cleared() {
        let managed = r#"[{"manager":"windlass","operation":"Apply","fieldsV1":{"f:data":{"f:a":{},"f:b":{}}}},
            {"manager":"before-first-apply","operation":"Update","fieldsV1":{"f:data":{".":{},"f:a":{},"f:b":{},"f:users":{}}}}]"#;
        let after = applied(r#"{"data":{"a":"1","b":"2","users":"3"}}"#, r#"{"data":{"a":"1"}}"#, managed);
        assert_eq!(after, map(r#"{"data":{"a":"1","users":"3"}}"#));
    }

    #[test]
    fn r21_worked_out_apply_sets_what_is_desired_and_leaves_what_others_own() {
        let spec = r#""replicas":5,"strategy":{"type":"Rolling","surge":1},"paused":true,"old":1,"port":{"number":1}"#;
        let live = map(&format!(r#"{{"spec":{{{spec}}}}}"#));
        let desired = map(r#"{"spec":{"strategy":{"type":"Recreate"},"paused":false,"port":{"name":"web"}}}"#);
        let fresh = map(r#"{"spec":{"replicas":1,"strategy":{"type":"Recreate"},"grace":30,"port":{"name":"web"}}}"#);
        let fields =
            map(r#"{"f:spec":{"f:strategy":{"f:type":{},"f:surge":{}},"f:paused":{},"f:old":{},"f:port":{}}}"#);
        let entry = Ownership { index: 0, fields };
        let others = r#"[{"manager":"kubectl","operation":"Update","fieldsV1":{"f:spec":{"f:port":{}}}}]"#;
        let before = ManagedFields::read(others, None);
        let object = work_out_apply(&live, (&desired, &fresh), (Some(&entry), &[]), &before);
        let expected = r#"{"spec":{"replicas":5,"strategy":{"type":"Recreate"},"port":{"name":"web"}}}"#;
        assert_eq!(object, map(expected));
    }

    #[test]
    fn r21_worked_out_apply_removes_a_list_that_is_owned_as_a_whole_although_it_has_a_default() {
        let (live, desired) = (map(r#"{"a":1,"list":["users"],"map":{"b":1}}"#), map(r#"{"a":1}"#));
        let fresh = map(r#"{"a":1,"list":["default"],"map":{"b":1}}"#);
        let entry = Ownership { index: 0, fields: map(r#"{"f:a":{},"f:list":{},"f:map":{".":{}}}"#) };
        let after = work_out_apply(&live, (&desired, &fresh), (Some(&entry), &[]), &ManagedFields::default());
        assert_eq!(after, map(r#"{"a":1,"map":{"b":1}}"#));
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
        // Nobody owns the protocol, which is a default.
        let ours = |number| node(number, r#"".":{},"f:port":{},"f:name":{}"#);
        let ours = map(&format!("{{{}}}", nodes(&[1, 2, 3, 5].map(ours))));
        // The second manager owns port 2 itself and its key; ports 3 and 5 go although it owns a part of them.
        let (app, key, itself) = (r#""f:app":{}"#, r#""f:port":{}"#, r#"".":{}"#);
        let others: [(u8, &[&str]); 4] = [(1, &[app]), (2, &[itself, key, app]), (3, &[key, app]), (5, &[itself, app])];
        let others = nodes(&others.map(|(number, fields)| node(number, &fields.join(","))));
        let others = format!(r#"{{"f:env":{{"k:{{\"name\":\"E\"}}":{{}}}},{others}}}"#);
        let before = format!(r#"[{{"manager":"kubectl","operation":"Update","fieldsV1":{others}}}]"#);
        let entry = Ownership { index: 0, fields: ours };
        let desired = map(r#"{"env":[],"ports":[{"port":4},{"port":1,"name":"new"}]}"#);
        let fresh = map(&format!(r#"{{"ports":[{},{}]}}"#, port(4, ""), port(1, r#","name":"new""#)));
        let b = r#","name":"b","app":"y""#;
        let live = object(&[port(1, r#","name":"a","app":"x""#), port(2, b), port(3, b), port(5, b)]);
        let before = ManagedFields::read(&before, None);
        let after = work_out_apply(&live, (&desired, &fresh), (Some(&entry), &[]), &before);
        assert_eq!(after, object(&[port(4, ""), port(1, r#","name":"new","app":"x""#), port(2, r#","app":"y""#)]));
    }
}
