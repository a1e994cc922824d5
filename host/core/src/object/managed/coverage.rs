//! Whether the host still owns all fields of a desired child, by the entries in `managedFields`.

use super::empty::{excludes, is_empty, is_entry_of_map, is_owned_once_applied, is_zero};
use super::{Entry, ItemMatcher, ManagedFields, Node, Nodes};
use crate::value::ids::Uid;
use crate::value::json::{self, Map, Value};
use crate::value::packed::Json;

impl ManagedFields {
    /// Returns true if the host's entries cover every field of a desired object, whose controller is `controller`.
    /// Ignores apiVersion, kind, name and namespace, which no manager owns. `live` is the object's JSON; it is parsed
    /// only if the entries are ambiguous.
    pub fn cover(&self, desired: &Map, live: &Json, controller: Option<&Uid>) -> bool {
        let others = self.others.iter().filter_map(Entry::tree).collect();
        let nodes = Nodes { ours: self.own().collect(), others, ..Nodes::default() };
        let controller = controller.map(ToString::to_string).unwrap_or_default();
        let coverage = Coverage { names: ItemMatcher { controller: &controller }, is_applied: self.apply.is_some() };
        if coverage.covers_object(&nodes, desired, None) {
            return true;
        }
        json::parse(&live.bytes(), json::OBJECT_DEPTH)
            .is_ok_and(|live| coverage.covers_object(&nodes, desired, live.as_object()))
    }
}

impl Nodes<'_> {
    /// Returns true if an empty node of the host owns the whole value: a scalar, or an atomic list or map.
    ///
    /// An empty node is ambiguous: the host owns the whole value, or it owned entries below it and other managers took
    /// all of them. In the second case another manager owns something below it, or the live object lacks an entry.
    ///
    /// `key` is the name of the value's field.
    fn own_whole(&self, key: &str, value: &Value, live: Option<&Value>) -> bool {
        let taken = || self.others.iter().any(|node| node.has_below());
        self.ours.iter().any(|node| node.is_empty())
            && match value {
                Value::Object(map) if !map.is_empty() => {
                    let live = live.and_then(Value::as_object);
                    let may_lack = |value| is_zero(value) && !is_entry_of_map(key, value);
                    let is_there = |(key, value)| live.is_some_and(|live| live.get(key).is_some()) || may_lack(value);
                    !taken() && map.iter().all(is_there)
                }
                Value::Array(items) if !items.is_empty() => {
                    let live = live.and_then(Value::as_array).unwrap_or_default();
                    !taken() && live.len() >= items.len()
                }
                _ => true,
            }
    }

    /// Returns true if another manager owns a scalar, or an atomic list or map, here. A map with several managers does
    /// not count: its other entries belong to them, and the host's apply does not remove those.
    fn others_own_whole(&self) -> bool {
        self.others.iter().any(|node| node.is_empty())
    }
}

/// A desired map, or the object itself, at its place.
#[derive(Clone, Copy)]
struct MapAt<'a, 'n> {
    nodes: &'a Nodes<'n>,
    /// The name of the map's field.
    name: &'a str,
    desired: &'a Map,
    /// The live map; none in the first pass, without the live object.
    live: Option<&'a Map>,
}

/// Compares field ownership with a desired object.
struct Coverage<'c> {
    names: ItemMatcher<'c>,
    /// Whether the host has applied the object. It owns desired fields then that the API server does not store ([`is_owned_once_applied`]).
    is_applied: bool,
}

impl Coverage<'_> {
    fn covers_object(&self, nodes: &Nodes<'_>, desired: &Map, live: Option<&Map>) -> bool {
        desired.iter().filter(|(key, _)| !matches!(*key, "apiVersion" | "kind")).all(|(key, value)| {
            match (key, value) {
                ("metadata", Value::Object(meta)) => {
                    let inside = nodes.below("metadata");
                    let live = live.and_then(|live| live.get("metadata")).and_then(Value::as_object);
                    let of = MapAt { nodes: &inside, name: "metadata", desired: meta, live };
                    meta.iter()
                        .filter(|(key, _)| !matches!(*key, "name" | "namespace"))
                        .all(|(key, value)| self.covers_field(of, key, value))
                }
                _ => self.covers_field(MapAt { nodes, name: "", desired, live }, key, value),
            }
        })
    }

    fn covers_field(&self, of: MapAt<'_, '_>, key: &str, value: &Value) -> bool {
        let (inside, live) = (of.nodes.below(key), of.live.and_then(|live| live.get(key)));
        if is_empty(value) && inside.ours.is_empty() && inside.others.is_empty() {
            return live.is_some() || self.may_lack(of, key, value);
        }
        // A create with `false` stores no field and owns none. If the live object still lacks the field, the desired zero value is in force.
        let is_lacking = of.live.is_some() && live.is_none();
        self.covers_value(&inside, key, value, live) || (is_lacking && is_zero(value) && self.may_lack(of, key, value))
    }

    /// Whether a zero value that nobody owns and the live object lacks is in force: the API server has not stored it when the host created
    /// the object, and no other manager has chosen another member of a union in its place.
    fn may_lack(&self, of: MapAt<'_, '_>, key: &str, value: &Value) -> bool {
        let is_removed = self.is_applied && is_owned_once_applied(value);
        let is_other = |field: &str| of.desired.get(field).is_none() && excludes(key, field);
        let is_chosen = |other: &&Node| other.fields.iter().any(|(field, _)| is_other(field));
        !is_removed && !is_entry_of_map(of.name, value) && !of.nodes.others.iter().any(is_chosen)
    }

    /// `key` is the name of the value's field, and empty for a list item.
    fn covers_value(&self, nodes: &Nodes<'_>, key: &str, value: &Value, live: Option<&Value>) -> bool {
        if nodes.own_whole(key, value, live) {
            return true;
        }
        // The desired value is empty. The API server rarely stores an empty value, so the host's create did not make it
        // the owner of this field; another manager owns it, and may have filled it since. Only the live value shows
        // whether the field is still empty.
        if is_zero(value) && !value.is_scalar() && nodes.others_own_whole() {
            return live.is_some_and(|live| is_as_empty(Some(value), live));
        }
        match value {
            // The API server drops nulls, so there may be nothing to own.
            Value::Null => true,
            Value::Object(map) => {
                let live = live.and_then(Value::as_object);
                let of = MapAt { nodes, name: key, desired: map, live };
                map.iter().all(|(key, value)| self.covers_field(of, key, value))
            }
            Value::Array(items) => {
                let live = live.and_then(Value::as_array).unwrap_or_default();
                self.covers_items(nodes, items, live)
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }

    /// Returns true if the items of a keyed list (`k:`) or of a set (`v:`) are covered.
    fn covers_items(&self, nodes: &Nodes<'_>, items: &[Value], live: &[Value]) -> bool {
        let mut pairs = items.iter().zip(nodes.of_items((items, live), &self.names));
        pairs.all(|(item, (below, live))| !below.ours.is_empty() && self.covers_value(&below, "", item, live))
    }
}

/// Returns true if a live value adds nothing to an empty desired one. A scalar must be the same zero value, since
/// `false` can differ from an unset field.
fn is_as_empty(desired: Option<&Value>, live: &Value) -> bool {
    match live {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => {
            let desired = desired.and_then(Value::as_object);
            map.iter().all(|(key, live)| is_as_empty(desired.and_then(|desired| desired.get(key)), live))
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => desired == Some(live),
    }
}
