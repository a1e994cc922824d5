//! Random bytes from the host. They are the same in every call with the same request, and secret (seeded by an HMAC of the
//! host's secret), so fit for a generated password. Another request gets other bytes: keep a generated value in a child.

/// This many random bytes. Outside wasm they are the same in every call, for tests.
pub fn bytes(count: u32) -> Vec<u8> {
    #[cfg(target_family = "wasm")]
    return wasip2::random::random::get_random_bytes(u64::from(count));
    #[cfg(not(target_family = "wasm"))]
    crate::testing::host::random(count)
}
