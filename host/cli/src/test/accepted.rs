//! What the API server accepts of a response: labels, and the status.

use serde_json::Value;
use windlass_core::object::selector::{is_label_key, is_label_value};
use windlass_core::plugin::schema::structural as schema;

use super::generate::ParentKind;

/// Why the API server would refuse the labels of an object or of its Pod template.
pub fn label_problem(body: &Value) -> Option<String> {
    ["/metadata/labels", "/spec/template/metadata/labels"].iter().find_map(|at| {
        let labels = body.pointer(at)?.as_object()?;
        labels.iter().find_map(|(key, value)| {
            let value = value.as_str().unwrap_or_default();
            if !is_label_key(key) {
                Some(format!("{key:?} is not a valid name of a label"))
            } else if !is_label_value(value) {
                Some(format!("{value:?} is not a valid value of the label {key}"))
            } else {
                None
            }
        })
    })
}

/// Why the API server would refuse a status, or which field of it the API server would drop.
pub fn status_problem(kind: &ParentKind, status: &Value) -> Option<String> {
    let schema = kind.schema.as_ref()?.pointer("/properties/status")?;
    let mut status = status.clone();
    if let Some(fields) = status.as_object_mut() {
        // The host completes the conditions, and sets the generation.
        fields.remove("conditions");
        fields.remove("observedGeneration");
    }
    // The API server applies the defaults first.
    schema::fill_in(schema, &mut status);
    schema::problems_at(schema, &status, "status").into_iter().next()
}
