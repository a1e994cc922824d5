//! Maps with a maximum number of entries: a new entry beyond it evicts the least recently used one.

use std::hash::Hash;
use std::num::NonZeroUsize;

pub use lru::LruCache;

/// An empty map with at most this number of entries, and at least one. It allocates memory only as it grows.
pub fn bounded<K: Hash + Eq, V>(max: usize) -> LruCache<K, V> {
    LruCache::sparse(NonZeroUsize::new(max).unwrap_or(NonZeroUsize::MIN))
}
