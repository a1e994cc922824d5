//! Replaces the values of Secrets in JSON documents and texts, consistently, so that recorded calls contain none of them.
//!
//! A [`Masker`] first [learns](Masker::learn) the values of the Secrets in all documents of a call, and then masks each
//! document. The values of a Secret's `data` and `stringData` are always replaced. Elsewhere, each occurrence of a value of at
//! least [`VALUE_MIN`] bytes is replaced, plain, in base64 or escaped as in JSON. Equal values get equal placeholders of the
//! same length and alphabet, so a plugin that compares, decodes or validates a value does the same with its placeholder.

mod placeholder;

use std::collections::{BTreeMap, BTreeSet};

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::alphabet::{STANDARD as ALPHABET, URL_SAFE as URL_ALPHABET};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::digest::Digest;
use crate::json::{self, Map, Value};
use crate::names::ANNOTATION_APPLIED;

pub use placeholder::{KEY_LENGTH, Key};

/// Minimum length of a value that is replaced outside its Secret, in bytes. Shorter values are parts of ordinary words.
pub const VALUE_MIN: usize = 6;
/// Minimum length of a line that is replaced on its own, if a value has several lines, in bytes: plugins indent texts that
/// they put into a configuration file.
const LINE_MIN: usize = 16;
/// Length of the part of a value by which it is found, in bytes; the rest is compared afterwards.
const PATTERN_MAX: usize = 128;
/// Maximum size of all values of one masker, in bytes, in all forms in which they are looked for.
const VALUES_MAX: usize = 4 * 1024 * 1024;
/// Maximum size of the parts by which values are found, in bytes: each takes dozens of bytes of memory.
const PATTERNS_MAX: usize = 512 * 1024;
/// Nesting depth up to which a text is parsed as JSON.
const DEPTH: usize = 128;

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
#[error("the calls have too many or too large Secrets to be masked; ask for fewer calls")]
pub struct TooManyValues;

/// Replaces the values of the Secrets that it has seen.
pub struct Masker {
    key: Key,
    /// Words that are public, for example the kinds and names of the objects.
    public: BTreeSet<String>,
    /// Texts to replace, each with its replacement of the same length.
    texts: BTreeMap<String, String>,
    /// Size of `texts`, in bytes.
    size: usize,
    /// Size of the parts by which they are found, in bytes.
    patterns: usize,
    finder: Option<Finder>,
}

/// Finds the texts to replace.
struct Finder {
    automaton: AhoCorasick,
    /// For each pattern, the texts that begin with it, and their replacements. Long values may have the same beginning.
    texts: Vec<Vec<(String, String)>>,
}

impl Masker {
    /// Creates a masker. Placeholders depend on the key, which must be random: who knows the key can guess values.
    pub fn new(key: [u8; KEY_LENGTH]) -> Self {
        let public = FIELDS.map(str::to_owned).into();
        Self { key: Key::new(key), public, texts: BTreeMap::new(), size: 0, patterns: 0, finder: None }
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
        let masked = self.key.placeholder(value);
        self.add_text(BASE64.encode(value), BASE64.encode(&masked))?;
        self.add_text(BASE64_URL.encode(value), BASE64_URL.encode(&masked))?;
        let (Ok(text), Ok(masked)) = (str::from_utf8(value), str::from_utf8(&masked)) else { return Ok(()) };
        self.add_text(text.to_owned(), masked.to_owned())?;
        self.add_text(escaped(text), escaped(masked))?;
        // A value is often written without the newline at its end.
        let trimmed = text.trim_end();
        self.add_text(trimmed.to_owned(), masked.get(..trimmed.len()).unwrap_or(masked).to_owned())?;
        if trimmed.contains('\n') {
            for line in trimmed.lines().map(str::trim).filter(|line| line.len() >= LINE_MIN) {
                let masked = self.key.placeholder(line.as_bytes());
                self.add_text(line.to_owned(), String::from_utf8_lossy(&masked).into_owned())?;
            }
        }
        Ok(())
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
            Value::Object(fields) => Value::Object(self.mask_object(&fields)),
            Value::Array(items) => Value::Array(items.into_iter().map(|item| self.mask(item)).collect()),
            Value::String(text) => match embedded(&text) {
                Some(inner) => Value::from(self.mask(inner).to_string()),
                None => Value::from(self.mask_text(&text)),
            },
            scalar @ (Value::Null | Value::Bool(_) | Value::Number(_)) => scalar,
        }
    }

    fn mask_object(&mut self, fields: &Map) -> Map {
        let is_secret = is_secret(fields);
        let mut masked = Map::with_capacity(fields.len());
        for (name, value) in fields.iter() {
            let value = match (name, value) {
                ("data", Value::Object(data)) if is_secret => Value::Object(self.mask_data(data, true)),
                ("stringData", Value::Object(data)) if is_secret => Value::Object(self.mask_data(data, false)),
                ("metadata", metadata) if is_secret => self.mask(without_hash(metadata.clone(), &self.key)),
                (_, value) => self.mask(value.clone()),
            };
            masked.insert(&self.mask_text(name), value);
        }
        masked
    }

    fn mask_data(&mut self, data: &Map, is_encoded: bool) -> Map {
        let mut masked = Map::with_capacity(data.len());
        for (name, value) in data.iter() {
            let value = match value.as_str() {
                Some(text) => match is_encoded.then(|| decoded(text)).flatten() {
                    Some(bytes) => Value::from(padded(BASE64.encode(self.key.placeholder(&bytes)))),
                    None => Value::from(&*String::from_utf8_lossy(&self.key.placeholder(text.as_bytes()))),
                },
                None => self.mask(value.clone()),
            };
            masked.insert(&self.mask_text(name), value);
        }
        masked
    }

    /// Replaces the values of Secrets in a text.
    pub fn mask_text(&mut self, text: &str) -> String {
        if self.texts.is_empty() || self.public.contains(text) {
            return text.to_owned();
        }
        if self.finder.is_none() {
            self.finder = Finder::new(&self.texts);
        }
        // An automaton that cannot be built (of more than four billion states) must not let a value pass.
        self.finder.as_ref().map_or_else(|| "?".repeat(text.len()), |finder| finder.replace_all(text))
    }
}

