//! Masks the values of Secrets in output.

use serde_json::{Map, Value, json};

/// The text that replaces a value.
const MASK: &str = "***";

/// The fields of a Secret that hold its values.
const VALUES: [&str; 2] = ["data", "stringData"];

/// The annotation in which client-side apply keeps a copy of the object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Masks the values of an object, if it is a Secret.
pub fn mask(object: &mut Value) {
    if is_secret(object) {
        for field in VALUES {
            let values = object.get_mut(field).and_then(Value::as_object_mut);
            for (_, value) in values.into_iter().flatten() {
                *value = json!(MASK);
            }
        }
        mask_copy(object);
    }
}

/// Masks the values of two states of an object, if it is a Secret, so that a change of a value is visible, as kubectl
/// does: an equal value is `***` in both, a changed one `*** (before)` and `*** (after)`.
pub fn mask_pair(before: Option<&mut Value>, after: Option<&mut Value>) {
    let (before, after) = match (before, after) {
        (Some(before), Some(after)) => (before, after),
        (Some(alone), None) | (None, Some(alone)) => return mask(alone),
        (None, None) => return,
    };
    if !is_secret(before) && !is_secret(after) {
        return;
    }
    for field in VALUES {
        let values = |object: &mut Value| object.get_mut(field).and_then(Value::as_object_mut).map(std::mem::take);
        let (mut old, mut new) = (values(before).unwrap_or_default(), values(after).unwrap_or_default());
        for (name, value) in &mut old {
            match new.get_mut(name) {
                Some(other) if other == value => (*value, *other) = (json!(MASK), json!(MASK)),
                Some(other) => (*value, *other) = (json!("*** (before)"), json!("*** (after)")),
                None => *value = json!(MASK),
            }
        }
        for (_, value) in new.iter_mut().filter(|(name, _)| !old.contains_key(*name)) {
            *value = json!(MASK);
        }
        for (object, masked) in [(&mut *before, old), (&mut *after, new)] {
            put_back(object, field, masked);
        }
    }
    mask_copy(before);
    mask_copy(after);
}

fn put_back(object: &mut Value, field: &str, values: Map<String, Value>) {
    if let Some(place) = object.get_mut(field) {
        *place = Value::Object(values);
    }
}

fn is_secret(object: &Value) -> bool {
    let text = |field: &str| object.get(field).and_then(Value::as_str);
    (text("apiVersion"), text("kind")) == (Some("v1"), Some("Secret"))
}

fn mask_copy(object: &mut Value) {
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
        && let Some(copy) = annotations.get_mut(LAST_APPLIED)
    {
        *copy = json!(MASK);
    }
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
        assert_eq!((&masked["data"]["password"], &masked["type"]), (&json!("***"), &json!("Opaque")));
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}});
        let mut same = map.clone();
        mask(&mut same);
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
    fn data_that_exists_on_one_side_only_is_masked() {
        let (mut before, mut after) =
            (json!({"apiVersion": "v1", "kind": "Secret"}), secret(&json!({"new": "c2VjcmV0"})));
        mask_pair(Some(&mut before), Some(&mut after));
        assert_eq!((before.get("data"), &after["data"]), (None, &json!({"new": "***"})));
    }
}
