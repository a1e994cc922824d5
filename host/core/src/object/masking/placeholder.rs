//! Makes the placeholder of a value: of the same length and alphabet, and the same for the same value and key.

use crate::value::digest;

/// Length of a key, in bytes.
pub const KEY_LENGTH: usize = 32;

/// Attempts that keep punctuation and white space; a value without letters and digits would stay as it is.
const KEEPING: u8 = 8;
/// Punctuation that gives a value its structure, as in URLs, keys and PEM. The placeholder has it at the same places, so that
/// it passes the same validation.
const STRUCTURE: &str = "-_.:/@=+ \t\r\n";
/// Other punctuation, without characters that JSON or a shell would have to escape.
const PUNCTUATION: &[u8] = b"!#%^*,;?~";

/// The key of one recording.
pub struct Key([u8; KEY_LENGTH]);

impl Key {
    /// Wraps random bytes.
    pub fn new(bytes: [u8; KEY_LENGTH]) -> Self {
        Self(bytes)
    }

    /// A key for one purpose and one subject, by HMAC-SHA-256.
    pub fn derive(&self, purpose: &[u8], subject: &[u8]) -> [u8; 32] {
        mac(&self.0, &[purpose, subject])
    }

    /// The placeholder of a value. It differs from the value, unless the value is empty.
    pub fn placeholder(&self, value: &[u8]) -> Vec<u8> {
        let mut attempt = 0u8;
        loop {
            let mut stream = Stream { key: self.derive(&[b'v', attempt], value), block: [0; 32], next: 32, count: 0 };
            let masked = match str::from_utf8(value) {
                Ok(text) => text.chars().map(|char| stream.like(char, attempt < KEEPING)).collect::<String>().into(),
                Err(_) => value.iter().map(|byte| stream.like_byte(*byte)).collect::<Vec<u8>>(),
            };
            attempt = attempt.wrapping_add(1);
            if masked != value || value.is_empty() {
                return masked;
            }
        }
    }
}

/// The marker of a value, for readers: no name has its characters. Markers of equal values are equal, and those of two values differ
/// nearly always.
pub(super) fn marker(key: &Key, value: &[u8]) -> String {
    let [a, b, c, ..] = key.derive(b"m", value);
    format!("‹secret {a:02x}{b:02x}{c:02x}›")
}

fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    digest::mac(key, parts).map(|mac| *mac.as_bytes()).unwrap_or_default()
}

/// Pseudorandom bytes.
struct Stream {
    key: [u8; 32],
    block: [u8; 32],
    next: usize,
    count: u64,
}

impl Stream {
    fn byte(&mut self) -> u8 {
        if self.next == self.block.len() {
            self.block = mac(&self.key, &[&self.count.to_le_bytes()]);
            self.count += 1;
            self.next = 0;
        }
        let byte = self.block.get(self.next).copied().unwrap_or_default();
        self.next += 1;
        byte
    }

    /// A number below `bound`, which is at most 65536. It need not be uniform: it only has to hide the value.
    fn below(&mut self, bound: u32) -> u32 {
        u32::from(u16::from_le_bytes([self.byte(), self.byte()])) % bound
    }

    fn between(&mut self, first: u32, last: u32) -> char {
        char::from_u32(first + self.below(last - first + 1)).unwrap_or('x')
    }

    /// A character of the same kind and of the same length in UTF-8.
    fn like(&mut self, char: char, keeps_structure: bool) -> char {
        match char {
            'a'..='z' => self.between('a'.into(), 'z'.into()),
            'A'..='Z' => self.between('A'.into(), 'Z'.into()),
            '0'..='9' => self.between('0'.into(), '9'.into()),
            kept if keeps_structure && STRUCTURE.contains(kept) => kept,
            '\0'..='\x7f' if keeps_structure => {
                let at = self.below(u32::try_from(PUNCTUATION.len()).unwrap_or(1)) as usize;
                PUNCTUATION.get(at).map_or('!', |byte| char::from(*byte))
            }
            '\0'..='\x7f' => self.between('a'.into(), 'z'.into()),
            // Latin, Hiragana and Katakana, and pictographs.
            other => match other.len_utf8() {
                2 => self.between(0x00c0, 0x017f),
                3 => self.between(0x3041, 0x3096),
                _ => self.between(0x1_f300, 0x1_f5ff),
            },
        }
    }

    /// A byte of the same kind, for values that are not text.
    fn like_byte(&mut self, byte: u8) -> u8 {
        if byte.is_ascii() {
            u8::try_from(u32::from(self.like(byte.into(), true))).unwrap_or(b'x')
        } else {
            0x80 | self.byte()
        }
    }
}
