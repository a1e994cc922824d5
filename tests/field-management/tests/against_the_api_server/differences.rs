//! What differs between an object of the model and one of the API server. The comparison of `tests/api-server` includes this file, too.

use serde_json::Value;

/// The fields that differ, one a line, with both values.
pub fn differences(path: &str, ours: &Value, theirs: &Value) -> Vec<String> {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let mut names: Vec<_> = a.keys().chain(b.keys()).collect();
            names.sort();
            names.dedup();
            let both = names.into_iter().map(|name| match (a.get(name), b.get(name)) {
                (Some(a), Some(b)) => differences(&format!("{path}/{name}"), a, b),
                (a, b) => vec![format!("{path}/{name}: - {} + {}", shown(a), shown(b))],
            });
            both.flatten().collect()
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let both = a.iter().zip(b).enumerate();
            both.flat_map(|(index, (a, b))| differences(&format!("{path}/{index}"), a, b)).collect()
        }
        (a, b) if a == b => Vec::new(),
        (a, b) => vec![format!("{path}: - {a} + {b}")],
    }
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "nothing".to_owned(), ToString::to_string)
}
