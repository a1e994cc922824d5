//! What must be equal on both sides.

use serde_json::{Value, json};

use crate::differences::differences;

/// The response's class: its code and reason, for a conflict the kind of it, and for a success what it returns.
pub fn class(code: u16, body: &Value) -> Value {
    if code < 300 {
        return json!({"code": code, "body": bare(body)});
    }
    let mut class = json!({"code": code, "reason": body["reason"]});
    if [403, 404, 409].contains(&code) {
        let text = |field: &str| body["details"][field].as_str().unwrap_or_default();
        class["object"] = json!([text("group"), text("kind"), text("name")]);
    }
    if code == 409 {
        class["kind"] = conflict(body["message"].as_str().unwrap_or_default()).into();
    }
    if [403, 409].contains(&code) {
        let mut causes: Vec<_> = body["details"]["causes"].as_array().into_iter().flatten().cloned().collect();
        causes.sort_by_key(ToString::to_string);
        class["causes"] = causes.into();
    }
    class
}

fn conflict(message: &str) -> &str {
    let kinds = [
        "Apply failed",
        "already exists",
        "uid mismatch",
        "UID in precondition",
        "the UID in the precondition",
        "the ResourceVersion in the precondition",
        "ResourceVersion in precondition",
        "the object has been modified",
    ];
    kinds.into_iter().find(|kind| message.contains(kind)).unwrap_or(message)
}

/// An object, list or event, without what each side chooses by itself.
pub fn bare(value: &Value) -> Value {
    let mut bare = value.clone();
    if let Some(items) = bare.get_mut("items").and_then(Value::as_array_mut) {
        let kind = value["kind"].as_str().unwrap_or_default().trim_end_matches("List");
        for item in &mut *items {
            item["apiVersion"] = value["apiVersion"].clone();
            item["kind"] = kind.into();
            *item = self::bare(item);
        }
        items.sort_by_key(ToString::to_string);
        return json!({"kind": value["kind"], "items": items});
    }
    if bare["kind"] == "Status" {
        return json!({"kind": "Status", "status": value["status"]});
    }
    if bare["kind"] == "Namespace" {
        // They are in no order after a deletion.
        if let Some(finalizers) = bare.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) {
            finalizers.sort_by_key(ToString::to_string);
        }
    }
    let Some(metadata) = bare.get_mut("metadata").and_then(Value::as_object_mut) else { return bare };
    for field in ["uid", "resourceVersion", "creationTimestamp"] {
        metadata.remove(field);
    }
    if let Some(time) = metadata.get_mut("deletionTimestamp") {
        *time = "set".into();
    }
    hide_generated_name(metadata);
    if let Some(entries) = metadata.get_mut("managedFields").and_then(Value::as_array_mut) {
        for entry in &mut *entries {
            entry.as_object_mut().expect("an entry").remove("time");
        }
        entries.sort_by_key(ToString::to_string);
    }
    bare
}

fn hide_generated_name(metadata: &mut serde_json::Map<String, Value>) {
    let Some(prefix) = metadata.get("generateName").and_then(Value::as_str).map(str::to_owned) else { return };
    let name = metadata["name"].as_str().unwrap_or_default().to_owned();
    if name.strip_prefix(&prefix).is_none_or(|end| end.len() != 5) {
        return;
    }
    metadata.insert("name".to_owned(), format!("{prefix}?????").into());
    if let Some(label) = metadata.get_mut("labels").and_then(|labels| labels.get_mut("kubernetes.io/metadata.name")) {
        *label = format!("{prefix}?????").into();
    }
}

/// Nothing if both are equal.
pub fn equal(what: &str, ours: &Value, theirs: &Value) -> Result<(), String> {
    if ours == theirs {
        return Ok(());
    }
    Err(format!("{what}: - model, + API server:\n{}", differences("", ours, theirs).join("\n")))
}

/// The times of an object's field managers, in seconds.
pub fn times(object: Option<&Value>) -> Vec<&Value> {
    let entries = object.and_then(|object| object.pointer("/metadata/managedFields")).and_then(Value::as_array);
    entries.into_iter().flatten().map(|entry| &entry["time"]).collect()
}
