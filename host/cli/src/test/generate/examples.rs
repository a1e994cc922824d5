//! Parents that the plugin accepts, from files: some plugins accept only texts that no schema describes, such as a cron expression.

use std::collections::BTreeMap;

use serde_json::Value;

use super::is_content;

/// Stands for the index of an item.
pub const ANY: &str = "*";

/// Example parents, and the texts in their fields.
#[derive(Debug, Clone, Default)]
pub struct Examples {
    /// The parents.
    pub parents: Vec<Value>,
    /// The texts by the names of the fields around them; all items of an array count as one field.
    texts: BTreeMap<Vec<String>, Vec<String>>,
}

impl Examples {
    /// Collects the texts of parents.
    pub fn new(parents: Vec<Value>) -> Self {
        let mut texts = BTreeMap::new();
        for parent in &parents {
            for (name, value) in parent.as_object().into_iter().flatten().filter(|(name, _)| is_content(name)) {
                collect(value, &mut vec![name.clone()], &mut texts);
            }
        }
        Self { parents, texts }
    }

    /// The texts that the examples have in this field, which the names of the fields around it show.
    pub fn texts(&self, field: &[String]) -> &[String] {
        self.texts.get(field).map(Vec::as_slice).unwrap_or_default()
    }
}

fn collect(value: &Value, at: &mut Vec<String>, texts: &mut BTreeMap<Vec<String>, Vec<String>>) {
    let mut below = |name: &str, value: &Value| {
        at.push(name.to_owned());
        collect(value, at, texts);
        at.pop();
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| below(name, value)),
        Value::Array(items) => items.iter().for_each(|item| below(ANY, item)),
        Value::String(text) => texts.entry(at.clone()).or_default().push(text.clone()),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
