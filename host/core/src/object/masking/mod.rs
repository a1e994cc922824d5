//! Replaces the values of Secrets in JSON documents and texts, consistently, so that recorded calls contain none of them.
//!
//! A [`Masker`] first [learns](Masker::learn) the values of the Secrets in all documents of a call, and then masks each
//! document. The values of a Secret's `data` and `stringData` are always replaced. Elsewhere, each occurrence of a value of at
//! least [`VALUE_MIN`] bytes is replaced, with or without the white space around it: plain, in base64, or escaped as in JSON or in
//! a message of the host. Equal values get equal replacements.
//!
//! In a recording, a replacement is a placeholder of the same length and alphabet, so a plugin that compares, decodes or validates a
//! value does the same with its placeholder. For readers, it is a [marker](Masker::with_markers): a value may be an ordinary word that
//! is a part of names, and a placeholder within a name would look like another name.

mod finder;
mod placeholder;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use base64::Engine as _;
use base64::alphabet::{STANDARD as ALPHABET, URL_SAFE as URL_ALPHABET};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use self::finder::{Finder, beginning, first, last, whole};
use self::placeholder::marker;
use crate::object::names::ANNOTATION_APPLIED;
use crate::value::digest::Digest;
use crate::value::json::{self, Map, Value};
use crate::value::line::{escape, in_json, one_line};

pub use placeholder::{KEY_LENGTH, Key};

/// Minimum length of a value that is replaced outside its Secret, in bytes. Shorter values are parts of ordinary words.
pub const VALUE_MIN: usize = 6;
/// Minimum length of a line that is replaced on its own, if a value has several lines, in bytes: plugins indent texts that
/// they put into a configuration file.
const LINE_MIN: usize = 16;
/// Maximum size of all values of one masker, in bytes, in all forms in which they are looked for.
const VALUES_MAX: usize = 4 * 1024 * 1024;
/// Maximum size of the parts by which values are found, in bytes: each takes dozens of bytes of memory.
const PATTERNS_MAX: usize = 512 * 1024;

/// Fields that every Kubernetes object may have: their names are public, even if a Secret has one of them as a value.
const FIELDS: [&str; 27] = [
    "annotations",
    "apiVersion",
    "blockOwnerDeletion",
    "conditions",
    "controller",
    "creationTimestamp",
    "data",
    "deletionTimestamp",
    "finalizers",
    "generation",
    "immutable",
    "kind",
    "labels",
    "lastTransitionTime",
    "message",
    "metadata",
    "namespace",
    "observedGeneration",
    "ownerReferences",
    "reason",
    "resourceVersion",
    "spec",
    "status",
    "stringData",
    "type",
    "uid",
    "name",
];

const ENCODING: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_encode_padding(false)
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const BASE64: GeneralPurpose = GeneralPurpose::new(&ALPHABET, ENCODING);
const BASE64_URL: GeneralPurpose = GeneralPurpose::new(&URL_ALPHABET, ENCODING);

/// The Secrets have more bytes than a masker accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the calls have too many or too large Secrets to be masked; `windlass record --parent` asks for those of one parent"
)]
pub struct TooManyValues;

/// Replaces the values of the Secrets that it has seen.
pub struct Masker {
    key: Key,
    /// Whether replacements are markers for readers.
    marks: bool,
    /// Words that are public, for example the kinds and names of the objects.
    public: BTreeSet<String>,
    /// Texts to replace, each with its replacement of the same length.
    texts: BTreeMap<String, String>,
    /// Size of `texts`, in bytes.
    size: usize,
    /// Size of the parts by which they are found, in bytes.
    patterns: usize,
    finder: Option<Finder>,
    /// How often a finder was built.
    #[cfg(test)]
    pub(crate) builds: usize,
}

impl Masker {
    /// Creates a masker. Placeholders depend on the key, which must be random: whoever knows the key can guess
    /// values.
    pub fn new(key: [u8; KEY_LENGTH]) -> Self {
        let public = FIELDS.map(str::to_owned).into();
        Self {
            key: Key::new(key),
            marks: false,
            public,
            texts: BTreeMap::new(),
            size: 0,
            patterns: 0,
            finder: None,
            #[cfg(test)]
            builds: 0,
        }
    }

    /// A masker whose replacements are for readers, as in `‹secret 3fa9›`; a plugin that is called with them may fail.
    pub fn with_markers(key: [u8; KEY_LENGTH]) -> Self {
        Self { marks: true, ..Self::new(key) }
    }

    /// A seed of random numbers for the call of this hash. It reveals neither the key nor the seed of the original call.
    pub fn seed(&self, call: &Digest) -> [u8; 32] {
        self.key.derive(b"seed", call.as_bytes())
    }

