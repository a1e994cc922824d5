//! Mutations of an input: of its bytes, or of its JSON.

use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use crate::corpus::ParsedSeed;

/// Largest size of a mutated input, in bytes; the rest is cut.
const MAX_INPUT: usize = 64 * 1024;

/// Bytes that have broken parsers before.
const TOKENS: [&[u8]; 60] = [
    b"\0",
    b"\n",
    b"\r\n",
    b" ",
    b"\t",
    b"\x7f",
    b"\xff",
    // Not UTF-8: a lone lead byte, an overlong slash, half of a surrogate pair.
    b"\xc3\x28",
    b"\xc0\xaf",
    b"\xed\xa0\x80",
    "é".as_bytes(),
    "\u{feff}".as_bytes(),
    "\u{200b}".as_bytes(),
    "\u{202e}".as_bytes(),
    b".",
    b"..",
    b"/",
    b"/../",
    b"//",
    b"%2f",
    b"%00",
    b"?",
    b"#",
    b"@",
    b":",
    b"*",
    b"\\",
    b"\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b"-",
    b"+",
    b"=",
    b"0",
    b"0x7f",
    b"-1",
    b"1e999",
    b"18446744073709551616",
    b"9223372036854775808",
    b"null",
    b"true",
    b"\\u0000",
    b"\\ud800",
    b"\"\":",
    b"sha256:",
    b"sha512:",
    b"windlass.dev",
    b".k8s.io",
    b"kubernetes.io",
    b"https://",
    b"user:password@",
    b"localhost",
    b"application/wasm",
    // Headers of gzip and Zstandard, and a skippable frame.
    b"\x1f\x8b\x08\0\0\0\0\0\0\xff",
    b"\x28\xb5\x2f\xfd",
    b"\x50\x2a\x4d\x18\x04\0\0\0skip",
    &[b'['; 200],
];

/// JSON that has broken parsers before.
static VALUES: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let deep = (0..100).fold(json!(1), |below, _| json!([below]));
    vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5e300),
        json!(u64::MAX),
        json!(67_108_865),
        json!(""),
        json!("0"),
        json!(".."),
        json!("*"),
        json!("\u{0}"),
        json!("é"),
        json!("a".repeat(300)),
        json!([]),
        json!({}),
        json!([null]),
        json!([[], {}]),
        json!({"": ""}),
        json!({"a": null}),
        deep,
    ]
});

/// A mutation. An [`Index`] selects a place, a token, a value, a node of the JSON or another input, however many there
/// are.
#[derive(Debug, Clone, Copy)]
pub enum Change {
    /// Bits of one byte are flipped.
    BitsFlipped { at: Index, bits: u8 },
    /// Bytes are removed.
    BytesRemoved { at: Index, count: usize },
    /// The input is truncated.
    Truncated { at: Index },
    /// A token is inserted.
    TokenInserted { at: Index, token: Index },
    /// A token replaces bytes.
    Overwritten { at: Index, token: Index },
    /// A part is repeated.
    Repeated { at: Index, count: usize, times: usize },
    /// The end is replaced by that of another input.
    Spliced { at: Index, other: Index, other_at: Index },
    /// One value in the JSON is replaced by an odd one.
    ValueReplaced { node: Index, value: Index },
    /// One value in the JSON is replaced by one of another input.
    ValueGrafted { node: Index, other: Index, other_node: Index },
    /// A token is inserted into one string in the JSON.
    StringChanged { node: Index, at: Index, token: Index },
    /// One number in the JSON is replaced.
    NumberReplaced { node: Index, number: i64 },
    /// One entry of an object or array in the JSON is removed.
    EntryRemoved { node: Index },
    /// One key in the JSON is duplicated.
    KeyDuplicated { node: Index, key: Index },
}

/// One to three mutations: more often of JSON than of bytes, because most mutations of bytes break the JSON.
pub fn changes() -> impl Strategy<Value = Vec<Change>> {
    let any_of = any::<Index>;
    let change = prop_oneof![
        2 => (any_of(), 1..=u8::MAX).prop_map(|(at, bits)| Change::BitsFlipped { at, bits }),
        1 => (any_of(), 1..32_usize).prop_map(|(at, count)| Change::BytesRemoved { at, count }),
        1 => any_of().prop_map(|at| Change::Truncated { at }),
        2 => (any_of(), any_of()).prop_map(|(at, token)| Change::TokenInserted { at, token }),
        1 => (any_of(), any_of()).prop_map(|(at, token)| Change::Overwritten { at, token }),
        1 => (any_of(), 1..64_usize, 1..16_usize).prop_map(|(at, count, times)| Change::Repeated { at, count, times }),
        1 => (any_of(), any_of(), any_of()).prop_map(|(at, other, other_at)| Change::Spliced { at, other, other_at }),
        4 => (any_of(), any_of()).prop_map(|(node, value)| Change::ValueReplaced { node, value }),
        4 => (any_of(), any_of(), any_of())
            .prop_map(|(node, other, other_node)| Change::ValueGrafted { node, other, other_node }),
        4 => (any_of(), any_of(), any_of()).prop_map(|(node, at, token)| Change::StringChanged { node, at, token }),
        1 => (any_of(), any::<i64>()).prop_map(|(node, number)| Change::NumberReplaced { node, number }),
        2 => any_of().prop_map(|node| Change::EntryRemoved { node }),
        2 => (any_of(), any_of()).prop_map(|(node, key)| Change::KeyDuplicated { node, key }),
    ];
    proptest::collection::vec(change, 1..4)
}

