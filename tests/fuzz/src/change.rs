//! Mutations of an input: of its bytes, or of its JSON.

use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use crate::corpus::Whole;

/// Mutations must not grow an input without bound.
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

/// A mutation.
#[derive(Debug, Clone, Copy)]
pub enum Change {
    /// Bits of one byte are flipped.
    Flipped(Index, u8),
    /// Bytes are removed.
    Cut(Index, usize),
    /// The input is truncated.
    Ended(Index),
    /// A token is inserted.
    Inserted(Index, Index),
    /// A token replaces bytes.
    Overwritten(Index, Index),
    /// A part is repeated.
    Repeated(Index, usize, usize),
    /// The end is replaced by that of another input.
    Spliced(Index, Index, Index),
    /// A value of its JSON is replaced by an odd one.
    Put(Index, Index),
    /// A value of its JSON is replaced by one of another input.
    Grafted(Index, Index, Index),
    /// A token is inserted into a string of its JSON.
    Spoiled(Index, Index, Index),
    /// A number of its JSON is replaced.
    Counted(Index, i64),
    /// An entry of its JSON is removed.
    Dropped(Index),
    /// A key of its JSON is duplicated.
    Twice(Index, Index),
}

/// One to three mutations: more often of JSON than of bytes, because most mutations of bytes break the JSON.
pub fn changes() -> impl Strategy<Value = Vec<Change>> {
    use Change::{
        Counted, Cut, Dropped, Ended, Flipped, Grafted, Inserted, Overwritten, Put, Repeated, Spliced, Spoiled, Twice,
    };
    let at = any::<Index>;
    let change = prop_oneof![
        2 => (at(), 1..=u8::MAX).prop_map(|(place, bits)| Flipped(place, bits)),
        1 => (at(), 1..32_usize).prop_map(|(place, length)| Cut(place, length)),
        1 => at().prop_map(Ended),
        2 => (at(), at()).prop_map(|(place, token)| Inserted(place, token)),
        1 => (at(), at()).prop_map(|(place, token)| Overwritten(place, token)),
        1 => (at(), 1..64_usize, 1..16_usize).prop_map(|(place, length, times)| Repeated(place, length, times)),
        1 => (at(), at(), at()).prop_map(|(place, other, theirs)| Spliced(place, other, theirs)),
        4 => (at(), at()).prop_map(|(node, value)| Put(node, value)),
        4 => (at(), at(), at()).prop_map(|(node, other, theirs)| Grafted(node, other, theirs)),
        4 => (at(), at(), at()).prop_map(|(node, place, token)| Spoiled(node, place, token)),
        1 => (at(), any::<i64>()).prop_map(|(node, number)| Counted(node, number)),
        2 => at().prop_map(Dropped),
        2 => (at(), at()).prop_map(|(node, value)| Twice(node, value)),
    ];
    proptest::collection::vec(change, 1..4)
}

impl Change {
    /// The mutated input. A mutation that does not fit, such as one of JSON for an input that is not JSON, changes
    /// nothing.
    pub fn apply(self, bytes: Vec<u8>, seeds: &[Whole]) -> Vec<u8> {
        let mut changed = match self.of_json(&bytes, seeds) {
            Some(changed) => changed,
            None => self.of_bytes(bytes, seeds),
        };
        changed.truncate(MAX_INPUT);
        changed
    }

    fn of_bytes(self, mut bytes: Vec<u8>, seeds: &[Whole]) -> Vec<u8> {
        let length = bytes.len();
        let place = |at: Index| at.index(length + 1);
        match self {
            Self::Flipped(at, bits) if length > 0 => bytes[at.index(length)] ^= bits,
            Self::Cut(at, count) => drop(bytes.drain(place(at)..length.min(place(at) + count))),
            Self::Ended(at) => bytes.truncate(place(at)),
            Self::Inserted(at, token) => {
                bytes.splice(place(at)..place(at), token_of(token).iter().copied());
            }
            Self::Overwritten(at, token) => {
                let token = token_of(token);
                bytes.splice(place(at)..length.min(place(at) + token.len()), token.iter().copied());
            }
            Self::Repeated(at, count, times) => {
                let piece = bytes[place(at)..length.min(place(at) + count)].repeat(times);
                bytes.splice(place(at)..place(at), piece);
            }
            Self::Spliced(at, other, theirs) => {
                let other = &seeds[other.index(seeds.len())].bytes;
                bytes.truncate(place(at));
                bytes.extend_from_slice(&other[theirs.index(other.len() + 1)..]);
            }
            _ => {}
        }
        bytes
    }

    fn of_json(self, bytes: &[u8], seeds: &[Whole]) -> Option<Vec<u8>> {
        let json = || serde_json::from_slice::<Value>(bytes).ok();
        let changed = match self {
            Self::Put(node, value) => {
                let mut json = json()?;
                *node_of(&mut json, node, |_| true)? = VALUES[value.index(VALUES.len())].clone();
                json.to_string()
            }
            Self::Grafted(node, other, theirs) => {
                let mut json = json()?;
                let mut other = seeds[other.index(seeds.len())].json.clone()?;
                *node_of(&mut json, node, |_| true)? = node_of(&mut other, theirs, |_| true)?.take();
                json.to_string()
            }
            Self::Spoiled(node, at, token) => {
                let mut json = json()?;
                let Value::String(text) = node_of(&mut json, node, Value::is_string)? else { return None };
                let places: Vec<_> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
                text.insert_str(places[at.index(places.len())], &String::from_utf8_lossy(token_of(token)));
                json.to_string()
            }
            Self::Counted(node, number) => {
                let mut json = json()?;
                *node_of(&mut json, node, Value::is_number)? = json!(number);
                json.to_string()
            }
            Self::Dropped(node) => {
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
            Self::Twice(node, value) => {
                let mut json = json()?;
                let object = node_of(&mut json, node, Value::is_object)?;
                let map = object.as_object()?;
                let key = map.keys().nth(value.index(map.len().max(1)))?;
                let again = format!("{{{}:{},", json!(key), VALUES[value.index(VALUES.len())]);
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