    /// Adds a word that is not replaced outside Secrets, even if a Secret has it as a value: a kind, a namespace or a name, which
    /// everybody knows who may see the object.
    pub fn allow(&mut self, word: &str) {
        if word.len() >= VALUE_MIN && self.public.insert(word.to_owned()) && self.texts.contains_key(word) {
            self.texts.remove(word);
            self.finder = None;
        }
    }

    /// Learns the values of the Secrets in a document, at any depth, and in texts that are JSON themselves.
    ///
    /// # Errors
    /// If the Secrets have too many values.
    pub fn learn(&mut self, document: &Value) -> Result<(), TooManyValues> {
        match document {
            Value::Object(fields) => {
                if is_secret(fields) {
                    self.learn_secret(fields)?;
                }
                fields.iter().try_for_each(|(_, value)| self.learn(value))
            }
            Value::Array(items) => items.iter().try_for_each(|item| self.learn(item)),
            Value::String(text) => embedded(text).map_or(Ok(()), |inner| self.learn(&inner)),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }

    fn learn_secret(&mut self, secret: &Map) -> Result<(), TooManyValues> {
        for (field, is_encoded) in [("data", true), ("stringData", false)] {
            for (_, value) in secret.get(field).and_then(Value::as_object).into_iter().flat_map(Map::iter) {
                let Some(text) = value.as_str() else { continue };
                match is_encoded.then(|| decoded(text)).flatten() {
                    Some(bytes) => self.add(&bytes)?,
                    None => self.add(text.as_bytes())?,
                }
            }
        }
        Ok(())
    }

    /// Adds the forms in which a value may occur in a text.
    fn add(&mut self, value: &[u8]) -> Result<(), TooManyValues> {
        // All forms of a value have the same marker, and each has a placeholder of its own.
        let marker = self.marks.then(|| marker(&self.key, value));
        let or_marker = |masked: &dyn Fn() -> String| marker.clone().unwrap_or_else(masked);
        let masked = self.key.placeholder(value);
        let (Ok(text), Ok(masked)) = (str::from_utf8(value), str::from_utf8(&masked)) else {
            return [BASE64, BASE64_URL]
                .iter()
                .try_for_each(|base64| self.add_text(base64.encode(value), or_marker(&|| base64.encode(&masked))));
        };
        for range in ranges(text) {
            let (Some(text), Some(masked)) = (text.get(range.clone()), masked.get(range)) else { continue };
            FORMS.iter().try_for_each(|form| self.add_text(form(text), or_marker(&|| form(masked))))?;
        }
        lines(text).try_for_each(|line| {
            let masked = or_marker(&|| self.placeholder(line));
            self.add_text(line.to_owned(), masked)
        })
    }

    fn add_text(&mut self, text: String, masked: String) -> Result<(), TooManyValues> {
        if text.len() < VALUE_MIN || self.public.contains(&text) || self.texts.contains_key(&text) {
            return Ok(());
        }
        self.size += text.len();
        self.patterns += beginning(&text).len();
        if self.size > VALUES_MAX || self.patterns > PATTERNS_MAX {
            return Err(TooManyValues);
        }
        self.texts.insert(text, masked);
        self.finder = None;
        Ok(())
    }

    /// Replaces the values of Secrets in a document.
    pub fn mask(&mut self, document: Value) -> Value {
        match document {
            Value::Object(fields) => Value::Object(self.mask_object(fields)),
            Value::Array(items) => Value::Array(items.into_iter().map(|item| self.mask(item)).collect()),
            Value::String(text) => match embedded(&text) {
                Some(inner) => Value::from(self.mask(inner).to_string()),
                None if is_json_like(&text) && text.contains(r#""Secret""#) => Value::from(hidden(text.len())),
                None => Value::from(self.mask_text(&text)),
            },
            scalar @ (Value::Null | Value::Bool(_) | Value::Number(_)) => scalar,
        }
    }

    fn mask_object(&mut self, fields: Map) -> Map {
        let is_secret = is_secret(&fields);
        let mut masked = Map::with_capacity(fields.len());
        for (name, value) in fields {
            let value = match (name.as_str(), value) {
                ("data", Value::Object(data)) if is_secret => Value::Object(self.mask_data(data, true)),
                ("stringData", Value::Object(data)) if is_secret => Value::Object(self.mask_data(data, false)),
                // A hash of the whole desired object, by which a value in the object could be guessed.
                (ANNOTATION_APPLIED, Value::String(hash)) => Value::from(self.placeholder(&hash)),
                (_, value) => self.mask(value),
            };
            masked.insert(&self.mask_text(&name), value);
        }
        masked
    }

    fn mask_data(&mut self, data: Map, is_encoded: bool) -> Map {
        let mut masked = Map::with_capacity(data.len());
        for (name, value) in data {
            let value = match value {
                Value::String(text) => match is_encoded.then(|| decoded(&text)).flatten() {
                    Some(bytes) if self.marks => Value::from(marker(&self.key, &bytes)),
                    Some(bytes) => Value::from(padded(BASE64.encode(self.key.placeholder(&bytes)))),
                    None => Value::from(self.placeholder(&text)),
                },
                other => self.mask(other),
            };
            masked.insert(&self.mask_text(&name), value);
        }
        masked
    }

    /// The replacement of a text.
    fn placeholder(&self, text: &str) -> String {
        if self.marks {
            return marker(&self.key, text.as_bytes());
        }
        String::from_utf8_lossy(&self.key.placeholder(text.as_bytes())).into_owned()
    }

    /// Replaces the values of Secrets in a text.
    pub fn mask_text(&mut self, text: &str) -> String {
        self.replaced(text, false)
    }

    /// Replaces the values of Secrets in a message of the host, and the parts of a value before and after `…`, where the host has cut it.
    pub fn mask_message(&mut self, message: &str) -> String {
        if self.texts.is_empty() {
            return message.to_owned();
        }
        let part = if self.marks { whole } else { last };
        self.replaced(&finder::without_ends(message, &self.texts, part), true)
    }

    fn replaced(&mut self, text: &str, may_be_cut: bool) -> String {
        if self.texts.is_empty() || self.public.contains(text) {
            return text.to_owned();
        }
        if self.finder.is_none() {
            #[cfg(test)]
            {
                self.builds += 1;
            }
            self.finder = Finder::new(&self.texts);
        }
        // An automaton that cannot be built (of more than four billion states) must not let a value pass.
        let Some(finder) = &self.finder else { return "?".repeat(text.len()) };
        finder.replace_all(text, may_be_cut.then_some(&self.texts), if self.marks { whole } else { first })
    }
}

/// The forms in which a value may occur in a text.
const FORMS: [fn(&str) -> String; 7] = [
    |text| BASE64.encode(text),
    |text| BASE64_URL.encode(text),
    str::to_owned,
    escaped,
    escaped_as_in_go,
    escaped_as_in_python,
    |text| one_line(text).into_owned(),
];

/// The parts of a value that are often used alone: without the newline at its end, or without all white space around it.
fn ranges(text: &str) -> [Range<usize>; 3] {
    let (start, end) = (text.len() - text.trim_start().len(), text.trim_end().len());
    [0..text.len(), 0..end, start..end]
}

/// The lines of a value that are replaced on their own.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let trimmed = text.trim_end();
    let several = trimmed.contains('\n').then(|| trimmed.lines().map(str::trim));
    several.into_iter().flatten().filter(|line| line.len() >= LINE_MIN)
}

/// Whether an object is a Secret.
fn is_secret(fields: &Map) -> bool {
    fields.get("kind").and_then(Value::as_str) == Some("Secret")
}

/// What is shown instead of a text of this length in which no values can be found.
pub fn hidden(length: usize) -> String {
    format!("(not JSON, {length} bytes; not shown, because it may have values of a Secret)")
}

/// The document in a text that is JSON about a Secret, as `kubectl apply` keeps it in an annotation, or about an object with a hash
/// that is replaced.
fn embedded(text: &str) -> Option<Value> {
    let is_candidate = is_json_like(text) && ["Secret", ANNOTATION_APPLIED].iter().any(|word| text.contains(word));
    is_candidate.then(|| json::parse(text.as_bytes(), json::OBJECT_DEPTH).ok()).flatten()
}

/// Whether a text begins like a JSON object or list.
fn is_json_like(text: &str) -> bool {
    text.trim_start().starts_with(['{', '['])
}

/// The bytes of a value in `data`.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let text: String = text.chars().filter(|char| !char.is_ascii_whitespace()).collect();
    BASE64.decode(text).ok()
}

/// Base64 with the padding that Kubernetes writes.
fn padded(mut text: String) -> String {
    text.extend(std::iter::repeat_n('=', text.len().next_multiple_of(4) - text.len()));
    text
}

/// A text as it is written inside a JSON string.
fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned()
}

/// As Go's `json.Marshal` escapes a text: also what has a meaning in HTML.
fn escaped_as_in_go(text: &str) -> String {
    escaped(text).replace('<', r"\u003c").replace('>', r"\u003e").replace('&', r"\u0026")
}

/// As Python's `json.dumps` escapes a text: all characters outside ASCII.
fn escaped_as_in_python(text: &str) -> String {
    escape(&escaped(text), |c| !c.is_ascii(), in_json).into_owned()
}

#[cfg(test)]
mod tests;
