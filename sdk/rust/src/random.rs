//! Random bytes from the host. They are the same in every call with the same request, and secret (seeded by an HMAC of
//! the request, whose key is a secret of the host), so fit for a generated password. Another request gets other bytes:
//! keep a generated value in a child.

/// Returns `count` random bytes, at most 1 MiB: the call fails if it asks for more at once. Outside wasm: the next bytes that the test sets (fewer than `count` if these run out),
/// or else the same bytes in every call.
pub fn bytes(count: u32) -> Vec<u8> {
    #[cfg(target_family = "wasm")]
    return wasip2::random::random::get_random_bytes(u64::from(count));
    #[cfg(not(target_family = "wasm"))]
    crate::testing::host::random(count)
}

/// Returns `length` random letters and digits, fewer only if a test has set too few bytes. 24 make a good password.
pub fn text(length: usize) -> String {
    const CHARACTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut text = String::new();
    while text.len() < length {
        let bytes = bytes(u32::try_from(length - text.len()).unwrap_or(u32::MAX));
        if bytes.is_empty() {
            break;
        }
        // Of 4 × 62 bytes, each character has four: all are equally likely.
        let used = bytes.iter().filter(|byte| **byte < 248);
        text.extend(used.filter_map(|byte| CHARACTERS.get(usize::from(byte % 62))).map(|byte| char::from(*byte)));
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn text_has_letters_and_digits_of_this_length() {
        let text = super::text(24);
        assert_eq!((text.len(), text.bytes().all(|byte| byte.is_ascii_alphanumeric())), (24, true), "{text}");
    }
}
