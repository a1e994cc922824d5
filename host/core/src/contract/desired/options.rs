//! Takes the options of a child out of its metadata, and rejects metadata that a plugin must not set.

use super::rejection::ResponseRejection;
use crate::contract::ChildOptions;
use crate::object::names;
use crate::value::json::{Map, Value};

/// The metadata that the API server alone sets. It is ignored in a returned child.
const SET_BY_API_SERVER: [&str; 8] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// The options of a child: `given` by the response, or else (contract 0.1) by annotations, which are removed.
///
/// # Errors
/// If the metadata has fields that a plugin must not set.
pub(super) fn strip_options(
    meta: &mut Map,
    child: &str,
    given: Option<&ChildOptions>,
) -> Result<ChildOptions, ResponseRejection> {
    let not_allowed =
        |field: String| ResponseRejection::not_allowed(format!("{child} sets {field}, which plugins must not set"));
    // Typed builders write null and empty lists for unset fields. What the API server sets is in each object that was read.
    let is_unset = |value: &Value| matches!(value, Value::Null) || value.as_array().is_some_and(<[Value]>::is_empty);
    meta.retain(|field, value| !is_unset(value) && !SET_BY_API_SERVER.contains(&field));
    if let Some((field, _)) =
        meta.iter().find(|(key, _)| !matches!(*key, "name" | "namespace" | "labels" | "annotations"))
    {
        return Err(not_allowed(format!("metadata.{field}")));
    }
    let mut options = given.cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        let Some(value) = meta.get(field) else { continue };
        let wrong_type =
            |part: &str, expected| ResponseRejection::wrong_type(child, &format!("metadata.{field}{part}"), expected);
        let entries = value.as_object().ok_or_else(|| wrong_type("", "map of strings"))?;
        if let Some((key, _)) = entries.iter().find(|(_, value)| value.as_str().is_none()) {
            return Err(wrong_type(&format!("[{key}]"), "string"));
        }
        for (key, value) in entries.iter().filter(|(key, _)| key.starts_with(names::ANNOTATION_PREFIX)) {
            let on = value.as_str() == Some("true");
            match (field, key, given) {
                ("annotations", names::ANNOTATION_RETAIN, None) => options.retain = on,
                ("annotations", names::ANNOTATION_TAKE_OVER, None) => options.take_over = on,
                ("annotations", names::ANNOTATION_RETAIN | names::ANNOTATION_TAKE_OVER, Some(_)) => {
                    return Err(ResponseRejection::not_allowed(format!(
                        "{child} sets metadata.annotations[{key}]; since contract 0.2 this is a field of the child: retain, take-over"
                    )));
                }
                _ => return Err(not_allowed(format!("metadata.{field}[{key}]"))),
            }
        }
    }
    if let Some(annotations) = meta.object_mut("annotations") {
        annotations.retain(|key, _| !key.starts_with(names::ANNOTATION_PREFIX));
    }
    Ok(options)
}
