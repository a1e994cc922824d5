//! JSON objects built and read with little code: the size of a component is limited.

use serde_json::{Map, Value};

use crate::json_path::end_of_string;

/// An object of these fields.
pub(crate) fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let mut object = Map::new();
    for (name, value) in fields {
        object.insert(name.to_owned(), value);
    }
    Value::Object(object)
}

/// Sets a field of an object.
pub(crate) fn set(object: &mut Value, field: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(field.to_owned(), value);
    }
}

/// The bytes of a document. `to_string` would also link the code that indents.
pub(crate) fn bytes(value: &Value) -> Vec<u8> {
    // Serializing cannot fail: a `Value` has string keys and finite numbers.
    serde_json::to_vec(value).unwrap_or_default()
}

/// Removes the fields that are null, at any depth. The API server drops them too, so sending them would make the object
/// differ from its live state in every reconcile.
pub(crate) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// The text of the value at a JSON pointer (RFC 6901: `/spec/containers/0/image`), or none if the document has no such
/// value. The document must be valid JSON. Values beside the path are skipped without parsing them.
pub(crate) fn at<'a>(document: &'a [u8], pointer: &str) -> Option<&'a [u8]> {
    if pointer.is_empty() {
        return Some(document);
    }
    pointer.strip_prefix('/')?.split('/').try_fold(document, member)
}

/// The member of an object by its name, or of an array by its index.
fn member<'a>(container: &'a [u8], token: &str) -> Option<&'a [u8]> {
    let mut cursor = Cursor { text: container, at: 0 };
    let first = cursor.peek()?;
    cursor.at += 1;
    match first {
        b'{' => loop {
            let is_found = is_name(cursor.value()?, token);
            let value = cursor.value()?;
            if is_found {
                return Some(value);
            }
        },
        b'[' => {
            // `parse` accepts a sign.
            let index: usize = token.parse().ok().filter(|_| token.bytes().all(|byte| byte.is_ascii_digit()))?;
            for _ in 0..index {
                cursor.value()?;
            }
            cursor.value()
        }
        _ => None,
    }
}

/// Whether the text of a name is the name that a token of a pointer means.
fn is_name(text: &[u8], token: &str) -> bool {
    if text.contains(&b'\\') {
        return serde_json::from_slice::<String>(text).is_ok_and(|name| means(token, name.as_bytes()));
    }
    let name = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\""));
    name.is_some_and(|name| means(token, name))
}

/// Whether a token of a pointer means a name: a token has `~1` for `/` and `~0` for `~`.
fn means(token: &str, name: &[u8]) -> bool {
    let mut token = token.bytes();
    let mut next = || match token.next()? {
        b'~' => match token.next() {
            Some(b'0') => Some(b'~'),
            Some(b'1') => Some(b'/'),
            _ => None,
        },
        byte => Some(byte),
    };
    name.iter().all(|byte| next() == Some(*byte)) && next().is_none()
}

/// Walks the names and values of one object, or the items of one array.
struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The first byte of the next name or value.
    fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.get(self.at)?;
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t' | b',' | b':') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    /// The text of the next name or value; none at the end of the container.
    fn value(&mut self) -> Option<&'a [u8]> {
        let first = self.peek()?;
        let start = self.at;
        match first {
            b'}' | b']' => return None,
            b'"' => self.at = end_of_string(self.text, start + 1),
            b'{' | b'[' => self.skip_container(),
            _ => {
                let is_part = |byte: &&u8| !matches!(byte, b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t');
                self.at += self.text.get(start..)?.iter().take_while(is_part).count();
            }
        }
        self.text.get(start..self.at)
    }

    fn skip_container(&mut self) {
        let mut depth = 0_usize;
        while let Some(byte) = self.text.get(self.at) {
            self.at += 1;
            match byte {
                b'"' => self.at = end_of_string(self.text, self.at),
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{at, drop_nulls};

    const POD: &str = r#" { "metadata" : {"name":"web","annotations":{"example.com/a~b":"}\"{","a\"b":"escaped"}},
        "spec": { "containers": [ {"name":"a","args":["]", "x,y"]}, {"name":"b","image":"b:1"} ], "priority":-1.5e3 },
        "empty": {}, "list": [], "nothing": null, "last":true}"#;

    /// What `serde_json` finds at the same place.
    fn expected(pointer: &str) -> Option<Value> {
        serde_json::from_str::<Value>(POD).ok()?.pointer(pointer).cloned()
    }

    fn found(pointer: &str) -> Option<Value> {
        at(POD.as_bytes(), pointer).map(|text| serde_json::from_slice(text).expect(pointer))
    }

    #[test]
    fn a_pointer_finds_what_serde_json_finds() {
        for pointer in [
            "",
            "/metadata",
            "/metadata/name",
            "/metadata/annotations/example.com~1a~0b",
            "/metadata/annotations/a\"b",
            "/spec/containers/0/args/0",
            "/spec/containers/0/args/1",
            "/spec/containers/1/image",
            "/spec/priority",
            "/empty",
            "/list",
            "/nothing",
            "/last",
        ] {
            assert!(expected(pointer).is_some(), "{pointer}");
            assert_eq!(found(pointer), expected(pointer), "{pointer}");
        }
    }

    #[test]
    fn pointer_to_a_missing_value_finds_nothing() {
        for pointer in [
            "metadata",
            "/",
            "/name",
            "/spec/containers/2",
            "/spec/containers/name",
            "/spec/containers/-",
            "/spec/containers/-1",
            "/spec/containers/+1",
            "/metadata/name/0",
            "/spec/priority/0",
            "/empty/x",
            "/list/0",
            "/last/x",
        ] {
            assert_eq!(found(pointer), None, "{pointer}");
            assert_eq!(expected(pointer), None, "{pointer}");
        }
    }

    #[test]
    fn a_truncated_document_ends_the_search() {
        for document in ["", "{", "[", "{\"a", "{\"a\"", "{\"a\":", "{\"a\":{\"b\"", "[1, {", "[\"\\"] {
            for pointer in ["/a/b", "/b", "/1/x", "/2"] {
                assert_eq!(at(document.as_bytes(), pointer), None, "{document} {pointer}");
            }
        }
    }

    #[test]
    fn null_fields_are_dropped_and_null_items_stay() {
        let mut value = json!({ "a": null, "b": { "c": null, "d": [null, { "e": null }] } });
        drop_nulls(&mut value);
        assert_eq!(value, json!({ "b": { "d": [null, {}] } }));
    }
}
