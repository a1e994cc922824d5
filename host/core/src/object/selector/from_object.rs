//! A `LabelSelector` (`meta/v1`), as objects have it in their specs, in kubectl's syntax.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Why a JSON document is no `LabelSelector`.
#[derive(Debug, thiserror::Error)]
#[error("not a LabelSelector: {0}")]
pub struct NotASelector(String);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LabelSelector {
    #[serde(default)]
    match_labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    match_expressions: Option<Vec<Expression>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expression {
    key: String,
    operator: String,
    #[serde(default)]
    values: Option<Vec<String>>,
}

/// A `LabelSelector` in kubectl's syntax, which the caller still has to parse. An empty one matches all objects.
///
/// # Errors
/// If it has other fields or operators than Kubernetes knows, or values that no label has.
pub fn from_object(json: &[u8]) -> Result<String, NotASelector> {
    let not_one = |error: serde_json::Error| NotASelector(error.to_string());
    // A list would be read as the fields in their order.
    let fields: serde_json::Map<_, _> = serde_json::from_slice(json).map_err(not_one)?;
    let selector = LabelSelector::deserialize(serde_json::Value::Object(fields)).map_err(not_one)?;
    let labels = selector.match_labels.unwrap_or_default();
    let labels = labels.into_iter().map(|(key, value)| term(&key, "In", &[value]));
    let expressions = selector.match_expressions.unwrap_or_default();
    let expressions = expressions
        .into_iter()
        .map(|Expression { key, operator, values }| term(&key, &operator, &values.unwrap_or_default()));
    labels.chain(expressions).collect::<Result<Vec<_>, _>>().map(|terms| terms.join(","))
}

fn term(key: &str, operator: &str, values: &[String]) -> Result<String, NotASelector> {
    // Other characters would mean something else in kubectl's syntax, and no label has them.
    let is_plain =
        |text: &str, others: &str| text.chars().all(|char| char.is_ascii_alphanumeric() || others.contains(char));
    if key.is_empty() || !is_plain(key, "-_./") {
        return Err(NotASelector(format!("{key:?} is not the key of a label")));
    }
    if let Some(value) = values.iter().find(|value| !is_plain(value, "-_.")) {
        return Err(NotASelector(format!("{value:?} is not the value of a label")));
    }
    let set = || values.join(",");
    match (operator, values.is_empty()) {
        ("In", false) => Ok(format!("{key} in ({})", set())),
        ("NotIn", false) => Ok(format!("{key} notin ({})", set())),
        ("Exists", true) => Ok(key.to_owned()),
        ("DoesNotExist", true) => Ok(format!("!{key}")),
        ("In" | "NotIn", true) => Err(NotASelector(format!("{operator} of {key} has no values"))),
        ("Exists" | "DoesNotExist", false) => Err(NotASelector(format!("{operator} of {key} has values"))),
        _ => Err(NotASelector(format!("{operator:?} is not an operator: In, NotIn, Exists, DoesNotExist"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::selector::Selector;

    #[test]
    fn label_selector_of_an_object_selects_the_same_in_kubectls_syntax() {
        let json = r#"{"matchLabels": {"app": "web", "tier": ""}, "matchExpressions": [
            {"key": "zone", "operator": "In", "values": ["a", "b"]}, {"key": "old", "operator": "NotIn", "values": ["yes"]},
            {"key": "example.com/kept", "operator": "Exists"}, {"key": "gone", "operator": "DoesNotExist", "values": []}]}"#;
        let text = from_object(json.as_bytes()).expect("a selector");
        assert_eq!(text, "app in (web),tier in (),zone in (a,b),old notin (yes),example.com/kept,!gone");
        text.parse::<Selector>().expect("kubectl's syntax");
        for empty in ["{}", r#"{"matchLabels": null, "matchExpressions": []}"#] {
            assert_eq!(from_object(empty.as_bytes()).expect("a selector"), "", "it matches all");
        }
    }

    #[test]
    fn what_is_no_label_selector_is_refused_and_never_means_something_else() {
        for (json, problem) in [
            ("[]", "invalid type"),
            (r#"{"matchLabel": {}}"#, "unknown field `matchLabel`"),
            (r#"{"matchLabels": {"app": "web,!old"}}"#, "is not the value of a label"),
            (r#"{"matchLabels": {"app in (a),b": "c"}}"#, "is not the key of a label"),
            (r#"{"matchLabels": {"": "c"}}"#, "is not the key of a label"),
            (r#"{"matchExpressions": [{"key": "a", "operator": "in", "values": ["b"]}]}"#, "is not an operator"),
            (r#"{"matchExpressions": [{"key": "a", "operator": "In"}]}"#, "In of a has no values"),
            (
                r#"{"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}"#,
                "Exists of a has values",
            ),
        ] {
            let error = from_object(json.as_bytes()).expect_err(json).to_string();
            assert!(error.starts_with("not a LabelSelector: ") && error.contains(problem), "{json}: {error}");
        }
    }
}
