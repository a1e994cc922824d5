//! Checks a Plugin's `spec.config` against the schema that its component declares.

use serde_json::Value;

use crate::plugin::schema::structural::problems_of_config;

/// Checks the config of a plugin. `schema` is the one in the component's descriptor; a component without a schema takes no
/// configuration. No config counts as `{}`, which is how the SDKs read it.
///
/// # Errors
/// All problems with their paths, as one message for users.
pub fn check(schema: Option<&[u8]>, config: Option<&[u8]>) -> Result<(), String> {
    let config = match config {
        Some(bytes) => {
            serde_json::from_slice(bytes).map_err(|error| format!("spec.config is not valid JSON: {error}"))?
        }
        None => Value::Object(serde_json::Map::new()),
    };
    let Some(schema) = schema else {
        return if config.as_object().is_some_and(serde_json::Map::is_empty) {
            Ok(())
        } else {
            Err("spec.config is set, but the component takes no configuration: its descriptor has no config-schema"
                .to_owned())
        };
    };
    let schema = serde_json::from_slice::<Value>(schema).map_err(|error| {
        format!("the schema of spec.config in the component's descriptor is not valid JSON: {error}")
    })?;
    let problems = problems_of_config(&schema, &config);
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &[u8] = br#"{"type": "object", "required": ["image"], "properties": {"image": {"type": "string"}}}"#;

    #[test]
    fn config_that_does_not_fit_the_schema_is_refused_with_every_path() {
        assert_eq!(check(Some(SCHEMA), Some(br#"{"image": "a"}"#)), Ok(()));
        let refused = check(Some(SCHEMA), Some(br#"{"image": 1, "imgae": "a"}"#)).expect_err("refused");
        assert_eq!(
            refused,
            "spec.config.image: must be of type string, and is the number 1; spec.config.imgae: unknown field; known are image"
        );
        assert_eq!(check(Some(SCHEMA), None).expect_err("refused"), "spec.config.image: required, and missing");
        assert!(check(Some(b"{"), None).expect_err("refused").contains("component's descriptor"));
    }

    #[test]
    fn component_without_a_schema_takes_no_config() {
        for config in [None, Some(b"{}".as_slice())] {
            assert_eq!(check(None, config), Ok(()));
        }
        for config in [br#"{"image": "a"}"#.as_slice(), b"[]", b"null"] {
            assert!(check(None, Some(config)).expect_err("refused").contains("takes no configuration"));
        }
        // Any JSON value fits a schema that names nothing.
        assert_eq!(check(Some(b"{}"), Some(br#"{"any": [1]}"#)), Ok(()));
    }
}
