//! Failures of a call: constructors for the type of the contract.

use std::time::Duration;

use serde::Deserialize;

use crate::{
    json_path,
    raw::{Failure, Retry},
};

impl Failure {
    /// The parent's spec is invalid. The message names the field and what would be valid: users read it in the parent's condition
    /// (`Stalled=True, reason=InvalidSpec`). The host does not retry before the parent changes; in a call to clean up, it retries
    /// with backoff.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }

    /// The plugin waits for something, which the message names: the host calls again after `after`, at least one second.
    pub fn retry(message: impl Into<String>, after: Duration) -> Self {
        Self::Retry(Retry { message: message.into(), after: milliseconds(after) })
    }

    /// Any other failure: the host calls again with exponential backoff.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }
}

/// Milliseconds, the unit of time in the contract.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The message of a serde error without the position in the document, which users do not see.
pub(crate) fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((reason, _)) => reason.to_owned(),
        None => text,
    }
}

/// Reads JSON that a user wrote. The error is a message for users that names the field, below `root`: `spec.env[1].name: …`.
pub(crate) fn parse<'a, T: Deserialize<'a>>(json: &'a [u8], root: &str) -> Result<T, String> {
    serde_json::from_slice(json).map_err(|error| message(json, root, &error))
}

fn message(json: &[u8], root: &str, error: &serde_json::Error) -> String {
    let field = json_path::after(json, json_path::bytes_before(json, error));
    let reason = reason(error);
    let missing = reason.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
    let path = [root, &field, missing.unwrap_or_default()];
    let path: Vec<_> = path.into_iter().filter(|part| !part.is_empty()).collect();
    match (path.join("."), missing) {
        (path, Some(_)) => format!("{path}: is required"),
        (path, None) if path.is_empty() => plain(reason),
        (path, None) => format!("{path}: {}", plain(reason)),
    }
}

/// Replaces the types of Rust by words for users.
fn plain(reason: String) -> String {
    let Some((found, expected)) = reason.split_once(", expected ") else { return reason };
    let expected = match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number from 0",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a sequence" => "a list",
        "a map" => "an object",
        expected if expected.starts_with("struct ") => "an object",
        _ => return reason,
    };
    format!("{found}, expected {expected}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::parse;

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only read")]
    struct Spec {
        replicas: u32,
        #[serde(default)]
        port: u16,
        #[serde(default)]
        ratio: f64,
        #[serde(default)]
        offset: i64,
        #[serde(default)]
        items: Vec<Item>,
        #[serde(default)]
        labels: BTreeMap<String, String>,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only read")]
    struct Item {
        name: String,
    }

    #[test]
    fn message_names_the_field_and_no_rust_type() {
        for (spec, message) in [
            ("{}", "spec.replicas: is required"),
            (
                r#"{"replicas": "three"}"#,
                r#"spec.replicas: invalid type: string "three", expected a whole number from 0 to 4294967295"#,
            ),
            (
                r#"{"replicas": 1, "port": 70000}"#,
                "spec.port: invalid value: integer `70000`, expected a whole number from 0 to 65535",
            ),
            (r#"{"replicas": 1, "ratio": "a"}"#, r#"spec.ratio: invalid type: string "a", expected a number"#),
            (
                r#"{"replicas": 1, "offset": 1.5}"#,
                "spec.offset: invalid type: floating point `1.5`, expected a whole number",
            ),
            (r#"{"replicas": 1, "items": {}}"#, "spec.items: invalid type: map, expected a list"),
            (r#"{"replicas": 1, "items": ["a"]}"#, r#"spec.items[0]: invalid type: string "a", expected an object"#),
            (r#"{"replicas": 1, "items": [{}]}"#, "spec.items[0].name: is required"),
            (r#"{"replicas": 1, "labels": []}"#, "spec.labels: invalid type: sequence, expected an object"),
            (r#"{"replicas": 1, "labels": {"a": 1}}"#, "spec.labels.a: invalid type: integer `1`, expected a string"),
        ] {
            assert_eq!(parse::<Spec>(spec.as_bytes(), "spec").map(drop), Err(message.to_owned()), "{spec}");
        }
    }
}
