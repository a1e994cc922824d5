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