impl Change {
    /// The mutated input. A mutation that does not fit, such as one of JSON for an input that is not JSON, changes
    /// nothing.
    pub fn apply(self, bytes: Vec<u8>, seeds: &[ParsedSeed]) -> Vec<u8> {
        let mut changed = match self.of_json(&bytes, seeds) {
            Some(changed) => changed,
            None => self.of_bytes(bytes, seeds),
        };
        changed.truncate(MAX_INPUT);
        changed
    }

    fn of_bytes(self, mut bytes: Vec<u8>, seeds: &[ParsedSeed]) -> Vec<u8> {
        let length = bytes.len();
        let place = |at: Index| at.index(length + 1);
        match self {
            Self::BitsFlipped { at, bits } if length > 0 => bytes[at.index(length)] ^= bits,
            Self::BytesRemoved { at, count } => drop(bytes.drain(place(at)..length.min(place(at) + count))),
            Self::Truncated { at } => bytes.truncate(place(at)),
            Self::TokenInserted { at, token } => {
                bytes.splice(place(at)..place(at), token_of(token).iter().copied());
            }
            Self::Overwritten { at, token } => {
                let token = token_of(token);
                bytes.splice(place(at)..length.min(place(at) + token.len()), token.iter().copied());
            }
            Self::Repeated { at, count, times } => {
                let piece = bytes[place(at)..length.min(place(at) + count)].repeat(times);
                bytes.splice(place(at)..place(at), piece);
            }
            Self::Spliced { at, other, other_at } => {
                let other = &seeds[other.index(seeds.len())].bytes;
                bytes.truncate(place(at));
                bytes.extend_from_slice(&other[other_at.index(other.len() + 1)..]);
            }
            _ => {}
        }
        bytes
    }

    fn of_json(self, bytes: &[u8], seeds: &[ParsedSeed]) -> Option<Vec<u8>> {
        let json = || serde_json::from_slice::<Value>(bytes).ok();
        let changed = match self {
            Self::ValueReplaced { node, value } => {
                let mut json = json()?;
                *node_of(&mut json, node, |_| true)? = VALUES[value.index(VALUES.len())].clone();
                json.to_string()
            }
            Self::ValueGrafted { node, other, other_node } => {
                let mut json = json()?;
                let mut other = seeds[other.index(seeds.len())].json.clone()?;
                *node_of(&mut json, node, |_| true)? = node_of(&mut other, other_node, |_| true)?.take();
                json.to_string()
            }
            Self::StringChanged { node, at, token } => {
                let mut json = json()?;
                let Value::String(text) = node_of(&mut json, node, Value::is_string)? else { return None };
                let places: Vec<_> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
                text.insert_str(places[at.index(places.len())], &String::from_utf8_lossy(token_of(token)));
                json.to_string()
            }
            Self::NumberReplaced { node, number } => {
                let mut json = json()?;
                *node_of(&mut json, node, Value::is_number)? = json!(number);
                json.to_string()
            }
            Self::EntryRemoved { node } => {
                let mut json = json()?;
                match node_of(&mut json, node, |value| value.is_object() || value.is_array())? {
                    Value::Object(map) => {
                        let key = map.keys().nth(node.index(map.len().max(1)))?.clone();
                        map.remove(&key);
                    }
                    Value::Array(items) if !items.is_empty() => drop(items.remove(node.index(items.len()))),
                    _ => return None,
                }
                json.to_string()
            }
            Self::KeyDuplicated { node, key: which } => {
                let mut json = json()?;
                let object = node_of(&mut json, node, Value::is_object)?;
                let map = object.as_object()?;
                let key = map.keys().nth(which.index(map.len().max(1)))?;
                let again = format!("{{{}:{},", json!(key), VALUES[which.index(VALUES.len())]);
                let twice = object.to_string().replacen('{', &again, 1);
                let mark = json!("\u{1}twice");
                *object = mark.clone();
                json.to_string().replacen(&mark.to_string(), &twice, 1)
            }
            _ => return None,
        };
        Some(changed.into_bytes())
    }
}

fn token_of(token: Index) -> &'static [u8] {
    TOKENS[token.index(TOKENS.len())]
}

/// One of the values for which `is_meant` is true.
fn node_of(json: &mut Value, at: Index, is_meant: fn(&Value) -> bool) -> Option<&mut Value> {
    let mut found = Vec::new();
    collect(json, &mut String::new(), is_meant, &mut found);
    if found.is_empty() {
        return None;
    }
    json.pointer_mut(&found[at.index(found.len())])
}

fn collect(value: &Value, pointer: &mut String, is_meant: fn(&Value) -> bool, found: &mut Vec<String>) {
    if is_meant(value) {
        found.push(pointer.clone());
    }
    let length = pointer.len();
    let mut below = |key: &str, value: &Value| {
        pointer.push('/');
        pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
        collect(value, pointer, is_meant, found);
        pointer.truncate(length);
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| below(key, value)),
        Value::Array(items) => items.iter().enumerate().for_each(|(at, value)| below(&at.to_string(), value)),
        _ => {}
    }
}
