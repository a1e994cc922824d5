//! JSON without what only people need, made while a plugin is compiled: a component travels in a ConfigMap, and the
//! indentation of a definition is half of it.

/// Whether a byte outside of a string says nothing.
const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

/// How many bytes are left of a document.
#[must_use]
pub const fn size(document: &[u8]) -> usize {
    walk::<0>(document).0
}

/// What is left of a document; `N` is its [`size`].
#[must_use]
pub const fn bytes<const N: usize>(document: &[u8]) -> [u8; N] {
    walk(document).1
}

/// How many bytes are left, and the first `N` of them.
#[allow(clippy::indexing_slicing, reason = "a wrong index would be told by the compiler")]
const fn walk<const N: usize>(document: &[u8]) -> (usize, [u8; N]) {
    let (mut left, mut kept) = (0, [0; N]);
    let (mut at, mut in_string, mut is_escaped) = (0, false, false);
    while at < document.len() {
        let byte = document[at];
        if in_string || !is_blank(byte) {
            if left < N {
                kept[left] = byte;
            }
            left += 1;
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
    (left, kept)
}

#[cfg(test)]
mod tests {
    use super::{bytes, size};

    #[test]
    fn nothing_but_indentation_goes() {
        const DOCUMENT: &[u8] = b"{\n  \"a b\": [1, \"x\\\" y\", true ],\r\n\t\"c\": {}\n}\n";
        let compact: [u8; size(DOCUMENT)] = bytes(DOCUMENT);
        assert_eq!(compact.as_slice(), br#"{"a b":[1,"x\" y",true],"c":{}}"#);
        assert_eq!(size(b" \n"), 0);
    }
}
