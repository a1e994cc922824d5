//! The entries of `metadata.managedFields`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::Write;
use crate::fields::FieldSet;

/// The number of managers of updates that an object may have. The fields of the oldest ones beyond it get into one entry.
const MAX_UPDATE_MANAGERS: usize = 10;
const OLD_UPDATES: &str = "ancient-changes";

/// What distinguishes an entry: writes with the same identity share one. The order is that of the API server's messages.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity {
    pub manager: String,
    pub operation: Operation,
    /// Empty for an apply: a manager that applies another version continues its entry.
    pub api_version: String,
    /// Without a subresource: the API server orders such entries behind those of subresources.
    pub is_main: bool,
    pub subresource: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Apply,
    Update,
}

impl Identity {
    pub fn new(write: &Write<'_>, operation: Operation) -> Self {
        let manager = if write.manager.is_empty() { "unknown" } else { write.manager };
        Self {
            manager: manager.to_owned(),
            operation,
            api_version: if operation == Operation::Apply { String::new() } else { write.api_version.to_owned() },
            is_main: write.subresource.is_none(),
            subresource: write.subresource.unwrap_or_default().to_owned(),
        }
    }

    /// As a conflict names it.
    pub fn message(&self) -> String {
        let Self { manager, operation, api_version, is_main, subresource } = self;
        let subresource = if *is_main { String::new() } else { format!(" with subresource {subresource:?}") };
        let version = if *operation == Operation::Update { format!(" using {api_version}") } else { String::new() };
        format!("conflict with {manager:?}{subresource}{version}")
    }
}

/// The fields that a manager owns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub api_version: String,
    pub fields: FieldSet,
    /// When the manager last changed the object. An apply that never changed it has none.
    pub time: Option<String>,
}

pub(crate) type Entries = BTreeMap<Identity, Entry>;

/// The entries of an object. `None` if one of them is invalid, because the API server then ignores all of them.
pub(crate) fn read(object: &Value) -> Option<Entries> {
    let list = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let mut entries = Entries::new();
    for entry in list.into_iter().flatten() {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let operation = match text("operation").as_str() {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        let api_version = text("apiVersion");
        if api_version.is_empty() || text("fieldsType") != "FieldsV1" {
            return None;
        }
        let identity = Identity {
            manager: text("manager"),
            operation,
            api_version: if operation == Operation::Apply { String::new() } else { api_version.clone() },
            is_main: text("subresource").is_empty(),
            subresource: text("subresource"),
        };
        let fields = entry.get("fieldsV1").map(FieldSet::decode).unwrap_or_default();
        let time = entry.get("time").and_then(Value::as_str).map(str::to_owned);
        entries.insert(identity, Entry { api_version, fields, time });
    }
    Some(entries)
}

/// Removes the entries from an object.
pub(crate) fn remove(object: &mut Value) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
}

/// Writes entries into an object in the API server's order: applies before updates, then by time, then by name.
pub(crate) fn write(object: &mut Value, entries: &Entries) {
    remove(object);
    let mut sorted: Vec<_> = entries.iter().collect();
    sorted.sort_by_key(|(identity, entry)| {
        (identity.operation, &entry.time, &identity.manager, &entry.api_version, &identity.subresource)
    });
    let list: Vec<_> = sorted.into_iter().map(|(identity, entry)| encode(identity, entry)).collect();
    if let (Some(Value::Object(metadata)), false) = (object.get_mut("metadata"), list.is_empty()) {
        metadata.insert("managedFields".into(), Value::Array(list));
    }
}

fn encode(identity: &Identity, entry: &Entry) -> Value {
    let mut encoded = json!({
        "manager": identity.manager,
        "operation": if identity.operation == Operation::Apply { "Apply" } else { "Update" },
        "apiVersion": entry.api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": entry.fields.encode(),
    });
    if let Value::Object(fields) = &mut encoded {
        if let Some(time) = &entry.time {
            fields.insert("time".into(), time.as_str().into());
        }
        if !identity.subresource.is_empty() {
            fields.insert("subresource".into(), identity.subresource.as_str().into());
        }
    }
    encoded
}

/// Puts the oldest entries of updates into one, for each version of the API, until there are no more than ten.
pub(crate) fn cap(entries: &mut Entries) {
    let mut updates: Vec<_> = entries.iter().filter(|(identity, _)| identity.operation == Operation::Update).collect();
    let mut count = updates.len();
    updates.sort_by_key(|(identity, entry)| (entry.time.clone(), (*identity).clone()));
    let oldest: Vec<_> = updates.into_iter().map(|(identity, _)| identity.clone()).collect();
    let mut first_of_version = BTreeMap::new();
    for identity in oldest {
        if count <= MAX_UPDATE_MANAGERS {
            return;
        }
        let Some(entry) = entries.get(&identity).cloned() else { continue };
        let Some(first) = first_of_version.get(&entry.api_version) else {
            first_of_version.insert(entry.api_version, identity);
            continue;
        };
        let bucket = Identity {
            manager: OLD_UPDATES.to_owned(),
            operation: Operation::Update,
            api_version: entry.api_version.clone(),
            is_main: true,
            subresource: String::new(),
        };
        let old = entries.remove(&bucket).or_else(|| entries.remove(first));
        entries.remove(&identity);
        let fields = old.map(|old| old.fields.union(&entry.fields)).unwrap_or_default();
        entries.insert(bucket, Entry { fields, ..entry });
        count -= 1;
    }
}
