//! How much memory a value takes on the heap, for limits in bytes.

/// Memory that an allocation of this size takes, in bytes, with the allocator's own: sizes are multiples of 16, and each allocation has a
/// header of 8 bytes, as in glibc. Other allocators need about as much. Nothing is allocated for an empty value.
pub fn allocated(size: usize) -> usize {
    const HEADER: usize = 8;
    const GRANULE: usize = 16;
    const SMALLEST: usize = 32;
    if size == 0 { 0 } else { size.saturating_add(HEADER).next_multiple_of(GRANULE).max(SMALLEST) }
}

/// Memory of a value in an `Arc`, in bytes, with its two counts.
pub fn shared(size: usize) -> usize {
    allocated(size.saturating_add(2 * size_of::<usize>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_take_more_than_their_size() {
        assert_eq!([0, 1, 24, 25, 40, 41].map(allocated), [0, 32, 32, 48, 48, 64]);
        assert_eq!(shared(1), 32);
    }
}
