//! Random bytes from the host: repeatable for the same request, and secret (seeded by an HMAC of the host's secret),
//! so fit for a generated password. Another request gets other bytes: keep what was generated in a child.

/// So many random bytes. Outside wasm the same ones in every call, for tests.
pub fn bytes(count: u32) -> Vec<u8> {
    #[cfg(target_family = "wasm")]
    return wasip2::random::random::get_random_bytes(u64::from(count));
    #[cfg(not(target_family = "wasm"))]
    crate::testing::sink::random(count)
}
