//! What an empty value means: whether the API server stores it, who owns it, and what excludes it.

use crate::value::json::Value;

/// Fields of the API's types whose entries are all stored, also empty ones: maps of strings or quantities. Fields of other values are not
/// stored if they are empty.
const MAPS: [&str; 12] = [
    "annotations",
    "binaryData",
    "capacity",
    "data",
    "hard",
    "labels",
    "limits",
    "matchLabels",
    "nodeSelector",
    "parameters",
    "requests",
    "selector",
];

/// Unions of the API's types of which a member may be empty.
const UNIONS: [&[&str]; 3] = [
    &["value", "valueFrom"],
    &["httpGet", "tcpSocket", "exec", "grpc", "sleep"],
    // The sources of volumes.
    &[
        "configMap",
        "csi",
        // As messages of the API server misspell the next one.
        "downwarAPI",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "hostPath",
        "image",
        "iscsi",
        "nfs",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ],
];

/// Whether an Apply entry owns a zero value, also if the API server does not store it. Of an empty list, the entry owns nothing if the list
/// has keys or is a set.
pub(super) fn is_owned_once_applied(value: &Value) -> bool {
    match value {
        Value::Null | Value::Array(_) => false,
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        Value::Object(map) => map.is_empty() || map.iter().any(|(_, value)| is_owned_once_applied(value)),
    }
}

/// Whether two fields are members of the same union: an object has only one of them.
pub(super) fn excludes(field: &str, other: &str) -> bool {
    field != other && UNIONS.iter().any(|union| union.contains(&field) && union.contains(&other))
}

/// Whether a value in the map with this name is stored, also if it is zero.
pub(super) fn is_entry_of_map(map: &str, value: &Value) -> bool {
    value.is_scalar() && MAPS.contains(&map)
}

pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

pub(super) fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.is_zero(),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.iter().all(|(_, value)| is_zero(value)),
    }
}
