//! Reads the documents of a file: several of YAML, or several of JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Context as _, bail, ensure};
use granit_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::scalar;

/// Maximum size of the values that anchors keep and aliases copy, in MiB: a few lines could stand for terabytes.
const COPIES_MAX: usize = 64;
/// About what a value takes beside its text, in bytes.
const VALUE_BYTES: usize = 64;
/// The namespace of YAML's own tags.
const YAML_TAGS: &str = "tag:yaml.org,2002:";

/// The documents of a text, also empty ones (null). As kubectl, JSON documents may follow each other without a separator.
///
/// # Errors
/// If the text is neither JSON nor YAML, or a key is there twice: kubectl would use the last one without a word.
pub fn documents(text: &str) -> anyhow::Result<Vec<Value>> {
    if text.trim_start().starts_with(['{', '[']) {
        let documents = serde_json::Deserializer::from_str(text).into_iter::<Json>();
        match documents.collect::<Result<Vec<_>, serde_json::Error>>() {
            Ok(documents) => return Ok(documents.into_iter().map(|Json(value)| value).collect()),
            // A key is there twice. Text with any other error may be YAML.
            Err(error) if error.is_data() => return Err(error.into()),
            Err(_) => {}
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

/// A value of JSON in which no object has a key twice, with the numbers that the API server keeps.
struct Json(Value);

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor).map(Self)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        let number = Number::from(value);
        let float = if number.is_i64() { None } else { number.as_f64().and_then(scalar::float) };
        Ok(float.unwrap_or(Value::Number(number)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        // JSON has no number that is infinite.
        Ok(scalar::float(value).unwrap_or_default())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Json(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(all.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            if all.contains_key(&name) {
                return Err(de::Error::custom(format_args!("the key {name:?} is there twice")));
            }
            let Json(value) = fields.next_value()?;
            all.insert(name, value);
        }
        Ok(all.into())
    }
}

/// Makes values from the events of the parser.
struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    /// The values that aliases may name.
    anchors: BTreeMap<usize, Value>,
    /// Size of the values that anchors have kept and aliases have copied, in bytes.
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
                let value = self.anchors.get(&id);
                let value = value.with_context(|| format!("{}: an alias within its own value", at(&span)))?;
                copy(value, &mut self.copied).with_context(|| at(&span))?
            }
            _ => Value::Null,
        };
        if let Some(anchor) = anchor {
            let kept = copy(&value, &mut self.copied).with_context(|| at(&span))?;
            self.anchors.insert(anchor, kept);
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
    let all = if let Value::Array(all) = merged { all } else { vec![merged] };
    for one in all.into_iter().rev() {
        let Value::Object(one) = one else { bail!("the key << merges mappings only") };
        fields.extend(one);
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

/// Copies a value, and counts its size.
fn copy(value: &Value, copied: &mut usize) -> anyhow::Result<Value> {
    *copied += size(value);
    ensure!(
        *copied <= COPIES_MAX << 20,
        "anchors and aliases stand for more than {COPIES_MAX} MiB; use them for smaller values, or write fewer aliases"
    );
    Ok(value.clone())
}

/// About the size of a value in memory, in bytes.
fn size(value: &Value) -> usize {
    let content: usize = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + size(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    content + VALUE_BYTES
}
