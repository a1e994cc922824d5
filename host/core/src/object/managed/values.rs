//! Compares a live object's values with the desired values, whichever manager owns them. Managed fields cannot reveal a
//! change by a user who writes under the host's own manager name: only the values show it.

use super::empty::{excludes, is_entry_of_map, is_zero};
use super::{ItemMatcher, ManagedFields, Nodes};
use crate::value::ids::Uid;
use crate::value::json::{Map, Value};
use crate::value::quantity::Quantity;

/// Fields that the API server adds to values that are written as a whole, for example to an item of an atomic list.
const ADDED: [&str; 10] = [
    "apiVersion",
    "creationTimestamp",
    "defaultMode",
    "divisor",
    "expirationSeconds",
    "kind",
    "mode",
    "protocol",
    "status",
    "volumeMode",
];

impl ManagedFields {
    /// Returns true if any live value differs from the desired value. A different representation by the API server
    /// (quantities, defaults, empty values) is not a difference. `controller` is the UID of the object's controller, which is
    /// part of the name of an ownerReference in managed fields.
    pub fn differs(&self, desired: &Map, live: &Map, controller: Option<&Uid>) -> bool {
        let nodes = Nodes { ours: self.own().collect(), ..Nodes::default() };
        let controller = controller.map(ToString::to_string).unwrap_or_default();
        Difference { names: ItemMatcher { controller: &controller }, quantities: false }
            .of_object(&nodes, desired, live)
    }
}

