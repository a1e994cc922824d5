//! A Secret's `stringData` as the `data` that the API server stores.
//!
//! The API server reads `stringData` and never returns it. A server-side apply with it owns fields that do not exist, so it would neither
//! remove a key that is no longer desired, nor lose a field to another manager that changes a value. So the host never sends it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::ResponseRejection;
use crate::value::json::{Map, Value};

/// Moves the values of `stringData` to `data`. Of a key that is in both, the API server stores the value in `stringData`.
pub(super) fn store_string_data(secret: &mut Map, child: &str) -> Result<(), ResponseRejection> {
    let wrong_type = |field: &str, expected| ResponseRejection::wrong_type(child, field, expected);
    let texts = match secret.remove("stringData") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(texts)) => texts,
        Some(_) => return Err(wrong_type("stringData", "map of strings")),
    };
    if texts.is_empty() {
        return Ok(());
    }
    if secret.get("data") == Some(&Value::Null) {
        secret.remove("data");
    }
    let data = secret.object_mut("data").ok_or_else(|| wrong_type("data", "map of strings"))?;
    for (key, text) in texts.iter() {
        let text = match text {
            Value::Null => "",
            Value::String(text) => text,
            _ => return Err(wrong_type(&format!("stringData[{key}]"), "string")),
        };
        data.insert(key, STANDARD.encode(text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::ResponseRejection;
    use crate::contract::UpdateStrategy;
    use crate::contract::desired::DesiredChild;
    use crate::fixtures::{validate, validate_secrets};

    fn secret(fields: &Value) -> Value {
        let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
        let fields = fields.as_object().expect("fields").clone();
        secret.as_object_mut().expect("an object").extend(fields);
        secret
    }

    fn desired(fields: &Value) -> Result<DesiredChild, ResponseRejection> {
        validate_secrets(&[secret(fields)], &UpdateStrategy::Apply).map(|desired| (*desired.children[0]).clone())
    }

    #[test]
    fn r06_string_data_of_a_secret_is_desired_as_the_data_that_the_api_server_stores() {
        for (written, stored) in [
            (json!({"stringData": {"a": "x", "b": "pässword"}}), json!({"data": {"a": "eA==", "b": "cMOkc3N3b3Jk"}})),
            (
                json!({"stringData": {"a": "x"}, "data": {"a": "eQ==", "b": "eg=="}}),
                json!({"data": {"a": "eA==", "b": "eg=="}}),
            ),
            (json!({"stringData": {"a": null}, "data": null}), json!({"data": {"a": ""}})),
            (json!({"stringData": {}}), json!({})),
            (json!({"stringData": null, "data": {"a": "eA=="}}), json!({"data": {"a": "eA=="}})),
        ] {
            let (written, stored) = (desired(&written).expect("valid"), desired(&stored).expect("valid"));
            assert_eq!((written.body, written.applied), (stored.body, stored.applied));
        }
    }

    #[test]
    fn string_data_of_another_type_is_rejected_and_of_another_kind_is_left_alone() {
        for (fields, field) in [
            (json!({"stringData": {"a": 1}}), "stringData[a] is not a string"),
            (json!({"stringData": ["a"]}), "stringData is not a map of strings"),
            (json!({"stringData": {"a": "x"}, "data": ["a"]}), "data is not a map of strings"),
        ] {
            let refused = desired(&fields).expect_err("refused").to_string();
            assert!(refused.contains(field), "{refused}");
        }
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "stringData": {"a": "x"}});
        let kept = validate(&[map]).expect("valid");
        assert!(kept.children[0].body.get("stringData").is_some());
    }
}
