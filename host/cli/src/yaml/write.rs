//! Writes values as YAML: every string is read back as it is, by parsers of YAML 1.1 and 1.2, and no character of it controls a
//! terminal.

use std::fmt::Write as _;

use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Value;
use serde_saphyr::DoubleQuoted;
use windlass_core::value::line::is_unprintable;

/// A YAML document, which ends with a newline.
pub fn document(value: &Value) -> String {
    // Folded text would be read differently by a person, who copies it.
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    let written = (!has_odd_name(value)).then(|| serde_saphyr::to_string_with_options(&Yaml(value), options).ok());
    // JSON is YAML, with all strings in double quotes.
    let text = written.flatten().unwrap_or_else(|| format!("{value:#}"));
    escaped(text.trim_end_matches('\n')) + "\n"
}

/// Whether a field has a name that the writer, which has one style for names, would not write so that it is read back.
fn has_odd_name(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            let is_odd = |name: &str| name.contains('\n') || !is_plain_enough(name);
            fields.iter().any(|(name, value)| is_odd(name) || has_odd_name(value))
        }
        Value::Array(items) => items.iter().any(has_odd_name),
        _ => false,
    }
}

/// A value whose strings are in double quotes if another style could change them.
struct Yaml<'a>(&'a Value);

impl Serialize for Yaml<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::String(text) if !is_plain_enough(text) => DoubleQuoted(text).serialize(serializer),
            Value::Array(items) => serializer.collect_seq(items.iter().map(Yaml)),
            Value::Object(fields) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                fields.iter().try_for_each(|(name, value)| map.serialize_entry(name, &Yaml(value)))?;
                map.end()
            }
            scalar => scalar.serialize(serializer),
        }
    }
}

/// Whether a text is the same in a plain scalar or a block scalar. Parsers differ on tabs, and on white space at the beginning and
/// the end of blocks and lines; and only double quotes have escapes.
fn is_plain_enough(text: &str) -> bool {
    let is_line = |line: &str| !line.ends_with(' ');
    !text.contains(|c| c == '\t' || is_escaped(c))
        && (!text.contains('\n')
            || !text.starts_with([' ', '\n']) && !text.ends_with("\n\n") && text.lines().all(is_line))
}

/// Whether a character is escaped: it is not printed, or parsers refuse it.
fn is_escaped(c: char) -> bool {
    c != '\n' && is_unprintable(c) || matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// Escapes such characters: only strings in double quotes have them.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        // Writing to a String cannot fail.
        let _ = match u32::from(c) {
            _ if !is_escaped(c) => escaped.write_char(c),
            code @ ..=0xff => write!(escaped, "\\x{code:02x}"),
            code @ ..=0xffff => write!(escaped, "\\u{code:04x}"),
            code => write!(escaped, "\\U{code:08x}"),
        };
    }
    escaped
}
