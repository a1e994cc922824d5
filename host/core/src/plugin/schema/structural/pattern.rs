//! Compiled patterns, bounded in size and number.

use std::cell::RefCell;

use regex::{RegexSet, RegexSetBuilder};

use crate::value::bounded::{LruCache, bounded};

/// Largest length of a pattern, in bytes: while it is parsed, each class in it may need kilobytes.
pub(super) const PATTERN_LENGTH_MAX: usize = 4096;
/// Largest size of a compiled pattern of a CRD, in bytes: some need megabytes for a few characters.
pub(super) const PATTERN_MAX: usize = 1 << 20;
/// The same for the schema of a config: the host checks configs by the schemas of components that it does not trust.
pub(super) const PATTERN_OF_CONFIG_MAX: usize = 1 << 16;
/// Largest number of compiled patterns that a thread keeps: those of CRDs, and during a check those of a config.
pub(super) const PATTERNS_KEPT: usize = 32;

thread_local! {
    pub(super) static COMPILED: RefCell<LruCache<String, Option<RegexSet>>> = RefCell::new(bounded(PATTERNS_KEPT));
}

/// A pattern of a CRD, compiled; `None` if it cannot be read or is too large.
pub fn compiled(pattern: &str) -> Option<RegexSet> {
    compiled_within(pattern, PATTERN_MAX)
}

/// A pattern, compiled to at most so many bytes. `windlass test` validates thousands of parents, so that patterns are kept.
/// A set of one pattern needs no place for what each group matches, which grows with the square of the pattern.
pub(super) fn compiled_within(pattern: &str, size: usize) -> Option<RegexSet> {
    if pattern.len() > PATTERN_LENGTH_MAX {
        return None;
    }
    let compile = || RegexSetBuilder::new([pattern]).size_limit(size).dfa_size_limit(size).build().ok();
    COMPILED.with_borrow_mut(|all| all.get_or_insert_ref(pattern, compile).clone())
}
