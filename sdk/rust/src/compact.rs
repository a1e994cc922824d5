//! Removes the indentation of JSON at compile time: the size of a component is limited, and indentation is half of a CRD.

/// Whether a byte outside of a string is whitespace.
const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

/// The number of bytes of a document without whitespace.
#[must_use]
pub const fn size(document: &[u8]) -> usize {
    compact::<0>(document).0
}

/// A document without whitespace; `N` is its [`size`].
#[must_use]
pub const fn bytes<const N: usize>(document: &[u8]) -> [u8; N] {
    compact(document).1
}

/// The size of a document without whitespace, and its first `N` bytes.
#[allow(clippy::indexing_slicing, reason = "runs at compile time, where a wrong index is an error")]
const fn compact<const N: usize>(document: &[u8]) -> (usize, [u8; N]) {
    let (mut length, mut kept) = (0, [0; N]);
    let (mut at, mut in_string, mut is_escaped) = (0, false, false);
    while at < document.len() {
        let byte = document[at];
        if in_string || !is_blank(byte) {
            if length < N {
                kept[length] = byte;
            }
            length += 1;
        }
        if is_escaped {
            is_escaped = false;
        } else if in_string && byte == b'\\' {
            is_escaped = true;
        } else if byte == b'"' {
            in_string = !in_string;
        }
        at += 1;
    }
    (length, kept)
}

#[cfg(test)]
mod tests {
    use super::{bytes, size};

    #[test]
    fn only_whitespace_outside_of_strings_is_removed() {
        const DOCUMENT: &[u8] = b"{\n  \"a b\": [1, \"x\\\" y\", true ],\r\n\t\"c\": {}\n}\n";
        let compact: [u8; size(DOCUMENT)] = bytes(DOCUMENT);
        assert_eq!(compact.as_slice(), br#"{"a b":[1,"x\" y",true],"c":{}}"#);
        assert_eq!(size(b" \n"), 0);
    }
}
