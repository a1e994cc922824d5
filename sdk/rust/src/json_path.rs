//! The path to a byte of a JSON document, as `spec.env[1].name`.
//!
//! An error of `serde_json` has the position at which it stopped. This module reads the document a second time to find the
//! path to that position, and only after an error. Tracking the path while reading (`serde_path_to_error`) doubles the code
//! that reads every type, and the size of a component is limited.

use std::fmt::Write as _;

/// The member of an object or array that the reader is in.
enum Member {
    /// A field of an object; none before its name was read.
    Field(Option<String>),
    /// An item of an array.
    Item(usize),
}

/// The path to the value that a reader had reached after this many bytes of a document. The document must be valid JSON up to
/// there. The path is empty for the document itself.
pub(crate) fn after(document: &[u8], bytes: usize) -> String {
    let document = document.get(..bytes).unwrap_or(document);
    let mut path: Vec<Member> = Vec::new();
    let mut at = 0;
    while let Some(byte) = document.get(at) {
        let mut next = at + 1;
        match byte {
            b'{' => path.push(Member::Field(None)),
            b'[' => path.push(Member::Item(0)),
            b'}' | b']' => {
                path.pop();
            }
            b',' => match path.last_mut() {
                Some(Member::Field(name)) => *name = None,
                Some(Member::Item(index)) => *index += 1,
                None => {}
            },
            b'"' => {
                next = end_of_string(document, next);
                // The first string since the brace or the comma is the name.
                if let Some(Member::Field(name @ None)) = path.last_mut() {
                    let text = document.get(at..next).unwrap_or_default();
                    *name = Some(serde_json::from_slice(text).unwrap_or_default());
                }
            }
            _ => {}
        }
        at = next;
    }
    let mut text = String::new();
    for member in path {
        match member {
            Member::Field(Some(name)) if text.is_empty() => text.push_str(&name),
            Member::Field(Some(name)) => {
                text.push('.');
                text.push_str(&name);
            }
            Member::Field(None) => {}
            Member::Item(index) => {
                // Writing to a String cannot fail.
                let _ = write!(text, "[{index}]");
            }
        }
    }
    text
}

/// The index after the closing quotation mark of a string; `start` is the index after the opening one.
pub(crate) fn end_of_string(document: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(byte) = document.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    document.len()
}

/// How many bytes of a document `serde_json` had read when it stopped.
pub(crate) fn bytes_before(document: &[u8], error: &serde_json::Error) -> usize {
    let lines = document.split_inclusive(|byte| *byte == b'\n').take(error.line().saturating_sub(1));
    lines.map(<[u8]>::len).sum::<usize>() + error.column()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::{after, bytes_before};

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only read")]
    struct Spec {
        #[serde(default)]
        number: u8,
        #[serde(default)]
        text: String,
        #[serde(default)]
        list: Vec<Item>,
        #[serde(default)]
        map: BTreeMap<String, u8>,
        #[serde(default)]
        matrix: Vec<Vec<u8>>,
        #[serde(default)]
        strict: Strict,
        #[serde(default)]
        choice: Option<Choice>,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only read")]
    struct Item {
        name: String,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    #[allow(dead_code, reason = "only read")]
    struct Strict {
        known: bool,
    }

    #[derive(Debug, Deserialize)]
    enum Choice {
        One,
    }

    /// The path at which `serde_json` stops.
    fn path_of_error(document: &str) -> String {
        let error = serde_json::from_str::<Spec>(document).expect_err(document);
        after(document.as_bytes(), bytes_before(document.as_bytes(), &error))
    }

    #[test]
    fn path_names_the_invalid_value() {
        for (document, path) in [
            (r#"{"number": "1"}"#, "number"),
            (r#"{"number": 300, "text": ""}"#, "number"),
            (r#"{"number": -1}"#, "number"),
            (r#"{"number": 1.5}"#, "number"),
            (r#"{"number": {"a": 1}}"#, "number"),
            (r#"{"text": ["a"]}"#, "text"),
            (r#"{"text": null, "number": 1}"#, "text"),
            (r#"{"text": "a\"b{", "number": true}"#, "number"),
            (r#"{"list": {}}"#, "list"),
            (r#"{"list": [{"name": "a"}, {"name": 1}]}"#, "list[1].name"),
            (r#"{"list": [{"name": "a"}, "b"]}"#, "list[1]"),
            (r#"{"list": [{"name": "a"}, {"other": 1}]}"#, "list[1]"),
            (r#"{"list": [{"other": [1, {"x": "}"}]}]}"#, "list[0]"),
            (r#"{"map": {"a": 1, "b.c": "x"}}"#, "map.b.c"),
            (r#"{"matrix": [[], [1, 2], [1, 2, "3"]]}"#, "matrix[2][2]"),
            (r#"{"strict": {"unknown": 1}}"#, "strict.unknown"),
            (r#"{"choice": "Two"}"#, "choice"),
            ("{\n  \"list\": [\n    {\"name\": true}\n  ]\n}", "list[0].name"),
            ("\"text\"", ""),
        ] {
            assert_eq!(path_of_error(document), path, "{document}");
        }
    }

    #[test]
    fn a_position_beyond_the_end_is_the_end() {
        assert_eq!(after(b"", 10), "");
        assert_eq!(after(br#"{"a": "unfinished"#, 99), "a");
        assert_eq!(after(br#"{"a\"#, 99), "");
    }
}
