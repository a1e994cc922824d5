//! A strict JSON implementation for untrusted responses: bounded depth, and numbers kept verbatim.
//!
//! `serde_json` accepts duplicate keys, turns `1.10` into an f64 and loses digits; its `arbitrary_precision` feature is
//! global to a build and breaks the untagged types of `k8s-openapi`. So this module parses responses once, into values
//! whose objects are sorted by key: JSON written from them is canonical and can be hashed.

mod number;
mod parse;

use std::fmt;

use compact_str::CompactString;

use crate::value::line::in_json;

pub use number::Number;
pub use parse::{Malformed, OBJECT_DEPTH, parse, parse_within};

/// A JSON value.
#[derive(Debug, Clone, PartialEq, Eq, derive_more::From)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    #[from]
    Bool(bool),
    /// A number, kept verbatim.
    #[from(i64)]
    Number(Number),
    /// A string. Most are short, and are stored inline.
    #[from(&str, String)]
    String(CompactString),
    /// A list.
    #[from]
    Array(Vec<Value>),
    /// An object.
    #[from]
    Object(Map),
}

/// A JSON object: keys are unique and sorted bytewise.
#[derive(Debug, Clone, PartialEq, Eq, Default, derive_more::IntoIterator)]
pub struct Map(Vec<(CompactString, Value)>);

impl Map {
    /// Creates an object from entries in any order. If a key occurs twice, the error is the first such key.
    pub fn from_entries(mut entries: Vec<(CompactString, Value)>) -> Result<Self, CompactString> {
        if !entries.is_sorted_by(|a, b| a.0 < b.0) {
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            let twice = entries.iter().zip(entries.iter().skip(1)).find(|(a, b)| a.0 == b.0);
            if let Some(((key, _), _)) = twice {
                return Err(key.clone());
            }
        }
        Ok(Self(entries))
    }

    /// Creates an empty object with this capacity.
    pub fn with_capacity(entries: usize) -> Self {
        Self(Vec::with_capacity(entries))
    }

    /// Returns a copy without these keys.
    #[must_use]
    pub fn without(&self, keys: &[&str]) -> Self {
        Self(self.0.iter().filter(|(key, _)| !keys.contains(&key.as_str())).cloned().collect())
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let at = self.position(key).ok()?;
        self.0.get(at).map(|(_, value)| value)
    }

    /// The value of a key, if it is a non-negative integer.
    pub fn count(&self, key: &str) -> Option<u64> {
        match self.get(key) {
            Some(Value::Number(number)) => u64::try_from(number.as_i64()?).ok(),
            _ => None,
        }
    }

    /// The value of a key, mutable.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        let at = self.position(key).ok()?;
        self.0.get_mut(at).map(|(_, value)| value)
    }

    /// Sets the value of a key and returns the previous value.
    pub fn insert(&mut self, key: &str, value: impl Into<Value>) -> Option<Value> {
        let value = value.into();
        match self.position(key) {
            Ok(at) => self.0.get_mut(at).map(|(_, old)| std::mem::replace(old, value)),
            Err(at) => {
                self.0.insert(at, (key.into(), value));
                None
            }
        }
    }

    /// Removes a key and returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.position(key).ok().map(|at| self.0.remove(at).1)
    }

    /// The object at a key, created if the key is missing; `None` if its value is not an object.
    pub fn object_mut(&mut self, key: &str) -> Option<&mut Map> {
        let at = match self.position(key) {
            Ok(at) => at,
            Err(at) => {
                self.0.insert(at, (key.into(), Value::Object(Map::default())));
                at
            }
        };
        match self.0.get_mut(at) {
            Some((_, Value::Object(map))) => Some(map),
            _ => None,
        }
    }

    /// Keys and values, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Keeps the entries for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &Value) -> bool) {
        self.0.retain(|(key, value)| keep(key, value));
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends the object as compact JSON with sorted keys.
    pub fn write(&self, out: &mut String) {
        out.push('{');
        for (i, (key, value)) in self.0.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            write_string(key, out);
            out.push(':');
            value.write(out);
        }
        out.push('}');
    }

    fn position(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(probe, _)| probe.as_str().cmp(key))
    }
}

impl Value {
    /// The object, if the value is one.
    pub fn as_object(&self) -> Option<&Map> {
        if let Self::Object(map) = self { Some(map) } else { None }
    }

    /// The list, if the value is one.
    pub fn as_array(&self) -> Option<&[Value]> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    /// The string, if the value is one.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// Returns true for a boolean, a number or a string.
    pub fn is_scalar(&self) -> bool {
        match self {
            Self::Bool(_) | Self::Number(_) | Self::String(_) => true,
            Self::Null | Self::Array(_) | Self::Object(_) => false,
        }
    }

    /// The value at a path of object keys.
    pub fn at(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(self, |value, key| value.as_object()?.get(key))
    }

    /// Returns true if this value contains all fields of another value. Objects may have additional fields; lists must
    /// have the same length.
    pub fn holds(&self, wanted: &Self) -> bool {
        match (self, wanted) {
            (Self::Object(own), Self::Object(wanted)) => wanted.iter().all(|(key, wanted)| match own.get(key) {
                Some(own) => own.holds(wanted),
                // The API server drops nulls and empty maps.
                None => matches!(wanted, Self::Null) || wanted.as_object().is_some_and(Map::is_empty),
            }),
            (Self::Array(own), Self::Array(wanted)) => {
                own.len() == wanted.len() && own.iter().zip(wanted).all(|(own, wanted)| own.holds(wanted))
            }
            (own, wanted) => own == wanted,
        }
    }

    /// The type of the value, for messages to users.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "a list",
            Self::Object(_) => "an object",
        }
    }

    /// Appends the value as compact JSON with sorted keys.
    pub fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Number(number) => out.push_str(number.as_str()),
            Self::String(text) => write_string(text, out),
            Self::Array(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Self::Object(map) => map.write(out),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write(&mut text);
        f.write_str(&text)
    }
}

impl<const N: usize> From<[(&str, Value); N]> for Map {
    fn from(entries: [(&str, Value); N]) -> Self {
        let mut map = Self::with_capacity(N);
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c < ' ' || c == '"' || c == '\\') {
        let (plain, tail) = rest.split_at(at);
        out.push_str(plain);
        let mut chars = tail.chars();
        match chars.next() {
            Some('"') => out.push_str("\\\""),
            Some('\\') => out.push_str("\\\\"),
            Some('\n') => out.push_str("\\n"),
            Some('\r') => out.push_str("\\r"),
            Some('\t') => out.push_str("\\t"),
            Some(control) => in_json(control, out),
            None => {}
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
    out.push('"');
}
