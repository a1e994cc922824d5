//! The random numbers of the process, which decide about the order of hash maps, follow from a seed.
//!
//! The standard library and all crates get random numbers by the C library's `getrandom`, so this binary has a function of that name.
//! The order in which a map is read is then one more chance of a history, and the same for the same seed.

use std::cell::Cell;

thread_local! {
    static STATE: Cell<u64> = const { Cell::new(0) };
}

/// Makes the random numbers of this thread from now on those of a seed. Other threads have others, so that it does not matter when they
/// run. A thread that has made a hash map before keeps its own.
pub fn seed(seed: u64) {
    STATE.set(seed);
}

/// Fills a buffer, as `getrandom(2)` does.
///
/// # Safety
/// The buffer must have the length.
#[allow(unsafe_code, reason = "the signature is that of the C library")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(buffer: *mut u8, length: usize, _flags: u32) -> isize {
    // SAFETY: the caller gives a buffer of this length.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer, length) };
    for byte in bytes {
        // A step of SplitMix64: any sequence will do that looks random.
        let mut next = STATE.get();
        STATE.set(next.wrapping_add(0x9E37_79B9_7F4A_7C15));
        next = (next ^ (next >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        *byte = next.to_be_bytes()[4];
    }
    isize::try_from(length).unwrap_or(isize::MAX)
}
