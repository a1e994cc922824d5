//! The strict parser (RFC 8259): UTF-8 only, no duplicate keys, no lone surrogates, bounded depth.

use compact_str::CompactString;

use super::{Map, Number, Value};

/// Initial capacity of a list.
const FIRST_ITEMS: usize = 4;

/// Why the host rejects a text as JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {offset}")]
pub struct Malformed {
    what: String,
    offset: usize,
}

/// A nesting depth beyond that of every object that the host has: it cannot read one from the API server that is nested deeper than
/// about 250.
pub const OBJECT_DEPTH: usize = 512;

/// Parses one JSON document.
///
/// # Errors
/// Anything that RFC 8259 does not allow, a duplicate key in an object, text that is not UTF-8, and nesting deeper than
/// `max_depth` objects and lists.
pub fn parse(bytes: &[u8], max_depth: usize) -> Result<Value, Malformed> {
    let mut room = usize::MAX;
    parse_within(bytes, max_depth, &mut room)
}

/// Like [`parse`], with a memory limit for untrusted responses: a value of two bytes takes dozens of bytes once parsed,
/// so the memory for list items and object entries is subtracted from `room`, in bytes.
///
/// # Errors
/// Those of [`parse`], and values that exceed `room`.
pub fn parse_within(bytes: &[u8], max_depth: usize, room: &mut usize) -> Result<Value, Malformed> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| Malformed { what: "invalid UTF-8".to_owned(), offset: error.valid_up_to() })?;
    let mut reader = Reader { text, at: 0, depth_left: max_depth, room };
    let value = reader.value()?;
    reader.skip_whitespace();
    match reader.peek() {
        None => Ok(value),
        Some(_) => Err(reader.error("unexpected text after the document")),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth_left: usize,
    room: &'a mut usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn error(&self, what: impl Into<String>) -> Malformed {
        Malformed { what: what.into(), offset: self.at }
    }

    fn skip_whitespace(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Result<Value, Malformed> {
        self.skip_whitespace();
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.string().map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true", Value::Bool(true)),
            Some(b'f') => self.literal("false", Value::Bool(false)),
            Some(b'n') => self.literal("null", Value::Null),
            Some(_) => Err(self.error("no JSON value")),
            None => Err(self.error("the text ends early")),
        }
    }

    fn literal(&mut self, word: &str, value: Value) -> Result<Value, Malformed> {
        if self.text.as_bytes().get(self.at..).is_some_and(|rest| rest.starts_with(word.as_bytes())) {
            self.at += word.len();
            Ok(value)
        } else {
            Err(self.error("no JSON value"))
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Value, Malformed>) -> Result<Value, Malformed> {
        self.depth_left = self.depth_left.checked_sub(1).ok_or_else(|| self.error("nested too deeply"))?;
        self.at += 1;
        let value = read(self)?;
        self.depth_left += 1;
        Ok(value)
    }

    fn array(&mut self) -> Result<Value, Malformed> {
        self.items(b']', "no ',' or ']' after a list's item", Self::value).map(Value::Array)
    }

    fn object(&mut self) -> Result<Value, Malformed> {
        let entries = self.items(b'}', "no ',' or '}' after an object's entry", Self::entry)?;
        Map::from_entries(entries)
            .map(Value::Object)
            .map_err(|key| self.error(format!("the key {key:?} stands twice in the object that ends")))
    }

    fn entry(&mut self) -> Result<(CompactString, Value), Malformed> {
        self.skip_whitespace();
        if self.peek() != Some(b'"') {
            return Err(self.error("no string where an object's key should be"));
        }
        let key = self.string()?;
        self.skip_whitespace();
        self.expect(b':', "no ':' after an object's key")?;
        Ok((key, self.value()?))
    }

    /// Reads items with commas between them, up to the character that ends them. `problem`: neither of the two stands after an item.
    fn items<T>(
        &mut self,
        end: u8,
        problem: &str,
        read: impl Fn(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let mut items = Vec::new();
        self.skip_whitespace();
        if self.take(end) {
            return Ok(items);
        }
        loop {
            let item = read(self)?;
            self.push(&mut items, item)?;
            self.skip_whitespace();
            if self.take(end) {
                return Ok(items);
            }
            self.expect(b',', problem)?;
        }
    }

    /// Appends an item, growing the list within `room`.
    fn push<T>(&mut self, items: &mut Vec<T>, item: T) -> Result<(), Malformed> {
        if items.len() == items.capacity() {
            let more = items.len().max(FIRST_ITEMS);
            let left = self.room.checked_sub(more.saturating_mul(size_of::<T>()));
            *self.room = left.ok_or_else(|| self.error("values that take more memory than they may"))?;
            items.reserve_exact(more);
        }
        items.push(item);
        Ok(())
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8, what: &str) -> Result<(), Malformed> {
        if self.take(byte) { Ok(()) } else { Err(self.error(what)) }
    }

    fn number(&mut self) -> Result<Value, Malformed> {
        let start = self.at;
        self.take(b'-');
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits()?,
            _ => return Err(self.error("no digit in a number")),
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _sign = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        Ok(Value::Number(Number::verbatim(self.text.get(start..self.at).unwrap_or_default())))
    }

    fn digits(&mut self) -> Result<(), Malformed> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(self.error("no digit in a number")) }
    }

    fn string(&mut self) -> Result<CompactString, Malformed> {
        self.at += 1;
        let mut out = CompactString::default();
        loop {
            let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
            let plain = rest
                .iter()
                .position(|byte| *byte < b' ' || *byte == b'"' || *byte == b'\\')
                .ok_or_else(|| self.error("a string without an end"))?;
            out.push_str(self.text.get(self.at..self.at + plain).unwrap_or_default());
            self.at += plain;
            if self.take(b'"') {
                return Ok(out);
            }
            if !self.take(b'\\') {
                return Err(self.error("a control character in a string"));
            }
            out.push(self.escape()?);
        }
    }

    fn escape(&mut self) -> Result<char, Malformed> {
        let escaped = self.peek().ok_or_else(|| self.error("a string without an end"))?;
        self.at += 1;
        Ok(match escaped {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode_escape(),
            _ => return Err(self.error("an escape that JSON does not know")),
        })
    }

    fn unicode_escape(&mut self) -> Result<char, Malformed> {
        let first = self.four_hex()?;
        let code = if (0xD800..0xDC00).contains(&first) {
            let second = if self.take(b'\\') && self.take(b'u') { self.four_hex()? } else { 0 };
            if !(0xDC00..0xE000).contains(&second) {
                return Err(self.error("half of a surrogate pair"));
            }
            0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00)
        } else {
            first
        };
        char::from_u32(code).ok_or_else(|| self.error("half of a surrogate pair"))
    }

    fn four_hex(&mut self) -> Result<u32, Malformed> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            code = code * 16 + digit.ok_or_else(|| self.error("no four hexadecimal digits after \\u"))?;
            self.at += 1;
        }
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reject(text: &[u8]) -> String {
        parse(text, 8).expect_err(&String::from_utf8_lossy(text)).to_string()
    }

    #[test]
    fn parsed_document_is_written_with_sorted_keys_and_unchanged_numbers() {
        let text = br#" {"b":[1.10, -0e+7, 9007199254740993 ,null,true,false],"a":"\u00e9\ud83d\ude00\n\"\\/" } "#;
        let value = parse(text, 8).expect("valid");
        assert_eq!(value.to_string(), r#"{"a":"é😀\n\"\\/","b":[1.10,-0e+7,9007199254740993,null,true,false]}"#);
    }

    #[test]
    fn ambiguous_and_invalid_documents_are_rejected_with_the_byte_position() {
        assert_eq!(reject(br#"{"a":1,"a":2}"#), "the key \"a\" stands twice in the object that ends at byte 13");
        assert_eq!(
            reject(br#"{"a":1,"b":0,"\u0061":2}"#),
            "the key \"a\" stands twice in the object that ends at byte 24"
        );
        assert_eq!(reject(b"\"\xff\""), "invalid UTF-8 at byte 1");
        assert_eq!(reject(b"[[[[[[[[[0]]]]]]]]]"), "nested too deeply at byte 8");
        assert!(parse(b"[[[[[[[[0]]]]]]]]", 8).is_ok());
        for bad in [
            "",
            "{",
            "[1,]",
            "{,}",
            "{\"a\"}",
            "01",
            "1.",
            ".5",
            "+1",
            "1e",
            "nul",
            "'a'",
            "\"\\x\"",
            "\"\\ud800\"",
            "\"\\udc00\"",
            "\"\\ud800\\u0041\"",
            "\"a\nb\"",
            "1 2",
            "NaN",
            "{\"a\":1 \"b\":2}",
            "\u{feff}1",
        ] {
            reject(bad.as_bytes());
        }
    }

    #[test]
    fn values_beyond_the_memory_budget_are_rejected_and_documents_share_the_budget() {
        const ROOM: usize = 8 * 4096;
        let read = |unit: &str, bytes: usize| {
            let text = format!("[{}]", vec![unit; bytes / (unit.len() + 1)].join(","));
            let mut room = ROOM;
            parse_within(text.as_bytes(), 8, &mut room).map(|_| ROOM - room)
        };
        for dense in ["0", "[0]", "{\"\":0}", "\"\"", "[[0]]"] {
            let error = read(dense, 4096).expect_err(dense).to_string();
            assert!(error.starts_with("values that take more memory than they may at byte"), "{error}");
        }
        let ordinary = r#"{"name":"web","image":"nginx:1.29","ports":[{"name":"http","containerPort":8080}]}"#;
        assert!(read(ordinary, 4096).is_ok_and(|taken| taken > 4096), "accepted values count against the budget");
        let mut room = 200;
        assert!(parse_within(b"[1]", 8, &mut room).is_ok());
        assert!(parse_within(b"[1]", 8, &mut room).is_err(), "several documents share the budget");
    }

    proptest! {
        #[test]
        fn any_bytes_that_the_parser_accepts_are_valid_for_serde_json(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let ours = parse(&bytes, 128);
            if ours.is_ok() {
                prop_assert!(serde_json::from_slice::<&serde_json::value::RawValue>(&bytes).is_ok());
            }
        }

        #[test]
        fn any_string_is_unchanged_after_writing_and_parsing(text in any::<String>()) {
            let value = Value::from(text);
            prop_assert_eq!(parse(value.to_string().as_bytes(), 1), Ok(value));
        }
    }
}
