//! The plugin's part of a status as the API server would store it.

use serde_json::Value;
use windlass_core::object::names::parent_condition;
use windlass_core::plugin::schema::structural as schema;

/// The plugin's part of the status, as the cluster would store it: fields that the CRD does not have are pruned, and
/// the host's own fields are dropped. For a kind whose CRD the component does not carry, the host writes no status.
pub fn keep_status(schema: Option<&Value>, is_own_kind: bool, status: &mut Value) {
    if !is_own_kind {
        err!("note: the plugin's status is dropped: the kind is not the plugin's own");
        *status = Value::Null;
        return;
    }
    if let Some(status) = status.as_object_mut() {
        status.remove("observedGeneration");
        if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
            let is_hosts = |kind: &str| [parent_condition::RECONCILING, parent_condition::STALLED].contains(&kind);
            conditions.retain(|one| !one.get("type").and_then(Value::as_str).is_some_and(is_hosts));
        }
    }
    let Some(schema) = schema else { return };
    let Some(schema) = schema.pointer("/properties/status") else {
        if schema.get("x-kubernetes-preserve-unknown-fields") != Some(&Value::Bool(true)) {
            err!("note: the plugin's status is dropped: the component's CRD has none");
            *status = Value::Null;
        }
        return;
    };
    let before = status.clone();
    schema::prune(schema, status);
    if *status != before {
        err!("note: the component's CRD drops fields of the plugin's status; it is printed without them");
    }
    // The host completes the conditions, so they match the schema.
    let mut judged = status.clone();
    if let Some(judged) = judged.as_object_mut() {
        judged.remove("conditions");
    }
    for problem in schema::problems_at(schema, &judged, "status") {
        err!("note: the API server would refuse the plugin's status: {problem}");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn status_is_printed_as_the_api_server_would_store_it() {
        let schema = json!({"type": "object", "properties": {"status": {"type": "object", "properties": {
            "ready": {"type": "integer"},
            "conditions": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        }}}});
        let kept = |schema: Option<&Value>, is_own_kind| {
            let mut status = json!({
                "ready": 1, "typo": 2, "observedGeneration": 7,
                "conditions": [{"type": "Stalled", "status": "True"}, {"type": "Ready", "status": "True"}],
            });
            keep_status(schema, is_own_kind, &mut status);
            status
        };
        let expected = json!({"ready": 1, "conditions": [{"type": "Ready", "status": "True"}]});
        assert_eq!(kept(Some(&schema), true), expected);
        assert_eq!(
            kept(Some(&json!({"type": "object", "properties": {}})), true),
            Value::Null,
            "a CRD without a status"
        );
        assert_eq!(kept(None, false), Value::Null, "an existing kind");
    }
}
