//! Masks the values of Secrets in output.

use serde_json::{Value, json};
use windlass_core::contract::declared_parent::text;

/// The text that replaces a value.
const MASK: &str = "***";

/// The fields of a Secret that hold its values.
const VALUES: [&str; 2] = ["data", "stringData"];

/// The annotation in which client-side apply keeps a copy of the object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Masks the values of an object, if it is a Secret; returns whether it is one. Values of `stringData` are shown in `data`, where the API
/// server would store them: it refuses a mask in `data`, and would take one in `stringData` for the value.
pub fn mask(object: &mut Value) -> bool {
    if !is_secret(object) {
        return false;
    }
    mask_against(object, None, MASK);
    let Some(fields) = object.as_object_mut() else { return true };
    match (fields.remove("stringData"), fields.get_mut("data")) {
        (Some(Value::Object(more)), Some(Value::Object(data))) => data.extend(more),
        (Some(more), None) => drop(fields.insert("data".to_owned(), more)),
        (Some(_), Some(_)) | (None, _) => {}
    }
    true
}

/// Masks the values of two states of an object, if it is a Secret, so that a change of a value is visible, as kubectl
/// does: an equal value is `***` in both, a changed one `*** (before)` and `*** (after)`.
pub fn mask_pair(before: Option<&mut Value>, after: Option<&mut Value>) {
    match (before, after) {
        (Some(before), Some(after)) if is_secret(before) || is_secret(after) => {
            let was = before.clone();
            mask_against(before, Some(after), "*** (before)");
            mask_against(after, Some(&was), "*** (after)");
        }
        (Some(alone), None) | (None, Some(alone)) => {
            mask(alone);
        }
        // None is a Secret.
        (Some(_), Some(_)) | (None, None) => {}
    }
}

/// Masks the values of an object, also in the copy of client-side apply. A value that is another one in the other state becomes `changed`.
fn mask_against(object: &mut Value, other: Option<&Value>, changed: &str) {
    for field in VALUES {
        let other = other.and_then(|other| other.get(field));
        match object.get_mut(field) {
            Some(Value::Object(values)) if other.is_none_or(Value::is_object) => {
                for (name, value) in values {
                    mask_value(value, other.and_then(|other| other.get(name)), changed);
                }
            }
            // It or the other one is malformed: a plugin may return anything.
            Some(whole) => mask_value(whole, other, changed),
            None => {}
        }
    }
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
        && let Some(copy) = annotations.get_mut(LAST_APPLIED)
    {
        *copy = json!(MASK);
    }
}

fn mask_value(value: &mut Value, other: Option<&Value>, changed: &str) {
    let is_changed = other.is_some_and(|other| other != value);
    *value = json!(if is_changed { changed } else { MASK });
}

fn is_secret(object: &Value) -> bool {
    (text(object, "/apiVersion"), text(object, "/kind")) == ("v1", "Secret")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(data: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": data})
    }

    #[test]
    fn values_of_secrets_are_masked_and_other_objects_are_not() {
        let mut masked = secret(&json!({"password": "aHVudGVy"}));
        masked["stringData"] = json!({"token": "hunter"});
        masked["metadata"] = json!({"annotations": {LAST_APPLIED: "{\"data\":{\"password\":\"aHVudGVy\"}}"}});
        mask(&mut masked);
        assert!(!masked.to_string().contains("aHVudGVy") && !masked.to_string().contains("hunter"), "{masked}");
        assert_eq!((&masked["data"], &masked["type"]), (&json!({"password": "***", "token": "***"}), &json!("Opaque")));
        assert_eq!(masked.get("stringData"), None, "kubectl would write a mask in stringData as the value");
        let mut only_text = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"token": "hunter"}});
        assert!(mask(&mut only_text));
        assert_eq!(only_text, json!({"apiVersion": "v1", "kind": "Secret", "data": {"token": "***"}}));
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}});
        let mut same = map.clone();
        assert!(!mask(&mut same));
        assert_eq!(same, map);
    }

    #[test]
    fn changed_value_of_a_secret_stays_visible_as_changed() {
        let (mut before, mut after) = (
            secret(&json!({"same": "YQ==", "changed": "YQ==", "gone": "YQ=="})),
            secret(&json!({"same": "YQ==", "changed": "Yg==", "new": "YQ=="})),
        );
        mask_pair(Some(&mut before), Some(&mut after));
        assert_eq!(before["data"], json!({"same": "***", "changed": "*** (before)", "gone": "***"}));
        assert_eq!(after["data"], json!({"same": "***", "changed": "*** (after)", "new": "***"}));
        let mut alone = secret(&json!({"a": "YQ=="}));
        mask_pair(None, Some(&mut alone));
        assert_eq!(alone["data"], json!({"a": "***"}), "a created Secret is masked, too");
    }

    #[test]
    fn data_that_is_not_an_object_is_masked() {
        for malformed in [json!("aHVudGVy"), json!(["aHVudGVy"])] {
            let mut alone = secret(&malformed);
            mask(&mut alone);
            assert_eq!(alone["data"], json!("***"));
            let (mut before, mut after) = (secret(&json!({"a": "aHVudGVy"})), secret(&malformed));
            mask_pair(Some(&mut before), Some(&mut after));
            assert_eq!((&before["data"], &after["data"]), (&json!("*** (before)"), &json!("*** (after)")));
        }
    }

    #[test]
    fn data_that_exists_on_one_side_only_is_masked() {
        let (mut before, mut after) =
            (json!({"apiVersion": "v1", "kind": "Secret"}), secret(&json!({"new": "c2VjcmV0"})));
        mask_pair(Some(&mut before), Some(&mut after));
        assert_eq!((before.get("data"), &after["data"]), (None, &json!({"new": "***"})));
    }
}
