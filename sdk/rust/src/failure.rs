//! Failures of a call: constructors for the type of the contract.

use std::{fmt, time::Duration};

use serde::Deserialize;

use crate::{
    json_path,
    raw::{Failure, Invalid},
};

impl Failure {
    /// The parent's spec is invalid as a whole. The message says what would be valid: users read it in the parent's condition
    /// (`Stalled=True, reason=InvalidSpec`). The host does not retry before the parent changes; in a call to clean up, it retries
    /// with backoff.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(Invalid { field: None, message: message.into() })
    }

    /// One field of the parent is invalid, as `spec.ports[2].name`. Users read `FIELD: MESSAGE`, as for [`invalid`](Self::invalid).
    pub fn invalid_field(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid(Invalid { field: Some(field.into()), message: message.into() })
    }

    /// Any other failure: the host calls again with exponential backoff.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }
}

/// As the host shows it to users: `spec.name: must be one line`.
impl fmt::Display for Invalid {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        if let Some(field) = &self.field {
            formatter.write_str(field)?;
            formatter.write_str(": ")?;
        }
        formatter.write_str(&self.message)
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

/// Reads JSON that a user wrote. The error names the field, below `root`: `spec.env[1].name`.
pub(crate) fn parse<'a, T: Deserialize<'a>>(json: &'a [u8], root: &str) -> Result<T, Invalid> {
    serde_json::from_slice(json).map_err(|error| invalid(json, root, &error))
}

fn invalid(json: &[u8], root: &str, error: &serde_json::Error) -> Invalid {
    let field = json_path::after(json, json_path::bytes_before(json, error));
    let reason = reason(error);
    let missing = reason.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
    let path = [root, &field, missing.unwrap_or_default()];
    let path: Vec<_> = path.into_iter().filter(|part| !part.is_empty()).collect();
    let field = Some(path.join(".")).filter(|field| !field.is_empty());
    Invalid { field, message: if missing.is_some() { "is required".to_owned() } else { plain(reason) } }
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
            let error = parse::<Spec>(spec.as_bytes(), "spec").expect_err("invalid");
            assert_eq!(error.to_string(), message, "{spec}");
            assert!(error.field.is_some_and(|field| message.starts_with(&field)), "{spec}");
        }
    }
}