impl Finder {
    fn new(texts: &BTreeMap<String, String>) -> Option<Self> {
        let mut by_beginning = BTreeMap::<&str, Vec<_>>::new();
        for (text, masked) in texts {
            by_beginning.entry(beginning(text)).or_default().push((text.clone(), masked.clone()));
        }
        // The longest of those that begin at the same place: another one may be its beginning.
        let automaton =
            AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(by_beginning.keys()).ok()?;
        Some(Self { automaton, texts: by_beginning.into_values().collect() })
    }

    fn replace_all(&self, text: &str) -> String {
        let mut masked = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(found) = self.automaton.find(rest) {
            let (before, after) = rest.split_at(found.start());
            masked.push_str(before);
            let texts = self.texts.get(found.pattern().as_usize()).map(Vec::as_slice).unwrap_or_default();
            let matching = texts.iter().map(|(text, masked)| (common(text, after), text, masked));
            match matching.max_by_key(|(length, ..)| *length) {
                Some((length, text, replacement)) => {
                    let is_whole = length == text.len();
                    let part = if is_whole { Some(&**replacement) } else { replacement.get(..length) };
                    masked.push_str(part.unwrap_or(replacement));
                    rest = after.get(length..).unwrap_or_default();
                }
                None => return "?".repeat(text.len()),
            }
        }
        masked.push_str(rest);
        masked
    }
}

/// The part of a text by which it is found.
fn beginning(text: &str) -> &str {
    text.get(..text.floor_char_boundary(PATTERN_MAX)).unwrap_or(text)
}

/// Length of the common beginning of two texts, in bytes.
fn common(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(a, b)| a == b).map(|(char, _)| char.len_utf8()).sum()
}

/// Replaces the hash of a Secret's desired state, by which values could be guessed.
fn without_hash(mut metadata: Value, key: &Key) -> Value {
    let annotations = if let Value::Object(fields) = &mut metadata { fields.get_mut("annotations") } else { None };
    if let Some(Value::Object(annotations)) = annotations
        && let Some(Value::String(hash)) = annotations.get_mut(ANNOTATION_APPLIED)
    {
        let masked = key.placeholder(hash.as_bytes());
        *hash = (&*String::from_utf8_lossy(&masked)).into();
    }
    metadata
}

/// Whether an object is a Secret with values.
fn is_secret(fields: &Map) -> bool {
    fields.get("kind").and_then(Value::as_str) == Some("Secret")
}

/// The document in a text that is a JSON object about a Secret, as `kubectl apply` keeps it in an annotation.
fn embedded(text: &str) -> Option<Value> {
    let is_candidate = text.trim_start().starts_with(['{', '[']) && text.contains("Secret");
    is_candidate.then(|| json::parse(text.as_bytes(), DEPTH).ok()).flatten()
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

#[cfg(test)]
mod tests;