/// Whether the API server may store other values for a desired object than those that [`ManagedFields::differs`] expects: it sets defaults
/// in maps that are items of a list, and the list may have a single owner.
pub fn may_differ_as_stored(desired: &Map) -> bool {
    fn has_maps_in_lists(value: &Value) -> bool {
        match value {
            Value::Object(map) => map.iter().any(|(_, value)| has_maps_in_lists(value)),
            Value::Array(items) => items.iter().any(|item| item.as_object().is_some() || has_maps_in_lists(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }
    desired.iter().any(|(key, value)| key != "metadata" && has_maps_in_lists(value))
}

/// How values are compared.
#[derive(Clone, Copy)]
struct Difference<'c> {
    names: ItemMatcher<'c>,
    /// Whether quantities are normalized, so that `1` equals `1000m`.
    quantities: bool,
}

/// A place in the object.
#[derive(Clone, Copy)]
struct At<'a, 'n> {
    nodes: &'a Nodes<'n>,
    /// The field's name; empty for a list item.
    key: &'a str,
    /// Whether the place is part of a value with a single owner, so that additional live fields are a difference.
    is_whole: bool,
}

impl Difference<'_> {
    fn of_object(self, nodes: &Nodes<'_>, desired: &Map, live: &Map) -> bool {
        desired.iter().any(|(key, value)| match (key, value) {
            ("apiVersion" | "kind", _) => false,
            ("metadata", Value::Object(meta)) => {
                let inside = nodes.below("metadata");
                let live = live.get("metadata").and_then(Value::as_object);
                let fields = meta.iter().filter(|(key, _)| !matches!(*key, "name" | "namespace"));
                let mut fields = fields.map(|(key, value)| (key, value, live.and_then(|live| live.get(key))));
                fields.any(|(key, value, live)| self.of_field(&inside, key, value, live, false))
            }
            ("data" | "binaryData", _) => self.of_field(nodes, key, value, live.get(key), false),
            _ => Self { quantities: true, ..self }.of_field(nodes, key, value, live.get(key), false),
        })
    }

    fn of_field(self, nodes: &Nodes<'_>, key: &str, desired: &Value, live: Option<&Value>, is_whole: bool) -> bool {
        let nodes = nodes.below(key);
        self.of(At { nodes: &nodes, key, is_whole }, desired, live)
    }

    fn of(self, at: At<'_, '_>, desired: &Value, live: Option<&Value>) -> bool {
        let Some(live) = live.filter(|live| **live != Value::Null) else { return !is_zero(desired) };
        match (desired, live) {
            (Value::Null, _) => false,
            (Value::Object(desired), Value::Object(live)) => {
                let is_whole = at.is_whole || is_selector(at.key) || !desired.is_empty() && owned_whole(at.nodes);
                let is_more = |(key, live): (&str, &Value)| {
                    desired.get(key).is_none() && !ADDED.contains(&key) && *live != Value::Null
                };
                let is_lost = |key, value: &Value| {
                    let is_other = |(other, _): (&str, _)| desired.get(other).is_none() && excludes(key, other);
                    live.get(key).is_none() && (is_entry_of_map(at.key, value) || live.iter().any(is_other))
                };
                let mut fields = desired.iter();
                (is_whole && live.iter().any(is_more))
                    || fields.any(|(key, value)| {
                        is_lost(key, value) || self.of_field(at.nodes, key, value, live.get(key), is_whole)
                    })
            }
            (Value::Array(desired), Value::Array(live)) if at.is_whole || owned_whole(at.nodes) => {
                let nodes = Nodes::default();
                let at = At { nodes: &nodes, key: "", is_whole: true };
                let mut pairs = desired.iter().zip(live);
                desired.len() != live.len() || pairs.any(|(desired, live)| self.of(at, desired, Some(live)))
            }
            (Value::Array(desired), Value::Array(live)) => self.of_items(at.nodes, desired, live),
            (Value::Object(_) | Value::Array(_), _) | (_, Value::Object(_) | Value::Array(_)) => true,
            (desired, live) => desired != live && !(self.quantities && is_same_quantity(desired, live)),
        }
    }

    /// Compares a list whose items have separate owners. An item that an entry names by keys is compared with the live
    /// item with these keys; any other desired item must equal some live item.
    fn of_items(self, nodes: &Nodes<'_>, desired: &[Value], live: &[Value]) -> bool {
        let matched = nodes.of_items((desired, live), &self.names);
        desired.iter().zip(&matched).any(|(desired, (below, found))| {
            let differs = |live| self.of(At { nodes: below, key: "", is_whole: false }, desired, Some(live));
            match found {
                Some(live) => differs(live),
                None => live.iter().all(differs),
            }
        })
    }
}

/// Returns true if an entry of the host owns the whole value at a place.
fn owned_whole(nodes: &Nodes<'_>) -> bool {
    nodes.ours.iter().any(|node| node.is_empty())
}

/// Returns true if the field is a label selector: it has a single owner, and the API server adds nothing to it, even if
/// it is empty.
fn is_selector(key: &str) -> bool {
    // `selector`, and names such as `podSelector`.
    key.ends_with("elector")
}

/// Returns true if two scalars are the same quantity (`1`, `1000m`), which the API server may write differently.
fn is_same_quantity(a: &Value, b: &Value) -> bool {
    quantity(a).is_some_and(|a| quantity(b) == Some(a))
}

fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text),
        Value::Number(number) => Quantity::parse(number.as_str()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{managed, map};

    const FIELDS: &str = r#"{"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:selector":{},"f:cpu":{},"f:paused":{},
        "f:rules":{},"f:ref":{},"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{},"f:name":{}}},
        "f:names":{"v:\"a\"":{}},"f:policies":{}}}"#;
    const DESIRED: &str = r#"{"apiVersion":"v1","kind":"Thing","metadata":{"name":"x","labels":{"app":"a"}},"spec":{
        "selector":{},"cpu":"1000m","paused":false,"rules":[{"from":[{"podSelector":{}}],"ports":[{"port":1}]}],
        "ref":{"path":"p"},"ports":[{"port":80,"name":"web"}],"names":["a"],"policies":[],"note":null}}"#;
    const LIVE: &str = r#"{"apiVersion":"v1","kind":"Thing","metadata":{"name":"x","uid":"1","labels":{"app":"a","b":"c"}},
        "spec":{"selector":{},"cpu":"1","rules":[{"from":[{"podSelector":{}}],"ports":[{"port":1,"protocol":"TCP"}]}],
        "ref":{"path":"p","apiVersion":"v1"},"ports":[{"port":443,"protocol":"TCP"},
        {"port":80,"protocol":"TCP","name":"web","nodePort":3}],"names":["b","a"],"grace":30},"status":{"x":1}}"#;

    fn differs(operation: &str, live: &str) -> bool {
        let list = managed(&[("windlass", operation, FIELDS)]);
        list.differs(&map(DESIRED), &map(live), Some(&"of-parent".into()))
    }

    #[test]
    fn s06_values_that_the_api_server_normalizes_or_adds_are_not_a_difference() {
        for operation in ["Apply", "Update"] {
            assert!(!differs(operation, LIVE), "{operation}");
        }
    }

    #[test]
    fn s06_value_changed_under_the_hosts_field_manager_is_a_difference() {
        for (from, to) in [
            (r#""app":"a""#, r#""app":"b""#),
            (r#""cpu":"1""#, r#""cpu":"2""#),
            (r#""cpu":"1""#, r#""paused":true,"cpu":"1""#),
            (r#""selector":{}"#, r#""selector":{"none":"x"}"#),
            (r#"{"podSelector":{}}"#, r#"{"podSelector":{"none":"x"}}"#),
            (r#"{"podSelector":{}}"#, r#"{"podSelector":{},"namespaceSelector":{}}"#),
            (r#"{"podSelector":{}}"#, r#"{"podSelector":{}},{}"#),
            (r#""rules":["#, r#""rules":[{},"#),
            (r#""ref":{"path":"p""#, r#""ref":{"path":"q""#),
            (r#""name":"web""#, r#""name":"other""#),
            (r#"{"port":80,"protocol":"TCP","name":"web","nodePort":3}"#, r#"{"port":81}"#),
            (r#"["b","a"]"#, r#"["b"]"#),
            (r#""grace":30"#, r#""grace":30,"policies":[{}]"#),
        ] {
            let live = LIVE.replace(from, to);
            assert_ne!(live, LIVE, "{from}");
            for operation in ["Apply", "Update"] {
                assert!(differs(operation, &live), "{operation}: {from} became {to}");
            }
        }
    }

    #[test]
    fn s06_data_of_a_secret_is_compared_as_text() {
        let desired = map(r#"{"data":{"a":"eA==","b":"cMOkc3N3b3Jk","c":"MTI=","d":"MQ=="}}"#);
        let live = r#"{"data":{"a":"eA==","b":"cMOkc3N3b3Jk","c":"MTI=","d":"MQ==","more":""}}"#;
        let fields = managed(&[("windlass", "Update", r#"{"f:data":{"f:a":{},"f:b":{},"f:c":{},"f:d":{}}}"#)]);
        assert!(!fields.differs(&desired, &map(live), None));
        for (from, to) in [("eA==", "eQ=="), ("MQ==", "MS4w"), (r#""c":"MTI=","#, "")] {
            assert!(fields.differs(&desired, &map(&live.replace(from, to)), None), "{from} became {to:?}");
        }
        let numbers = map(r#"{"data":{"n":"1"}}"#);
        assert!(fields.differs(&numbers, &map(r#"{"data":{"n":"1000m"}}"#), None), "values of data are not quantities");
    }
}
