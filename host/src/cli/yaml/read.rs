//! Reads the documents of a file: several of YAML, or several of JSON.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail};
use granit_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};
use serde_json::{Map, Value};

use super::scalar;

/// Maximum number of values that aliases may copy: a few lines could stand for billions.
const COPIES_MAX: usize = 1_000_000;
/// The namespace of YAML's own tags.
const YAML_TAGS: &str = "tag:yaml.org,2002:";

/// The documents of a text, also empty ones (null). As kubectl, JSON documents may follow each other without a separator.
///
/// # Errors
/// If the text is neither JSON nor YAML. Unlike kubectl, which uses the last one, also if a key is there twice.
pub fn documents(text: &str) -> anyhow::Result<Vec<Value>> {
    if text.trim_start().starts_with(['{', '[']) {
        let documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        if let Ok(documents) = documents.collect::<Result<Vec<_>, _>>() {
            return Ok(documents.into_iter().map(as_kept).collect());
        }
    }
    Reader::new(text).documents()
}

/// The only document of a text; null if it is empty.
///
/// # Errors
/// Those of [`documents`], and if there are several.
pub fn only(text: &str) -> anyhow::Result<Value> {
    let mut documents = documents(text)?;
    let first = documents.pop().unwrap_or_default();
    anyhow::ensure!(documents.is_empty(), "there are several documents; expected one");
    Ok(first)
}

/// A value with the numbers that the API server keeps.
fn as_kept(value: Value) -> Value {
    match value {
        Value::Number(number) if !number.is_i64() => {
            number.as_f64().and_then(scalar::float).unwrap_or(Value::Number(number))
        }
        Value::Array(items) => items.into_iter().map(as_kept).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, as_kept(value))).collect(),
        value => value,
    }
}

/// Makes values from the events of the parser.
struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    /// The values that aliases may name.
    anchors: BTreeMap<usize, Value>,
    /// Number of values that aliases have copied.
    copied: usize,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        let options = granit_parser::options! { emit_comments: false };
        Self { parser: Parser::new_from_str_with_options(text, options), anchors: BTreeMap::new(), copied: 0 }
    }

    fn documents(mut self) -> anyhow::Result<Vec<Value>> {
        let mut documents = Vec::new();
        while let Some((event, span)) = self.next()? {
            if event.is_node() {
                documents.push(self.node(event, span)?);
            }
        }
        Ok(documents)
    }

    fn next(&mut self) -> anyhow::Result<Option<(Event<'a>, Span)>> {
        self.parser.next_event().transpose().map_err(|error| {
            let at = error.marker();
            anyhow::anyhow!("line {}, column {}: {}", at.line(), at.col() + 1, error.info())
        })
    }

    /// The next node of a collection; none at its end.
    fn next_node(&mut self) -> anyhow::Result<Option<(Event<'a>, Span)>> {
        loop {
            let (event, span) = self.next()?.context("the document ends too early")?;
            if matches!(event, Event::SequenceEnd | Event::MappingEnd) {
                return Ok(None);
            }
            if event.is_node() {
                return Ok(Some((event, span)));
            }
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span) -> anyhow::Result<Value> {
        let anchor = event.anchor_id();
        let value = match event {
            Event::Scalar(text, style, _, tag) => scalar(&text, style, tag.as_deref()).with_context(|| at(&span))?,
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                while let Some((event, span)) = self.next_node()? {
                    items.push(self.node(event, span)?);
                }
                Value::Array(items)
            }
            Event::MappingStart(..) => Value::Object(self.mapping()?),
            Event::Alias(id) => {
                let value = self.anchors.get(&id).cloned();
                let value = value.with_context(|| format!("{}: an alias within its own value", at(&span)))?;
                self.copied += size(&value);
                if self.copied > COPIES_MAX {
                    bail!("{}: aliases stand for more than {COPIES_MAX} values", at(&span));
                }
                value
            }
            _ => Value::Null,
        };
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, value.clone());
        }
        Ok(value)
    }

    fn mapping(&mut self) -> anyhow::Result<Map<String, Value>> {
        let (mut fields, mut names) = (Map::new(), BTreeSet::new());
        while let Some((event, span)) = self.next_node()? {
            let is_merge = is_merge(&event);
            let key = if is_merge { Value::Null } else { self.node(event, span)? };
            let (event, value_span) = self.next_node()?.with_context(|| at(&span))?;
            let value = self.node(event, value_span)?;
            if is_merge {
                merge(&mut fields, value).with_context(|| at(&span))?;
                continue;
            }
            let name = name_of(key).with_context(|| at(&span))?;
            if !names.insert(name.clone()) {
                bail!("{}: the key {name:?} is there twice", at(&span));
            }
            fields.insert(name, value);
        }
        Ok(fields)
    }
}

fn at(span: &Span) -> String {
    format!("line {}, column {}", span.start.line(), span.start.col() + 1)
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> anyhow::Result<Value> {
    match tag.map(|tag| tag.suffix_in_namespace(YAML_TAGS)) {
        Some(Some(tag)) => scalar::tagged(&tag, text),
        None if style == ScalarStyle::Plain => {
            scalar::plain(text).with_context(|| format!("{text} is a number that JSON does not have"))
        }
        // A tag of others means nothing.
        Some(None) | None => Ok(text.into()),
    }
}

/// Whether a key is `<<`, whose value is merged into the mapping.
fn is_merge(event: &Event<'_>) -> bool {
    match event {
        Event::Scalar(text, ScalarStyle::Plain, _, None) => text == "<<",
        Event::Scalar(text, _, _, Some(tag)) => {
            text == "<<" && tag.suffix_in_namespace(YAML_TAGS).as_deref() == Some("merge")
        }
        _ => false,
    }
}

/// Merges a mapping, or several of which the first come first, over the fields before it.
fn merge(fields: &mut Map<String, Value>, merged: Value) -> anyhow::Result<()> {
    match merged {
        Value::Object(merged) => fields.extend(merged),
        Value::Array(all) => all.into_iter().rev().try_for_each(|one| match one {
            Value::Object(one) => {
                fields.extend(one);
                Ok(())
            }
            _ => bail!("the key << merges mappings only"),
        })?,
        _ => bail!("the key << merges mappings only"),
    }
    Ok(())
}

/// The name of a field whose key has this value.
fn name_of(key: Value) -> anyhow::Result<String> {
    match key {
        Value::String(name) => Ok(name),
        Value::Bool(_) => Ok(key.to_string()),
        Value::Number(number) if number.is_i64() => Ok(number.to_string()),
        key => bail!("{key} cannot be the name of a field; quote it"),
    }
}

/// Number of values in a value, with itself.
fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(size).sum::<usize>() + 1,
        Value::Object(fields) => fields.values().map(size).sum::<usize>() + 1,
        _ => 1,
    }
}
